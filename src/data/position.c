/* SPDX-License-Identifier: Apache-2.0 */
#include "data/position.h"

#include "base/array.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/account.h"
#include "format/wire.h"

#include <string.h>

static const char magic[4] = {'S', 'h', 'f', 'P'};

enum { VERSION = 1, HEAD = sizeof(magic) + 1, CRC = 4 };

enum field {
    PIPELINE = 1,
    DRAWS,
    ELEMENTS,
    ERRORS,
    FILES,
    DISTRIBUTED,
    PASSES,
    LEG,
    FORGIVES,
    EXAMPLES
};
enum draws_field { SEED = 1, SEED2, COUNT };
enum leg_field { WORKERS = 1, REPLICAS, ROUNDS };

/* More than any job has. */
#define MOST_WORKERS 1000000
#define MOST_LEGS    32

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "the position of an iterator");
}

void sheaf__position_free(struct sheaf__position *p)
{
    sheaf__free(p->pipeline);
    sheaf__free(p->draws);
    sheaf__free(p->files);
    sheaf__free(p->legs);
    *p = (struct sheaf__position){0};
}

struct sheaf__position_draws *sheaf__position_add_draws(struct sheaf__position *p)
{
    if (!sheaf__array_reserve(&p->draws, &p->draw_capacity, p->draw_count + 1, sizeof(*p->draws)))
        return NULL;
    p->draws[p->draw_count] = (struct sheaf__position_draws){.count = 0};
    return &p->draws[p->draw_count++];
}

struct sheaf__position_file *sheaf__position_add_file(struct sheaf__position *p)
{
    if (!sheaf__array_reserve(&p->files, &p->file_capacity, p->file_count + 1, sizeof(*p->files)))
        return NULL;
    p->files[p->file_count] = (struct sheaf__position_file){0};
    return &p->files[p->file_count++];
}

struct sheaf__leg *sheaf__position_add_leg(struct sheaf__position *p)
{
    if (!sheaf__array_reserve(&p->legs, &p->leg_capacity, p->leg_count + 1, sizeof(*p->legs)))
        return NULL;
    p->legs[p->leg_count] = (struct sheaf__leg){0};
    return &p->legs[p->leg_count++];
}

/* ---- writing ---- */

static void write_draws(const struct sheaf__position_draws *d, struct sheaf__buf *buf)
{
    struct sheaf__buf one = {0};
    sheaf__wire_put_fixed64(&one, SEED, d->seeds.seed);
    sheaf__wire_put_fixed64(&one, SEED2, d->seeds.seed2);
    sheaf__wire_put_varint(&one, COUNT, d->count);
    sheaf__wire_put_bytes(buf, DRAWS, one.data, one.size);
    buf->failed = buf->failed || one.failed;
    sheaf__buf_free(&one);
}

/* Number and records in turn, 8 bytes and a varint. */
static void write_files(const struct sheaf__position *p, struct sheaf__buf *buf)
{
    struct sheaf__buf all = {0};
    for (size_t i = 0; i < p->file_count; i++) {
        sheaf__buf_fixed64(&all, p->files[i].file);
        sheaf__buf_varint(&all, p->files[i].records);
    }
    sheaf__wire_put_bytes(buf, FILES, all.data, all.size);
    buf->failed = buf->failed || all.failed;
    sheaf__buf_free(&all);
}

static void write_leg(const struct sheaf__leg *leg, struct sheaf__buf *buf)
{
    struct sheaf__buf one = {0};
    sheaf__wire_put_varint(&one, WORKERS, (uint64_t)leg->workers);
    sheaf__wire_put_varint(&one, REPLICAS, (uint64_t)leg->replicas);
    sheaf__wire_put_varint(&one, ROUNDS, leg->rounds);
    sheaf__wire_put_bytes(buf, LEG, one.data, one.size);
    buf->failed = buf->failed || one.failed;
    sheaf__buf_free(&one);
}

static void write_distributed(const struct sheaf__position *p, struct sheaf__buf *buf)
{
    sheaf__wire_put_varint(buf, DISTRIBUTED, 1);
    sheaf__wire_put_varint(buf, PASSES, p->passes);
    sheaf__wire_put_varint(buf, EXAMPLES, p->examples);
    for (size_t i = 0; i < p->leg_count; i++)
        write_leg(&p->legs[i], buf);
}

sheaf_status sheaf__position_write(const struct sheaf__position *p, struct sheaf__buf *buf,
                                   sheaf_error *err)
{
    const size_t start = buf->size;
    sheaf__buf_bytes(buf, magic, sizeof(magic));
    sheaf__buf_byte(buf, VERSION);
    sheaf__wire_put_text(buf, PIPELINE, p->pipeline ? p->pipeline : "");
    for (size_t i = 0; i < p->draw_count; i++)
        write_draws(&p->draws[i], buf);
    sheaf__wire_put_varint(buf, ELEMENTS, p->elements);
    sheaf__wire_put_varint(buf, ERRORS, p->errors);
    if (p->forgives)
        sheaf__wire_put_varint(buf, FORGIVES, 1);
    write_files(p, buf);
    if (p->distributed)
        write_distributed(p, buf);
    if (!buf->failed)
        sheaf__buf_fixed32(buf, sheaf__crc32c(buf->data + start, buf->size - start));
    return buf->failed ? no_memory(err) : SHEAF_OK;
}

/* ---- reading ---- */

static sheaf_status damaged(sheaf_error *err, uint64_t offset, const char *what)
{
    const struct sheaf__place place = {NULL, SHEAF__UNKNOWN, offset};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                           "the position of an iterator is damaged: %s", what);
}

static sheaf_status check_frame(const uint8_t *data, size_t size, sheaf_error *err)
{
    if (size < HEAD + CRC || memcmp(data, magic, sizeof(magic)) != 0)
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                            "%zu bytes that are no position of an iterator: they do not begin with "
                            "\"ShfP\"",
                            size);
    const uint32_t found = sheaf__load32(data + size - CRC),
                   expected = sheaf__crc32c(data, size - CRC);
    if (found != expected)
        return sheaf__error(
            err, SHEAF_ERR_DATA_LOSS,
            "the position of an iterator is damaged: its checksum is %08x, expected "
            "%08x",
            found, expected);
    if (data[sizeof(magic)] != VERSION)
        return sheaf__error(err, SHEAF_ERR_UNIMPLEMENTED,
                            "the position of an iterator has version %u, this library knows %u",
                            data[sizeof(magic)], VERSION);
    return SHEAF_OK;
}

static sheaf_status read_pipeline(struct sheaf__position *p, const struct sheaf__wire_field *f,
                                  sheaf_error *err)
{
    const char *text = (const char *)f->bytes.data;
    if (f->bytes.size > 0 && memchr(text, 0, f->bytes.size))
        return damaged(err, SHEAF__UNKNOWN, "a zero byte in the pipeline");
    sheaf__free(p->pipeline);
    p->pipeline = sheaf__strndup(f->bytes.size > 0 ? text : "", f->bytes.size);
    return p->pipeline ? SHEAF_OK : no_memory(err);
}

static sheaf_status read_draws(struct sheaf__position *p, const struct sheaf__wire_field *f,
                               sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(f->bytes.data, f->bytes.size);
    struct sheaf__wire_field one;
    struct sheaf__position_draws *d = sheaf__position_add_draws(p);
    if (!d)
        return no_memory(err);
    while (sheaf__wire_next(&c, &one)) {
        if (one.type == SHEAF__WIRE_FIXED64 && one.number == SEED)
            d->seeds.seed = one.value;
        else if (one.type == SHEAF__WIRE_FIXED64 && one.number == SEED2)
            d->seeds.seed2 = one.value;
        else if (one.type == SHEAF__WIRE_VARINT && one.number == COUNT)
            d->count = one.value;
    }
    return c.failed ? damaged(err, SHEAF__UNKNOWN, "seeds that are none") : SHEAF_OK;
}

static sheaf_status read_leg(struct sheaf__position *p, const struct sheaf__wire_field *f,
                             sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(f->bytes.data, f->bytes.size);
    struct sheaf__wire_field one;
    uint64_t values[ROUNDS + 1] = {0};
    struct sheaf__leg *leg = sheaf__position_add_leg(p);
    if (!leg)
        return no_memory(err);
    while (sheaf__wire_next(&c, &one))
        if (one.type == SHEAF__WIRE_VARINT && one.number <= ROUNDS)
            values[one.number] = one.value;
    if (c.failed || values[WORKERS] - 1 >= MOST_WORKERS || values[REPLICAS] - 1 >= MOST_WORKERS ||
        p->leg_count > MOST_LEGS)
        return damaged(err, SHEAF__UNKNOWN, "workers that are none");
    *leg = (struct sheaf__leg){(int64_t)values[WORKERS], (int64_t)values[REPLICAS], values[ROUNDS]};
    return SHEAF_OK;
}

static sheaf_status read_files(struct sheaf__position *p, const struct sheaf__wire_field *f,
                               sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(f->bytes.data, f->bytes.size);
    while (sheaf__cursor_left(&c) > 0) {
        struct sheaf__position_file *file = sheaf__position_add_file(p);
        if (!file)
            return no_memory(err);
        if (!sheaf__cursor_fixed64(&c, &file->file) || !sheaf__cursor_varint(&c, &file->records))
            return damaged(err, SHEAF__UNKNOWN, "a list of files that is cut");
    }
    return SHEAF_OK;
}

static sheaf_status read_field(struct sheaf__position *p, const struct sheaf__wire_field *f,
                               sheaf_error *err)
{
    if (f->type == SHEAF__WIRE_BYTES) {
        switch (f->number) {
        case PIPELINE:
            return read_pipeline(p, f, err);
        case DRAWS:
            return read_draws(p, f, err);
        case FILES:
            return read_files(p, f, err);
        case LEG:
            return read_leg(p, f, err);
        default:
            return SHEAF_OK;
        }
    }
    if (f->type == SHEAF__WIRE_VARINT && f->number == ELEMENTS)
        p->elements = f->value;
    if (f->type == SHEAF__WIRE_VARINT && f->number == ERRORS)
        p->errors = f->value;
    if (f->type == SHEAF__WIRE_VARINT && f->number == FORGIVES)
        p->forgives = f->value != 0;
    if (f->type == SHEAF__WIRE_VARINT && f->number == DISTRIBUTED)
        p->distributed = f->value != 0;
    if (f->type == SHEAF__WIRE_VARINT && f->number == PASSES)
        p->passes = f->value;
    if (f->type == SHEAF__WIRE_VARINT && f->number == EXAMPLES)
        p->examples = f->value;
    return SHEAF_OK;
}

static sheaf_status read_all(struct sheaf__position *p, const uint8_t *data, size_t size,
                             sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(data + HEAD, size - HEAD - CRC);
    struct sheaf__wire_field f;
    while (sheaf__wire_next(&c, &f))
        SHEAF__TRY(read_field(p, &f, err));
    if (c.failed)
        return damaged(err, HEAD + sheaf__cursor_offset(&c), "no field of a message");
    if (!p->pipeline)
        return damaged(err, SHEAF__UNKNOWN, "it names no pipeline");
    if (p->elements > UINT64_MAX - p->errors)
        return damaged(err, SHEAF__UNKNOWN, "more elements and errors than can be counted");
    return SHEAF_OK;
}

sheaf_status sheaf__position_read(struct sheaf__position *p, const void *data, size_t size,
                                  sheaf_error *err)
{
    *p = (struct sheaf__position){0};
    SHEAF__TRY(check_frame(data, size, err));
    sheaf_status status = read_all(p, data, size, err);
    if (status < 0)
        sheaf__position_free(p);
    return status;
}

/* ---- comparing ---- */

sheaf_status sheaf__position_fits(const struct sheaf__position *p, const char *pipeline,
                                  sheaf_error *err)
{
    const char *theirs = p->pipeline, *ours = pipeline;
    for (int line = 1;; line++) {
        const int a = (int)strcspn(theirs, "\n"), b = (int)strcspn(ours, "\n");
        if (a != b || memcmp(theirs, ours, (size_t)a) != 0)
            return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                                "the position is of another pipeline: its line %d is \"%.*s\", "
                                "this one's is \"%.*s\"",
                                line, a < 80 ? a : 80, theirs, b < 80 ? b : 80, ours);
        theirs += a;
        ours += b;
        if (!*theirs && !*ours)
            return SHEAF_OK;
        theirs += *theirs != 0;
        ours += *ours != 0;
    }
}

sheaf_status sheaf__position_forgives(const struct sheaf__position *p,
                                      const sheaf_dataset_options *options, sheaf_error *err)
{
    if (!p->forgives || sheaf__options_forgive(options))
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "the position is of a pipeline that skips corrupt records, this one has no "
                        "skip_corrupt");
}
