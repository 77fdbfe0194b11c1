/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_DATA_DAMAGED_H
#define SHEAF_TEST_DATA_DAMAGED_H

/* TFRecord files of small numbers, damaged here and there. */

#include "help.h"

enum { FRAMED = 20 }; /* bytes of a record of four */

/* Records `from`, …, as "0007". */
static inline const char *write_records(const char *name, int from, int count,
                                        sheaf_compression compression)
{
    const char *path = rig_path(name);
    sheaf_record_writer *w;
    sheaf_error err = {0};
    rig_ok(sheaf_record_writer_open(path, compression, &w, &err), &err);
    for (int i = from; i < from + count; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%04d", i);
        rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){text, 4}, &err), &err);
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    return path;
}

static inline void flip(const char *path, long offset)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, offset, SEEK_SET);
    const int c = fgetc(f);
    fseek(f, offset, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

static inline void flip_data(const char *path, int record)
{
    flip(path, (long)record * FRAMED + 13);
}

static inline void flip_length(const char *path, int record)
{
    flip(path, (long)record * FRAMED);
}

static inline void cut(const char *path, uint64_t size)
{
    struct sheaf__file *f;
    sheaf_error err = {0};
    rig_ok(sheaf__file_open(path, SHEAF__FILE_UPDATE, &f, &err), &err);
    rig_ok(sheaf__file_truncate(f, size, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
}

static inline sheaf_dataset *skipping(sheaf_dataset *d, int64_t per_file, int64_t in_all)
{
    return sheaf_dataset_with_options(
        d, &(sheaf_dataset_options){.skip_corrupt_per_file = per_file, .skip_corrupt = in_all});
}

static inline json_t *number_json(const sheaf_element *e)
{
    json_t *list = json_array();
    const sheaf_tensor *t = sheaf_element_at(e, 0);
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++) {
        char text[8];
        snprintf(text, sizeof(text), "%.4s", sheaf_tensor_bytes(t, i).data);
        json_array_append_new(list, json_integer(atoi(text)));
    }
    return list;
}

#endif
