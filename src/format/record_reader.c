/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "format/record.h"

struct sheaf_record_reader {
    struct sheaf__record_source *source;
};

sheaf_status sheaf_record_reader_open(const char *path, sheaf_compression compression,
                                      sheaf_record_reader **reader, sheaf_error *err)
{
    if (!path)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no name of a file of records");
    sheaf_record_reader *r = sheaf__calloc(1, sizeof(*r));
    if (!r)
        return sheaf__no_memory(err, "reading records");
    struct sheaf__record_options options = {.compression = compression};
    sheaf_status status = sheaf__record_source_open(path, &options, &r->source, err);
    if (status < 0) {
        sheaf__free(r);
        return status;
    }
    *reader = r;
    return SHEAF_OK;
}

sheaf_status sheaf_record_reader_next(sheaf_record_reader *reader, sheaf_bytes *record,
                                      sheaf_error *err)
{
    size_t count;
    sheaf_bytes next;
    struct sheaf__object *owner;
    if (!reader)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the record reader is NULL");
    const sheaf_status status =
        sheaf__record_source_next(reader->source, &next, 1, &count, &owner, err);
    if (status == SHEAF_OK)
        *record = next;
    return status;
}

uint64_t sheaf_record_reader_position(const sheaf_record_reader *reader, uint64_t *offset)
{
    if (reader)
        return sheaf__record_source_position(reader->source, offset);
    if (offset)
        *offset = 0;
    return 0;
}

void sheaf_record_reader_free(sheaf_record_reader *reader)
{
    if (!reader)
        return;
    sheaf__record_source_free(reader->source);
    sheaf__free(reader);
}
