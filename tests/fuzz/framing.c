/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text file, or as one of records of fixed size: mapped, and read in chunks of few bytes,
 * the records come out that a naive reader finds, and the same end. The first byte says which: 0 is text,
 * others give the sizes of a record, the header and the footer. */
#include "target.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/record.h"

#include <stdlib.h>
#include <string.h>

/* What is to come: records one after the other, each with its size before it. */
struct expected {
    uint8_t *bytes;
    size_t size;
    sheaf_status end;
};

static void put_size(struct expected *x, size_t at, size_t size)
{
    memcpy(x->bytes + at, &size, sizeof(size));
}

static void expect_lines(struct expected *x, const uint8_t *text, size_t size)
{
    size_t start = 0;
    x->end = SHEAF_END;
    x->bytes = malloc((size + 1) * (sizeof(size_t) + 1));
    must(x->bytes);
    x->size = sizeof(size_t);
    for (size_t i = 0; i <= size; i++) {
        bool end = i == size || text[i] == '\n';
        if (!end && text[i] != '\r')
            x->bytes[x->size++] = text[i];
        if (!end)
            continue;
        size_t line = x->size - start - sizeof(size_t);
        put_size(x, start, line);
        if (i < size || line > 0) {
            start = x->size;
            x->size += sizeof(size_t);
        }
    }
    x->size = start;
}

static void expect_fixed(struct expected *x, const struct sheaf__fixed *f, const uint8_t *data,
                         size_t size)
{
    x->end = SHEAF_END;
    x->bytes = malloc((size + 1) * (sizeof(size_t) + 1));
    must(x->bytes);
    x->size = 0;
    if (f->header > size)
        x->end = SHEAF_ERR_INVALID_ARGUMENT;
    else if (size > f->header + f->footer && (size - f->header - f->footer) % f->size != 0)
        x->end = SHEAF_ERR_INVALID_ARGUMENT;
    for (size_t at = f->header; x->end == SHEAF_END && at + f->size + f->footer <= size;
         at += f->size) {
        put_size(x, x->size, f->size);
        memcpy(x->bytes + x->size + sizeof(size_t), data + at, f->size);
        x->size += sizeof(size_t) + f->size;
    }
}

static void check(const struct expected *x, const struct sheaf__record_options *options,
                  size_t block)
{
    struct sheaf__record_source *s;
    sheaf_error err = {0};
    size_t at = 0;
    sheaf_status end = sheaf__record_source_open("/records", options, &s, &err);
    if (end < 0) {
        must(end == x->end && err.status == end && err.message[0]);
        return;
    }
    for (;;) {
        sheaf_bytes records[8];
        size_t count, expected;
        struct sheaf__object *owner;
        end = sheaf__record_source_next(s, records, block, &count, &owner, &err);
        if (end != SHEAF_OK)
            break;
        must(count > 0 && count <= block);
        for (size_t i = 0; i < count; i++) {
            must(at + sizeof(size_t) <= x->size);
            memcpy(&expected, x->bytes + at, sizeof(expected));
            must(records[i].size == expected);
            must(expected == 0 ||
                 memcmp(records[i].data, x->bytes + at + sizeof(size_t), expected) == 0);
            at += sizeof(size_t) + expected;
        }
    }
    must(end == x->end && at == x->size);
    sheaf__record_source_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const unsigned kind = data[0];
    struct sheaf__record_options options = {.compression = SHEAF_COMPRESSION_NONE};
    struct expected x;
    files_in_memory(NULL);
    must(sheaf__file_replace("/records", data + 1, size - 1, NULL) == SHEAF_OK);
    if (kind == 0) {
        options.framing = &sheaf__framing_lines;
        expect_lines(&x, data + 1, size - 1);
    } else {
        options.framing = &sheaf__framing_fixed;
        options.fixed = (struct sheaf__fixed){1 + kind % 7, kind / 7 % 6, kind / 42};
        expect_fixed(&x, &options.fixed, data + 1, size - 1);
    }
    check(&x, &options, 1);
    check(&x, &options, 8);
    options.chunk = 1;
    check(&x, &options, 8);
    options.chunk = 5;
    check(&x, &options, 3);
    free(x.bytes);
    return 0;
}
