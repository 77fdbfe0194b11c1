/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file, as the index of several, and as an archive of NumPy's: they are refused with a message,
 * or every tensor that the file says it has can be read, the same as a whole and in a stream, or is refused with a message;
 * opening takes no more memory than a file of that size warrants; the header written of a safetensors file's tensors
 * says the same again. */
#include "target.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/safetensors.h"
#include "format/tensor_file.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#define MOST (1 << 22) /* bytes of a tensor that is read here: deflate makes much of little */

static void check_stream(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                         const sheaf_tensor *t)
{
    struct sheaf__tensor_stream s;
    const uint8_t *data, *bytes = sheaf__tensor_host(t, NULL);
    size_t size, at = 0;
    must(bytes && sheaf__tensor_stream_begin(&s, f, e, NULL, NULL) == SHEAF_OK);
    while (sheaf__tensor_stream_next(&s, &data, &size, NULL) == SHEAF_OK) {
        must(memcmp(data, bytes + at, size) == 0);
        at += size;
    }
    must(at == (size_t)sheaf_shape_elements(e->shape) * s.width);
}

static void check_tensor(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e)
{
    int64_t elements;
    size_t bytes;
    sheaf_error err = {0};
    if (e->fault >= 0 &&
        (sheaf__shape_bytes(e->dtype, e->shape, &elements, &bytes, NULL) < 0 || bytes > MOST))
        return;
    sheaf_tensor *t = sheaf__tensor_file_whole(f, e, &err);
    must(t || (err.status < 0 && err.message[0]));
    if (t && e->dtype != SHEAF_STRING)
        check_stream(f, e, t);
    sheaf__unref(t);
}

static void check_header(sheaf_tensor_file *f)
{
    const struct sheaf__tensor_entry **sorted = calloc(f->count + 1, sizeof(*sorted));
    struct sheaf__buf header = {0};
    struct sheaf__safetensors again = {0};
    uint64_t all = 0;
    size_t count = 0;
    must(sorted);
    for (size_t i = 0; i < f->count; i++) {
        const struct sheaf__tensor_entry *e = &f->entries[i];
        if (e->fault < 0)
            continue;
        sorted[count++] = e;
        all += (uint64_t)sheaf_shape_elements(e->shape) * sheaf_dtype_size(e->dtype);
    }
    sheaf__safetensors_sort(sorted, count);
    must(sheaf__safetensors_header(&header, f->metadata, sorted, count, NULL) == SHEAF_OK);
    must(sheaf__safetensors_parse(&again, (const char *)header.data + 8, header.size - 8,
                                  header.size + all, NULL, NULL) == SHEAF_OK);
    must(again.count == count);
    for (size_t i = 0; i < count; i++)
        must(!strcmp(again.tensors[i].name, sorted[i]->name) &&
             again.tensors[i].dtype == sorted[i]->dtype &&
             sheaf_shape_equal(again.tensors[i].shape, sorted[i]->shape));
    sheaf__safetensors_free(&again);
    sheaf__buf_free(&header);
    free(sorted);
}

static void open_as(const char *path, const uint8_t *data, size_t size)
{
    sheaf_tensor_file *f = NULL;
    sheaf_error err = {0};
    must(sheaf__file_replace(path, data, size, NULL) == SHEAF_OK);
    const int64_t before = sheaf__mem_stats().live_bytes;
    if (sheaf_tensor_file_open(path, &f, &err) < 0) {
        must(err.status < 0 && err.message[0]);
        must(sheaf__mem_stats().live_bytes == before);
        return;
    }
    must(sheaf__mem_stats().live_bytes - before <= 32 * (int64_t)size + (1 << 19));
    for (size_t i = 0; i < f->count; i++)
        check_tensor(f, &f->entries[i]);
    if (strcmp(f->format->name, "safetensors") == 0)
        check_header(f);
    sheaf_tensor_file_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    files_in_memory(NULL);
    open_as("/a.safetensors", data, size);
    open_as("/a.npz", data, size);
    open_as("/b.safetensors.index.json", data, size);
    return 0;
}
