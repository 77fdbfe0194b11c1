/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of a checkpoint, or as the entries of one whose table is whole: an error or
 * entries come out; every tensor is read or refused; what verifies can be read in full; what was read
 * writes an index that reads the same. The first byte chooses: even, a file; odd, entries as pairs of
 * sized texts. The data file is the input itself. */
#include "target.h"

#include "base/file.h"
#include "format/bundle.h"
#include "tensor/heap.h"

#include <sheaf/frame.h>

#include <stdlib.h>
#include <string.h>

/* The pairs of the input in a whole table; keys that do not ascend are left out. */
static void make_table(struct sheaf__table_writer *w, const uint8_t *data, size_t size)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, size);
    const uint8_t *key, *value, *last = NULL;
    size_t key_size, value_size, last_size = 0;
    sheaf__table_begin(w);
    sheaf__table_add(w, "", 0, "\x08\x01\x1a\x02\x08\x01", 6);
    while (sheaf__cursor_sized(&c, &key, &key_size) &&
           sheaf__cursor_sized(&c, &value, &value_size)) {
        size_t common = key_size < last_size ? key_size : last_size;
        int order = common ? memcmp(last, key, common) : 0;
        if (!key_size || order > 0 || (order == 0 && key_size <= last_size))
            continue;
        sheaf__table_add(w, key, key_size, value, value_size);
        last = key;
        last_size = key_size;
    }
    must(sheaf__table_finish(w, NULL) == SHEAF_OK);
}

/* Reads everything; returns whether all of it could be read. */
static bool read_all(sheaf_bundle *b)
{
    bool all = true;
    sheaf_bundle_entry e;
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    for (size_t i = 0; sheaf_bundle_get(b, i, &e) == SHEAF_OK; i++) {
        sheaf_tensor *t = NULL;
        sheaf_error err = {0};
        /* The public call cannot name a key with a zero byte. */
        if (strlen(e.key) != b->index.items[b->first + i].key_size)
            continue;
        sheaf_status status = sheaf_bundle_read(b, e.key, &t, &err);
        must(status >= 0 || (err.status == status && err.message[0]));
        must(status < 0 || sheaf_tensor_elements(t) == sheaf_shape_elements(e.shape));
        all &= status >= 0 || status == SHEAF_ERR_UNIMPLEMENTED; /* variants are left alone */
        sheaf_frame_clear();
    }
    sheaf_frame_close(&frame);
    return all;
}

/* The index written again reads the same. */
static void write_again(const char *path)
{
    struct sheaf__map *map = NULL;
    struct sheaf__table table;
    struct sheaf__table_writer w;
    struct sheaf__bundle_index first, second;
    must(sheaf__file_map(path, &map, NULL) == SHEAF_OK);
    must(sheaf__table_open(&table, map->data, map->size, path, NULL) == SHEAF_OK);
    must(sheaf__bundle_index_read(&first, &table, NULL) == SHEAF_OK);
    sheaf__table_begin(&w);
    must(sheaf__bundle_index_write(&first, &w, NULL) == SHEAF_OK);
    must(sheaf__table_open(&table, w.file.data, w.file.size, path, NULL) == SHEAF_OK);
    must(sheaf__bundle_index_read(&second, &table, NULL) == SHEAF_OK);
    must(second.count == first.count && second.shards == first.shards);
    for (size_t i = 0; i < first.count; i++) {
        const struct sheaf__bundle_item *x = &first.items[i], *y = &second.items[i];
        must(x->key_size == y->key_size && !memcmp(x->key, y->key, x->key_size));
        must(x->fault < 0 || (x->dtype == y->dtype && x->size == y->size && x->crc == y->crc &&
                              x->slices == y->slices && sheaf_shape_equal(x->shape, y->shape)));
    }
    sheaf__table_writer_free(&w);
    sheaf__bundle_index_free(&first);
    sheaf__bundle_index_free(&second);
    sheaf__unref(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__table_writer w = {0};
    sheaf_bundle *b = NULL;
    sheaf_error err = {0};
    files_in_memory(NULL);
    bool entries = size && data[0] & 1;
    if (entries) {
        make_table(&w, data + 1, size - 1);
        must(sheaf__file_replace("/x.index", w.file.data, w.file.size, NULL) == SHEAF_OK);
    } else {
        must(sheaf__file_replace("/x.index", data + (size > 0), size - (size > 0), NULL) ==
             SHEAF_OK);
    }
    sheaf__table_writer_free(&w);
    must(sheaf__file_replace("/x.data-00000-of-00001", data, size, NULL) == SHEAF_OK);
    sheaf_status status = sheaf_bundle_open("/x", &b, &err);
    must(status >= 0 || (err.status == status && err.message[0] && err.file[0]));
    if (status < 0)
        return 0;
    bool whole = sheaf_bundle_verify(b, &err) >= 0;
    bool all = read_all(b);
    must(!whole || all);
    sheaf_bundle_free(b);
    write_again("/x.index");
    return 0;
}
