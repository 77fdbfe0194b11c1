/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file of a vocabulary, of words and of numbers: it is one or an error; every word of it has its
 * index, and the inverse gives the word of every index. */
#include "target.h"

#include "base/context.h"
#include "base/fs.h"
#include "tensor/tensor.h"

#include <sheaf/features.h>
#include <sheaf/frame.h>

#include <stdlib.h>
#include <string.h>

static void same(const sheaf_tensor *a, const sheaf_tensor *b)
{
    must(sheaf_tensor_dtype(a) == sheaf_tensor_dtype(b));
    must(sheaf_tensor_elements(a) == sheaf_tensor_elements(b));
    for (int64_t i = 0; i < sheaf_tensor_elements(a); i++) {
        sheaf_bytes x = sheaf_tensor_bytes(a, i), y = sheaf_tensor_bytes(b, i);
        must(sheaf_tensor_integer(a, i) == sheaf_tensor_integer(b, i));
        must(x.size == y.size && memcmp(x.data, y.data, x.size) == 0);
    }
}

static void check(sheaf_dtype dtype)
{
    sheaf_vocabulary_options o = {.file = "/words", .file_dtype = dtype, .no_unknown = true};
    sheaf_vocabulary *v = NULL, *inverse = NULL;
    sheaf_error err = {0};
    sheaf_status status = sheaf_vocabulary_new(&o, &v, &err);
    must((status == SHEAF_OK) == (v != NULL));
    must(status == SHEAF_OK || err.message[0]);
    if (!v)
        return;
    sheaf_tensor *words = sheaf_vocabulary_tokens(v), *indices = sheaf_lookup(v, words);
    must(sheaf_tensor_elements(indices) == sheaf_vocabulary_size(v));
    for (int64_t i = 0; i < sheaf_vocabulary_size(v); i++)
        must(sheaf_tensor_integer(indices, i) == i);
    o.invert = true;
    must(sheaf_vocabulary_new(&o, &inverse, &err) == SHEAF_OK);
    same(sheaf_lookup(inverse, indices), words);
    sheaf_vocabulary_free(v);
    sheaf_vocabulary_free(inverse);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__fs *fs = sheaf__fs_memory_new();
    must(fs);
    sheaf__context_set_fs(sheaf__context(), fs);
    must(sheaf__file_replace("/words", data, size, NULL) == SHEAF_OK);
    SHEAF_FRAME
    {
        check(SHEAF_STRING);
        check(SHEAF_INT64);
    }
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_memory_free(fs);
    return 0;
}
