/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a TFRecord file: mapped, read in chunks, in blocks of any size, the same records and the
 * same end come out, and good records written again give the bytes they came from. The first byte says
 * how the file is compressed and whether reading is lax. */
#include "target.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/record.h"

#include <stdlib.h>
#include <string.h>

/* What came out: the records framed again, and how it ended. */
struct outcome {
    uint8_t *bytes;
    size_t size, capacity;
    size_t records;
    sheaf_status end;
    uint64_t at_record, at_offset;
};

static void add(struct outcome *o, const void *data, size_t size)
{
    if (size > o->capacity - o->size) {
        o->capacity = 2 * (o->capacity + size);
        o->bytes = realloc(o->bytes, o->capacity);
        must(o->bytes);
    }
    if (size)
        memcpy(o->bytes + o->size, data, size);
    o->size += size;
}

static void add_record(struct outcome *o, sheaf_bytes record)
{
    uint8_t header[SHEAF__RECORD_HEADER], footer[SHEAF__RECORD_FOOTER];
    sheaf__record_header(record.size, header);
    sheaf__record_footer(record.data, record.size, footer);
    add(o, header, sizeof(header));
    add(o, record.data, record.size);
    add(o, footer, sizeof(footer));
    o->records++;
}

static struct outcome read_all(const struct sheaf__record_options *options, size_t block)
{
    struct outcome o = {0};
    struct sheaf__record_source *s;
    sheaf_error err = {0};
    must(sheaf__record_source_open("/records", options, &s, &err) == SHEAF_OK);
    for (;;) {
        sheaf_bytes records[8];
        size_t count;
        struct sheaf__object *owner;
        o.end = sheaf__record_source_next(s, records, block, &count, &owner, &err);
        if (o.end != SHEAF_OK)
            break;
        must(count > 0 && count <= block);
        for (size_t i = 0; i < count; i++)
            add_record(&o, records[i]);
    }
    if (o.end < 0) {
        o.at_record = err.record;
        o.at_offset = err.offset;
        must(o.end == err.status && err.message[0]);
    }
    sheaf__record_source_free(s);
    return o;
}

static void same(const struct outcome *a, const struct outcome *b)
{
    must(a->records == b->records && a->size == b->size && a->end == b->end);
    must(a->at_record == b->at_record && a->at_offset == b->at_offset);
    must(a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0);
}

static void ignore_line(sheaf_log_level level, const char *line, void *user)
{
    (void)level, (void)line, (void)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct sheaf__record_options options = {
        .compression = data[0] & 8 ? SHEAF_COMPRESSION_SNAPPY : (sheaf_compression)(data[0] & 3),
        .lax = data[0] & 4};
    files_in_memory(ignore_line);
    must(sheaf__file_replace("/records", data + 1, size - 1, NULL) == SHEAF_OK);
    struct outcome one = read_all(&options, 1), many = read_all(&options, 8);
    same(&one, &many);
    options.chunk = 1 << 20;
    struct outcome chunks = read_all(&options, 3);
    same(&one, &chunks);
    if (options.compression == SHEAF_COMPRESSION_NONE)
        must(one.size <= size - 1 &&
             memcmp(one.bytes ? one.bytes : data, one.bytes ? data + 1 : data, one.size) == 0);
    free(one.bytes);
    free(many.bytes);
    free(chunks.bytes);
    return 0;
}
