/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/inflate.h"
#include "base/mem.h"
#include "format/zip.h"

#include <stdlib.h>
#include <string.h>

#define END_SIZE     22 /* of the record at the end, without its comment */
#define MOST_COMMENT 65535
#define LOCAL_SIZE   30         /* of what stands before a member */
#define ENTRY_SIZE   46         /* of a member in the directory, without its name */
#define MOST_PACKED  1032       /* bytes that deflate makes of one, at most */
#define WINDOW       (64 << 10) /* compressed bytes in memory */

/* A deflated member is a gzip member without what stands around it: with that put back, its length and checksum are
 * checked as gzip's are. */
#define HEAD_SIZE 10
#define TAIL_SIZE 8

struct sheaf__zip_file {
    struct sheaf__file *file;
    uint64_t directory; /* offset of the directory: members end before it */
    struct sheaf__zip_member *members;
    size_t count, capacity;
    /* The deflated member that is being read. */
    struct sheaf__inflate *inflate;
    size_t reading;  /* its number */
    uint64_t at;     /* bytes of it that were read; UINT64_MAX: none is being read */
    uint64_t fed;    /* compressed bytes that were given, those around it included */
    uint8_t *window; /* WINDOW bytes */
    size_t used, filled;
};

static sheaf_status fault(const struct sheaf__zip_file *z, sheaf_error *err, sheaf_status status,
                          uint64_t offset, const char *format, ...) SHEAF_PRINTF(5, 6);
static __attribute__((cold)) sheaf_status fault(const struct sheaf__zip_file *z, sheaf_error *err,
                                                sheaf_status status, uint64_t offset,
                                                const char *format, ...)
{
    const struct sheaf__place place = {sheaf__file_path(z->file), SHEAF__UNKNOWN, offset};
    va_list args;
    va_start(args, format);
    sheaf__verror_at(err, status, &place, format, args);
    va_end(args);
    return status;
}

static uint16_t load16(const uint8_t *data)
{
    return (uint16_t)(data[0] | data[1] << 8);
}

static sheaf_status read_exactly(struct sheaf__zip_file *z, uint64_t at, void *out, size_t size,
                                 sheaf_error *err)
{
    size_t got = 0;
    SHEAF__TRY(sheaf__file_read_at(z->file, at, out, size, &got, err));
    if (got < size)
        return fault(z, err, SHEAF_ERR_DATA_LOSS, at + got,
                     "the file ends after %zu of %zu bytes of an archive", got, size);
    return SHEAF_OK;
}

void sheaf__zip_free(struct sheaf__zip_file *z)
{
    if (!z)
        return;
    if (z->file)
        (void)sheaf__file_close(z->file, NULL);
    for (size_t i = 0; i < z->count; i++)
        sheaf__free(z->members[i].name);
    sheaf__free(z->members);
    sheaf__inflate_free(z->inflate);
    sheaf__free(z->window);
    sheaf__free(z);
}

size_t sheaf__zip_count(const struct sheaf__zip_file *z)
{
    return z->count;
}

const struct sheaf__zip_member *sheaf__zip_member(const struct sheaf__zip_file *z, size_t i)
{
    return &z->members[i];
}

/* ---- the directory ---- */

/* Where the directory is, as the record at the end says. */
struct directory {
    uint64_t offset, size, count;
};

static sheaf_status read_zip64(struct sheaf__zip_file *z, uint64_t end, struct directory *d,
                               sheaf_error *err)
{
    uint8_t locator[20], record[56];
    if (end < sizeof(locator))
        return SHEAF_OK;
    SHEAF__TRY(read_exactly(z, end - sizeof(locator), locator, sizeof(locator), err));
    if (memcmp(locator, "PK\6\7", 4) != 0)
        return SHEAF_OK;
    const uint64_t at = sheaf__load64(locator + 8);
    if (at > end - sizeof(locator) || end - sizeof(locator) - at < sizeof(record))
        return fault(z, err, SHEAF_ERR_DATA_LOSS, end - sizeof(locator),
                     "the record at the end of the archive is said to be at %llu",
                     (unsigned long long)at);
    SHEAF__TRY(read_exactly(z, at, record, sizeof(record), err));
    if (memcmp(record, "PK\6\6", 4) != 0)
        return fault(z, err, SHEAF_ERR_DATA_LOSS, at,
                     "the record at the end of the archive is none");
    *d = (struct directory){sheaf__load64(record + 48), sheaf__load64(record + 40),
                            sheaf__load64(record + 32)};
    return SHEAF_OK;
}

/* Looks for the record at the end, which has a comment behind it of any length. */
static sheaf_status find_directory(struct sheaf__zip_file *z, struct directory *d, sheaf_error *err)
{
    uint64_t size = 0;
    SHEAF__TRY(sheaf__file_size(z->file, &size, err));
    const size_t tail = size < END_SIZE + MOST_COMMENT ? (size_t)size : END_SIZE + MOST_COMMENT;
    uint8_t *bytes = sheaf__alloc(tail + 1);
    if (!bytes)
        return sheaf__no_memory(err, "an archive");
    sheaf_status status = read_exactly(z, size - tail, bytes, tail, err);
    size_t at = tail < END_SIZE ? 0 : tail - END_SIZE + 1;
    bool found = false;
    while (status >= 0 && !found && at-- > 0)
        found = memcmp(bytes + at, "PK\5\6", 4) == 0 &&
                (size_t)load16(bytes + at + 20) == tail - at - END_SIZE;
    if (status >= 0 && !found)
        status = fault(z, err, SHEAF_ERR_DATA_LOSS, size,
                       "the file of %llu bytes does not end as a ZIP archive does",
                       (unsigned long long)size);
    if (status >= 0) {
        *d = (struct directory){sheaf__load32(bytes + at + 16), sheaf__load32(bytes + at + 12),
                                load16(bytes + at + 10)};
        const uint64_t end = size - tail + at;
        status = read_zip64(z, end, d, err);
        if (status >= 0 &&
            (d->offset > end || d->size > end - d->offset || d->count > d->size / ENTRY_SIZE))
            status =
                fault(z, err, SHEAF_ERR_DATA_LOSS, end,
                      "the directory of %llu members is said to be the %llu bytes from %llu on",
                      (unsigned long long)d->count, (unsigned long long)d->size,
                      (unsigned long long)d->offset);
    }
    sheaf__free(bytes);
    return status;
}

/* The numbers that had no room in the entry itself, in this order. */
static bool take_extra(const uint8_t *extra, size_t size, struct sheaf__zip_member *m,
                       uint64_t *offset)
{
    struct sheaf__cursor c = sheaf__cursor_of(extra, size);
    uint64_t *const wanted[] = {&m->size, &m->packed, offset};
    while (sheaf__cursor_left(&c) >= 4) {
        const uint8_t *head;
        if (!sheaf__cursor_bytes(&c, 4, &head) || load16(head + 2) > sheaf__cursor_left(&c))
            return false;
        const size_t length = load16(head + 2);
        if (load16(head) != 1) {
            sheaf__cursor_skip(&c, length);
            continue;
        }
        struct sheaf__cursor in = sheaf__cursor_of(c.at, length);
        for (int i = 0; i < 3; i++)
            if (*wanted[i] == UINT32_MAX && !sheaf__cursor_fixed64(&in, wanted[i]))
                return false;
        return true;
    }
    return m->size != UINT32_MAX && m->packed != UINT32_MAX && *offset != UINT32_MAX;
}

/* The header of a member, which gives its name again. */
static sheaf_status check_name(struct sheaf__zip_file *z, const struct sheaf__zip_member *m,
                               uint64_t offset, size_t size, sheaf_error *err)
{
    char *name = sheaf__alloc(size + 1);
    if (!name)
        return sheaf__no_memory(err, "the members of an archive");
    sheaf_status status = read_exactly(z, offset, name, size, err);
    name[status < 0 ? 0 : size] = '\0';
    if (status >= 0 && (size != strlen(m->name) || memcmp(name, m->name, size) != 0))
        status = fault(z, err, SHEAF_ERR_DATA_LOSS, offset,
                       "member '%.100s' is called '%.100s' in its own header", m->name, name);
    sheaf__free(name);
    return status;
}

/* Where the bytes of the member begin: behind a header of its own. */
static sheaf_status find_data(struct sheaf__zip_file *z, struct sheaf__zip_member *m,
                              uint64_t offset, sheaf_error *err)
{
    uint8_t local[LOCAL_SIZE];
    if (offset > z->directory || z->directory - offset < LOCAL_SIZE)
        return fault(z, err, SHEAF_ERR_DATA_LOSS, offset,
                     "member '%.100s' lies outside the archive", m->name);
    SHEAF__TRY(read_exactly(z, offset, local, sizeof(local), err));
    m->data = offset + LOCAL_SIZE + load16(local + 26) + load16(local + 28);
    if (memcmp(local, "PK\3\4", 4) != 0 || m->data > z->directory ||
        m->packed > z->directory - m->data)
        return fault(z, err, SHEAF_ERR_DATA_LOSS, offset,
                     "member '%.100s' of %llu bytes is not where the directory has it", m->name,
                     (unsigned long long)m->packed);
    return check_name(z, m, offset + LOCAL_SIZE, load16(local + 26), err);
}

static sheaf_status check_member(const struct sheaf__zip_file *z, const struct sheaf__zip_member *m,
                                 const uint8_t *entry, sheaf_error *err)
{
    const unsigned flags = load16(entry + 8), method = load16(entry + 10);
    if (flags & 1)
        return fault(z, err, SHEAF_ERR_UNIMPLEMENTED, m->data, "member '%.100s' is encrypted",
                     m->name);
    if (method != 0 && method != 8)
        return fault(z, err, SHEAF_ERR_UNIMPLEMENTED, m->data,
                     "member '%.100s' is packed by method %u, expected 0 (stored) or 8 (deflated)",
                     m->name, method);
    const bool fits = m->deflated ? m->size / MOST_PACKED <= m->packed : m->size == m->packed;
    if (!fits)
        return fault(z, err, SHEAF_ERR_DATA_LOSS, m->data,
                     "member '%.100s' is said to be %llu bytes packed in %llu", m->name,
                     (unsigned long long)m->size, (unsigned long long)m->packed);
    return SHEAF_OK;
}

/* Reads the entry at the cursor. */
static sheaf_status take_entry(struct sheaf__zip_file *z, struct sheaf__cursor *c, sheaf_error *err)
{
    const uint8_t *entry, *name, *extra;
    const uint64_t at = z->directory + sheaf__cursor_offset(c);
    if (!sheaf__cursor_bytes(c, ENTRY_SIZE, &entry) || memcmp(entry, "PK\1\2", 4) != 0 ||
        !sheaf__cursor_bytes(c, load16(entry + 28), &name) ||
        !sheaf__cursor_bytes(c, load16(entry + 30), &extra) ||
        !sheaf__cursor_skip(c, load16(entry + 32)))
        return fault(z, err, SHEAF_ERR_DATA_LOSS, at,
                     "the directory of the archive is damaged at member %zu", z->count);
    if (!sheaf__array_reserve(&z->members, &z->capacity, z->count + 1, sizeof(*z->members)))
        return sheaf__no_memory(err, "the members of an archive");
    struct sheaf__zip_member *m = &z->members[z->count];
    *m = (struct sheaf__zip_member){.name = sheaf__strndup((const char *)name, load16(entry + 28)),
                                    .packed = sheaf__load32(entry + 20),
                                    .size = sheaf__load32(entry + 24),
                                    .crc = sheaf__load32(entry + 16),
                                    .deflated = load16(entry + 10) == 8};
    if (!m->name)
        return sheaf__no_memory(err, "the members of an archive");
    z->count++;
    uint64_t offset = sheaf__load32(entry + 42);
    if (strlen(m->name) != load16(entry + 28) || !take_extra(extra, load16(entry + 30), m, &offset))
        return fault(z, err, SHEAF_ERR_DATA_LOSS, at,
                     "the directory of the archive is damaged at member %zu", z->count - 1);
    SHEAF__TRY(find_data(z, m, offset, err));
    return check_member(z, m, entry, err);
}

static int compare_data(const void *a, const void *b)
{
    const struct sheaf__zip_member *x = *(const struct sheaf__zip_member *const *)a;
    const struct sheaf__zip_member *y = *(const struct sheaf__zip_member *const *)b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->packed > y->packed) - (x->packed < y->packed);
}

/* No two members are the same bytes, so that an archive is no larger than deflate makes it. */
static sheaf_status check_apart(const struct sheaf__zip_file *z, sheaf_error *err)
{
    const struct sheaf__zip_member **sorted = sheaf__alloc_array(z->count + 1, sizeof(*sorted));
    if (!sorted)
        return sheaf__no_memory(err, "the members of an archive");
    for (size_t i = 0; i < z->count; i++)
        sorted[i] = &z->members[i];
    if (z->count)
        qsort(sorted, z->count, sizeof(*sorted), compare_data);
    sheaf_status status = SHEAF_OK;
    for (size_t i = 1; i < z->count && status >= 0; i++)
        if (sorted[i]->data - sorted[i - 1]->data < sorted[i - 1]->packed)
            status = fault(z, err, SHEAF_ERR_DATA_LOSS, sorted[i]->data,
                           "member '%.100s' overlaps member '%.100s'", sorted[i]->name,
                           sorted[i - 1]->name);
    sheaf__free(sorted);
    return status;
}

static sheaf_status read_directory(struct sheaf__zip_file *z, sheaf_error *err)
{
    struct directory d;
    SHEAF__TRY(find_directory(z, &d, err));
    uint8_t *bytes = sheaf__alloc((size_t)d.size + 1);
    if (!bytes)
        return sheaf__no_memory(err, "the directory of an archive");
    z->directory = d.offset;
    struct sheaf__cursor c = sheaf__cursor_of(bytes, (size_t)d.size);
    sheaf_status status = read_exactly(z, d.offset, bytes, (size_t)d.size, err);
    for (uint64_t i = 0; i < d.count && status >= 0; i++)
        status = take_entry(z, &c, err);
    sheaf__free(bytes);
    return status < 0 ? status : check_apart(z, err);
}

sheaf_status sheaf__zip_open(const char *path, struct sheaf__zip_file **zip, sheaf_error *err)
{
    struct sheaf__zip_file *z = sheaf__calloc(1, sizeof(*z));
    if (!z)
        return sheaf__no_memory(err, "an archive");
    z->at = UINT64_MAX;
    sheaf_status status = sheaf__file_open(path, SHEAF__FILE_READ, &z->file, err);
    if (status >= 0)
        status = read_directory(z, err);
    if (status < 0) {
        sheaf__zip_free(z);
        return status;
    }
    *zip = z;
    return SHEAF_OK;
}

/* ---- members ---- */

static sheaf_status start_inflating(struct sheaf__zip_file *z, size_t i, sheaf_error *err)
{
    z->at = UINT64_MAX;
    if (!z->window && !(z->window = sheaf__alloc(WINDOW)))
        return sheaf__no_memory(err, "an archive");
    if (!z->inflate)
        SHEAF__TRY(sheaf__inflate_new(SHEAF__ZIP_DEFLATE, &z->inflate, err));
    else
        sheaf__inflate_reset(z->inflate);
    z->reading = i;
    z->fed = 0;
    z->used = z->filled = 0;
    z->at = 0;
    return SHEAF_OK;
}

/* The next compressed bytes, with gzip's head and tail around them. */
static sheaf_status fill_window(struct sheaf__zip_file *z, sheaf_error *err)
{
    static const uint8_t head[HEAD_SIZE] = {0x1f, 0x8b, 8};
    const struct sheaf__zip_member *m = &z->members[z->reading];
    z->used = z->filled = 0;
    if (z->fed == 0) {
        memcpy(z->window, head, sizeof(head));
        z->filled = sizeof(head);
    } else if (z->fed - HEAD_SIZE < m->packed) {
        const uint64_t done = z->fed - HEAD_SIZE, left = m->packed - done;
        const size_t size = left < WINDOW ? (size_t)left : WINDOW;
        SHEAF__TRY(read_exactly(z, m->data + done, z->window, size, err));
        z->filled = size;
    } else if (z->fed - HEAD_SIZE == m->packed) {
        sheaf__store32(z->window, m->crc);
        sheaf__store32(z->window + 4, (uint32_t)m->size);
        z->filled = TAIL_SIZE;
    }
    z->fed += z->filled;
    return SHEAF_OK;
}

/* Inflates up to `size` bytes; fewer only at the end of the member. */
static sheaf_status inflate_some(struct sheaf__zip_file *z, uint8_t *out, size_t size, size_t *got,
                                 sheaf_error *err)
{
    const struct sheaf__zip_member *m = &z->members[z->reading];
    struct sheaf__zip_io io = {.out = out, .out_size = size};
    bool ended = false;
    while (io.out_size && !ended) {
        if (z->used == z->filled)
            SHEAF__TRY(fill_window(z, err));
        if (z->filled == 0) {
            if (!sheaf__inflate_at_end(z->inflate))
                return fault(z, err, SHEAF_ERR_DATA_LOSS, m->data,
                             "member '%.100s' is not complete", m->name);
            break;
        }
        io.in = z->window + z->used;
        io.in_size = z->filled - z->used;
        const sheaf_status status = sheaf__inflate_next(z->inflate, &io, err);
        z->used = z->filled - io.in_size;
        if (status < 0) {
            z->at = UINT64_MAX;
            return fault(z, err, status, m->data, "member '%.100s' does not inflate: %.100s",
                         m->name, err ? err->message : "");
        }
        ended = status == SHEAF_END && z->fed > HEAD_SIZE + m->packed;
    }
    *got = size - io.out_size;
    z->at += *got;
    return SHEAF_OK;
}

static sheaf_status too_short(const struct sheaf__zip_file *z, const struct sheaf__zip_member *m,
                              sheaf_error *err)
{
    return fault(z, err, SHEAF_ERR_DATA_LOSS, m->data,
                 "member '%.100s' inflates to another length than the %llu bytes it should have",
                 m->name, (unsigned long long)m->size);
}

static sheaf_status read_deflated(struct sheaf__zip_file *z, size_t i, uint64_t at, uint8_t *out,
                                  size_t size, sheaf_error *err)
{
    uint8_t dropped[4096];
    size_t got;
    if (z->at == UINT64_MAX || z->reading != i || z->at > at)
        SHEAF__TRY(start_inflating(z, i, err));
    while (z->at < at) {
        const uint64_t left = at - z->at;
        SHEAF__TRY(inflate_some(z, dropped, left < sizeof(dropped) ? (size_t)left : sizeof(dropped),
                                &got, err));
        if (got == 0)
            return too_short(z, &z->members[i], err);
    }
    SHEAF__TRY(inflate_some(z, out, size, &got, err));
    return got == size ? SHEAF_OK : too_short(z, &z->members[i], err);
}

sheaf_status sheaf__zip_read(struct sheaf__zip_file *z, size_t i, uint64_t at, void *out,
                             size_t size, sheaf_error *err)
{
    const struct sheaf__zip_member *m = &z->members[i];
    if (at > m->size || size > m->size - at)
        return fault(z, err, SHEAF_ERR_DATA_LOSS, m->data,
                     "member '%.100s' of %llu bytes ends within its data", m->name,
                     (unsigned long long)m->size);
    return m->deflated ? read_deflated(z, i, at, out, size, err)
                       : read_exactly(z, m->data + at, out, size, err);
}

/* What a deflated member has behind its last byte: nothing but the checksum. */
static sheaf_status check_end(struct sheaf__zip_file *z, size_t i, sheaf_error *err)
{
    uint8_t more;
    size_t got;
    SHEAF__TRY(inflate_some(z, &more, 1, &got, err));
    return got == 0 && z->fed > HEAD_SIZE + z->members[i].packed
               ? SHEAF_OK
               : too_short(z, &z->members[i], err);
}

sheaf_status sheaf__zip_check(struct sheaf__zip_file *z, size_t i, void *out, sheaf_error *err)
{
    const struct sheaf__zip_member *m = &z->members[i];
    uint8_t *window = out ? NULL : sheaf__alloc(WINDOW);
    uint32_t crc = 0;
    if (!out && !window)
        return sheaf__no_memory(err, "an archive");
    sheaf_status status = SHEAF_OK;
    for (uint64_t at = 0; at < m->size && status >= 0;) {
        uint8_t *to = out ? (uint8_t *)out + at : window;
        const size_t size = m->size - at < WINDOW ? (size_t)(m->size - at) : WINDOW;
        status = sheaf__zip_read(z, i, at, to, size, err);
        if (status >= 0 && !m->deflated)
            crc = sheaf__crc32_extend(crc, to, size);
        at += size;
    }
    if (status >= 0 && m->deflated && m->size == 0)
        status = start_inflating(z, i, err);
    if (status >= 0 && m->deflated)
        status = check_end(z, i, err);
    else if (status >= 0 && crc != m->crc)
        status = fault(z, err, SHEAF_ERR_DATA_LOSS, m->data,
                       "member '%.100s': checksum mismatch: stored %08x, found %08x", m->name,
                       m->crc, crc);
    sheaf__free(window);
    return status;
}
