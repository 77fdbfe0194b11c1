/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "format/npy.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

/* The header is text of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. Of that
 * language we know so much as NumPy writes, in any order and spacing. */

#define MAGIC      "\x93NUMPY"
#define MAGIC_SIZE 6

struct parser {
    const uint8_t *file; /* first byte of the file */
    const char *at, *end;
    const char *path;
    struct sheaf__npy *npy;
    unsigned seen; /* keys */
};

enum { DESCR = 1, ORDER = 2, SHAPE = 4 };

static sheaf_status fail(const struct parser *p, sheaf_error *err, sheaf_status status,
                         const char *format, ...) SHEAF_PRINTF(4, 5);
static __attribute__((cold)) sheaf_status fail(const struct parser *p, sheaf_error *err,
                                               sheaf_status status, const char *format, ...)
{
    const struct sheaf__place place = {p->path, SHEAF__UNKNOWN,
                                       (uint64_t)((const uint8_t *)p->at - p->file)};
    va_list args;
    va_start(args, format);
    sheaf__verror_at(err, status, &place, format, args);
    va_end(args);
    return status;
}

/* ---- words ---- */

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || (*p->at >= '\t' && *p->at <= '\r')))
        p->at++;
}

/* The next character that is not blank; 0 at the end. */
static char peek(struct parser *p)
{
    skip_blanks(p);
    return p->at < p->end ? *p->at : '\0';
}

static bool take(struct parser *p, char c)
{
    if (peek(p) != c)
        return false;
    p->at++;
    return true;
}

static sheaf_status expect(struct parser *p, char c, sheaf_error *err)
{
    if (take(p, c))
        return SHEAF_OK;
    return fail(p, err, SHEAF_ERR_DATA_LOSS, "the header has \"%.*s\", expected '%c'",
                p->end - p->at < 20 ? (int)(p->end - p->at) : 20, p->at, c);
}

/* A quoted string without escapes. */
static sheaf_status take_string(struct parser *p, sheaf_bytes *text, sheaf_error *err)
{
    const char quote = peek(p);
    if (quote != '\'' && quote != '"')
        return expect(p, '\'', err);
    const char *start = p->at + 1;
    const char *end = memchr(start, quote, (size_t)(p->end - start));
    if (!end || memchr(start, '\\', (size_t)(end - start)))
        return fail(p, err, SHEAF_ERR_DATA_LOSS, "the header has a string without an end");
    *text = (sheaf_bytes){start, (size_t)(end - start)};
    p->at = end + 1;
    return SHEAF_OK;
}

static bool is(sheaf_bytes text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static bool take_word(struct parser *p, const char *word)
{
    const size_t size = strlen(word);
    skip_blanks(p);
    if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size) != 0)
        return false;
    p->at += size;
    return true;
}

/* A decimal number with the suffix that Python 2 gave long ones. */
static sheaf_status take_size(struct parser *p, int64_t *size, sheaf_error *err)
{
    peek(p);
    const char *start = p->at;
    bool over = false;
    *size = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        over = over || __builtin_mul_overflow(*size, 10, size) ||
               __builtin_add_overflow(*size, *p->at - '0', size);
    if (p->at == start || over) {
        p->at = start;
        return fail(p, err, SHEAF_ERR_DATA_LOSS, "the shape has \"%.*s\", expected a size",
                    p->end - p->at < 20 ? (int)(p->end - p->at) : 20, p->at);
    }
    if (p->at < p->end && *p->at == 'L')
        p->at++;
    return SHEAF_OK;
}

/* ---- values ---- */

static const struct {
    char kind;
    uint8_t size;
    uint8_t dtype;
} numbers[] = {{'b', 1, SHEAF_BOOL},      {'i', 1, SHEAF_INT8},       {'i', 2, SHEAF_INT16},
               {'i', 4, SHEAF_INT32},     {'i', 8, SHEAF_INT64},      {'u', 1, SHEAF_UINT8},
               {'u', 2, SHEAF_UINT16},    {'u', 4, SHEAF_UINT32},     {'u', 8, SHEAF_UINT64},
               {'f', 2, SHEAF_FLOAT16},   {'f', 4, SHEAF_FLOAT32},    {'f', 8, SHEAF_FLOAT64},
               {'c', 8, SHEAF_COMPLEX64}, {'c', 16, SHEAF_COMPLEX128}};

/* What a dtype of NumPy's is for that is no tensor's; NULL: there is no such dtype. */
static const char *why_not(char kind)
{
    switch (kind) {
    case 'O':
        return "for objects, which only Python can read";
    case 'V':
        return "for raw bytes; bfloat16 and float8 lose their names in these files";
    case 'M':
    case 'm':
        return "for dates or times";
    case 'S':
    case 'U':
        return "for strings of no bytes";
    case 'f':
    case 'c':
        return "for numbers that are no tensor's";
    default:
        return NULL;
    }
}

/* "<f4": byte order, kind, size. */
struct descr {
    char order, kind;
    size_t size;
};

static bool read_descr(sheaf_bytes text, struct descr *d)
{
    if (text.size < 2)
        return false;
    *d = (struct descr){.order = text.data[0], .kind = text.data[1]};
    bool right = d->order && strchr("<>|=", d->order) && text.size < 12;
    const bool time = d->kind == 'M' || d->kind == 'm'; /* "<M8[ns]" */
    for (size_t i = 2; i < text.size && right && !(time && text.data[i] == '['); i++) {
        right = text.data[i] >= '0' && text.data[i] <= '9';
        d->size = d->size * 10 + (size_t)(text.data[i] - '0');
    }
    return right;
}

/* Finds the dtype; false if none of a tensor is like that. */
static bool find_dtype(const struct descr *d, struct sheaf__npy *npy)
{
    npy->big_endian = d->order == '>';
    npy->width = d->size;
    npy->dtype = SHEAF_STRING;
    npy->kind = d->kind == 'U' ? SHEAF__NPY_TEXT : SHEAF__NPY_BYTES;
    if (d->kind == 'U' || d->kind == 'S')
        return d->size > 0;
    npy->kind = SHEAF__NPY_NUMBERS;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i].kind == d->kind && numbers[i].size == d->size) {
            npy->dtype = (sheaf_dtype)numbers[i].dtype;
            return true;
        }
    return false;
}

static sheaf_status set_dtype(struct parser *p, sheaf_bytes text, sheaf_error *err)
{
    struct descr d = {0};
    const bool read = read_descr(text, &d);
    if (read && find_dtype(&d, p->npy))
        return SHEAF_OK;
    const char *why = read ? why_not(d.kind) : NULL;
    const int shown = text.size < 30 ? (int)text.size : 30;
    if (why)
        return fail(p, err, SHEAF_ERR_UNIMPLEMENTED, "the dtype is '%.*s', which is %s", shown,
                    text.data, why);
    return fail(p, err, SHEAF_ERR_DATA_LOSS, "the dtype is '%.*s', expected one like '<f4'", shown,
                text.data);
}

static sheaf_status take_dtype(struct parser *p, sheaf_error *err)
{
    sheaf_bytes text;
    if (peek(p) == '[')
        return fail(p, err, SHEAF_ERR_UNIMPLEMENTED,
                    "the elements have several fields, expected numbers or strings");
    SHEAF__TRY(take_string(p, &text, err));
    return set_dtype(p, text, err);
}

static sheaf_status take_order(struct parser *p, sheaf_error *err)
{
    p->npy->column_major = take_word(p, "True");
    if (p->npy->column_major || take_word(p, "False"))
        return SHEAF_OK;
    return fail(p, err, SHEAF_ERR_DATA_LOSS, "fortran_order is neither True nor False");
}

static sheaf_status take_shape(struct parser *p, sheaf_error *err)
{
    sheaf_shape *shape = &p->npy->shape;
    SHEAF__TRY(expect(p, '(', err));
    *shape = SHEAF_SCALAR;
    while (!take(p, ')')) {
        if (shape->rank == SHEAF_MAX_RANK)
            return fail(p, err, SHEAF_ERR_UNIMPLEMENTED, "the array has more than %d axes",
                        SHEAF_MAX_RANK);
        SHEAF__TRY(take_size(p, &shape->dims[shape->rank++], err));
        if (!take(p, ',') && peek(p) != ')')
            return expect(p, ')', err);
    }
    return SHEAF_OK;
}

/* ---- the header ---- */

static sheaf_status take_entry(struct parser *p, sheaf_error *err)
{
    sheaf_bytes key;
    SHEAF__TRY(take_string(p, &key, err));
    const unsigned which = is(key, "descr")           ? DESCR
                           : is(key, "fortran_order") ? ORDER
                           : is(key, "shape")         ? SHAPE
                                                      : 0;
    if (which == 0 || (p->seen & which))
        return fail(p, err, SHEAF_ERR_DATA_LOSS,
                    "the header has \"%.*s\"%s, expected descr, fortran_order and shape, each once",
                    key.size < 40 ? (int)key.size : 40, key.data, which ? " again" : "");
    p->seen |= which;
    SHEAF__TRY(expect(p, ':', err));
    if (which == DESCR)
        return take_dtype(p, err);
    return which == ORDER ? take_order(p, err) : take_shape(p, err);
}

static sheaf_status take_header(struct parser *p, sheaf_error *err)
{
    SHEAF__TRY(expect(p, '{', err));
    while (!take(p, '}')) {
        SHEAF__TRY(take_entry(p, err));
        if (!take(p, ',') && peek(p) != '}')
            return expect(p, '}', err);
    }
    if (peek(p))
        return fail(p, err, SHEAF_ERR_DATA_LOSS, "the header goes on behind its end");
    if (p->seen != (DESCR | ORDER | SHAPE))
        return fail(p, err, SHEAF_ERR_DATA_LOSS, "the header lacks %s",
                    !(p->seen & DESCR)   ? "descr"
                    : !(p->seen & ORDER) ? "fortran_order"
                                         : "shape");
    return SHEAF_OK;
}

/* Bytes of all elements in the file. */
static sheaf_status data_size(const struct parser *p, size_t *bytes, sheaf_error *err)
{
    const struct sheaf__npy *npy = p->npy;
    int64_t elements;
    sheaf_error cause;
    bool over = sheaf__shape_bytes(npy->dtype, npy->shape, &elements, bytes, &cause) < 0;
    if (!over && npy->kind != SHEAF__NPY_NUMBERS)
        over = __builtin_mul_overflow((size_t)elements, npy->width, bytes) ||
               (npy->kind == SHEAF__NPY_TEXT && __builtin_mul_overflow(*bytes, 4, bytes));
    if (over)
        return fail(p, err, SHEAF_ERR_DATA_LOSS, "an array of shape %s fits no memory",
                    SHEAF__SHAPE_TEXT(npy->shape));
    return SHEAF_OK;
}

/* Checks magic and version; the text of the header is what `p` parses then. */
static sheaf_status find_header(struct parser *p, size_t size, sheaf_error *err)
{
    const uint8_t *file = p->file;
    if (size < MAGIC_SIZE + 4)
        return fail(p, err, SHEAF_ERR_DATA_LOSS,
                    "the file has %zu bytes, expected an array of NumPy", size);
    if (memcmp(file, MAGIC, MAGIC_SIZE) != 0)
        return fail(p, err, SHEAF_ERR_DATA_LOSS, "the file does not start like an array of NumPy");
    const unsigned major = file[MAGIC_SIZE], minor = file[MAGIC_SIZE + 1];
    if (major < 1 || major > 3 || minor != 0)
        return fail(p, err, SHEAF_ERR_UNIMPLEMENTED,
                    "version %u.%u of the format, expected 1.0 to 3.0", major, minor);
    const size_t start = major == 1 ? MAGIC_SIZE + 4 : MAGIC_SIZE + 6;
    const size_t length = major == 1      ? (size_t)file[8] | (size_t)file[9] << 8
                          : size >= start ? sheaf__load32(file + 8)
                                          : SIZE_MAX;
    if (size < start || length > size - start)
        return fail(p, err, SHEAF_ERR_DATA_LOSS,
                    "the file has %zu bytes and ends within its header", size);
    p->at = (const char *)file + start;
    p->end = p->at + length;
    return SHEAF_OK;
}

size_t sheaf__npy_head_size(const uint8_t start[SHEAF__NPY_START])
{
    if (memcmp(start, MAGIC, MAGIC_SIZE) != 0)
        return SHEAF__NPY_START;
    return start[MAGIC_SIZE] == 1 ? (size_t)10 + start[8] + (size_t)start[9] * 256
                                  : (size_t)12 + sheaf__load32(start + 8);
}

sheaf_status sheaf__npy_parse_head(const uint8_t *data, size_t size, uint64_t total,
                                   const char *path, struct sheaf__npy *npy, sheaf_error *err)
{
    struct parser p = {.file = data, .at = (const char *)data, .path = path, .npy = npy};
    size_t bytes;
    *npy = (struct sheaf__npy){0};
    SHEAF__TRY(find_header(&p, size, err));
    SHEAF__TRY(take_header(&p, err));
    SHEAF__TRY(data_size(&p, &bytes, err));
    p.at = p.end;
    npy->offset = (uint64_t)((const uint8_t *)p.end - data);
    if (bytes > total - npy->offset)
        return fail(&p, err, SHEAF_ERR_DATA_LOSS,
                    "the file has %llu bytes of an array of shape %s, expected %zu",
                    (unsigned long long)(total - npy->offset), SHEAF__SHAPE_TEXT(npy->shape),
                    bytes);
    return SHEAF_OK;
}

sheaf_status sheaf__npy_parse(const uint8_t *data, size_t size, const char *path,
                              struct sheaf__npy *npy, sheaf_error *err)
{
    return sheaf__npy_parse_head(data, size, size, path, npy, err);
}

/* ---- writing ---- */

#define GROWTH 21 /* digits that NumPy keeps room for, so that the first axis can grow in place */

/* "<f4"; false: NumPy has no such dtype. */
static bool put_descr(struct sheaf__str *text, sheaf_dtype dtype, size_t width, bool characters)
{
    if (dtype == SHEAF_STRING) {
        sheaf__str_printf(text, "%s%zu", characters ? "<U" : "|S", width);
        return true;
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i].dtype == dtype) {
            sheaf__str_printf(text, "%c%c%d", numbers[i].size == 1 ? '|' : '<', numbers[i].kind,
                              numbers[i].size);
            return true;
        }
    return false;
}

sheaf_status sheaf__npy_header(struct sheaf__buf *out, sheaf_dtype dtype, sheaf_shape shape,
                               size_t width, bool characters, sheaf_error *err)
{
    struct sheaf__str text = {0};
    sheaf__str_add(&text, "{'descr': '");
    if (!put_descr(&text, dtype, width, characters)) {
        sheaf__str_free(&text);
        return sheaf__error(err, SHEAF_ERR_UNIMPLEMENTED, "NumPy's files have no dtype %s",
                            sheaf_dtype_name(dtype));
    }
    sheaf__str_add(&text, "', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < shape.rank; i++)
        sheaf__str_printf(&text, i ? ", %lld" : "%lld", (long long)shape.dims[i]);
    sheaf__str_add(&text, shape.rank == 1 ? ",), }" : "), }");
    char first[24];
    if (shape.rank)
        for (int n = snprintf(first, sizeof(first), "%lld", (long long)shape.dims[0]); n < GROWTH;
             n++)
            sheaf__str_char(&text, ' ');
    while (!text.failed && (MAGIC_SIZE + 4 + text.size + 1) % 64)
        sheaf__str_char(&text, ' ');
    sheaf__str_char(&text, '\n');
    sheaf__buf_bytes(out, MAGIC "\1\0", MAGIC_SIZE + 2);
    sheaf__buf_byte(out, (uint8_t)text.size);
    sheaf__buf_byte(out, (uint8_t)(text.size >> 8));
    sheaf__buf_bytes(out, sheaf__str_text(&text), text.size);
    const bool failed = text.failed;
    sheaf__str_free(&text);
    return failed ? sheaf__no_memory(err, "the header of an array")
                  : sheaf__buf_check(out, "the header of an array", err);
}
