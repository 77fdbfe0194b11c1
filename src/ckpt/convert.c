/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/convert.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/shape.h"
#include "tensor/strings.h"
#include "tensor/tensor.h"

#include <sheaf/context.h>

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

sheaf_status sheaf__convert_goes_on(sheaf_error *err)
{
    return sheaf_stopped() ? sheaf__error(err, SHEAF_ERR_CANCELLED,
                                          "converting is given up: the program asked to stop")
                           : SHEAF_OK;
}

static sheaf_status copy_graph(const struct sheaf__convert *c,
                               const struct sheaf__convert_item *item, sheaf__convert_put_fn put,
                               void *user, sheaf_error *err)
{
    sheaf_error fault = {0};
    sheaf_bytes bytes;
    sheaf_tensor *t = sheaf__tensor_file_graph(c->from, item->in, &bytes, &fault);
    if (!t)
        return sheaf__error_copy(err, &fault);
    sheaf_status status = put(user, bytes.data, bytes.size, err);
    sheaf__unref(t);
    return status;
}

sheaf_status sheaf__convert_copy(const struct sheaf__convert *c,
                                 const struct sheaf__convert_item *item,
                                 const struct sheaf__slice *slice, sheaf__convert_put_fn put,
                                 void *user, sheaf_error *err)
{
    struct sheaf__tensor_stream s;
    const uint8_t *data;
    size_t size;
    SHEAF__TRY(sheaf__convert_goes_on(err));
    if (item->graph && item->in->dtype == SHEAF_STRING)
        return copy_graph(c, item, put, user, err);
    SHEAF__TRY(sheaf__tensor_stream_begin(&s, c->from, item->in, slice, err));
    for (;;) {
        const sheaf_status status = sheaf__tensor_stream_next(&s, &data, &size, err);
        if (status != SHEAF_OK)
            return status == SHEAF_END ? SHEAF_OK : status;
        SHEAF__TRY(put(user, data, size, err));
        SHEAF__TRY(sheaf__convert_goes_on(err));
    }
}

sheaf_tensor *sheaf__convert_strings(const struct sheaf__convert *c,
                                     const struct sheaf__convert_item *item)
{
    sheaf_error err = {0};
    sheaf_bytes bytes;
    if (sheaf__convert_goes_on(&err) < 0)
        return sheaf__tensor_give(NULL, &err);
    if (!item->graph)
        return sheaf__tensor_give(sheaf__tensor_file_whole(c->from, item->in, &err), &err);
    sheaf_tensor *t = sheaf__tensor_file_graph(c->from, item->in, &bytes, &err);
    if (!t)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *scalar = sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &bytes);
    sheaf__unref(t);
    return scalar;
}

/* ---- what there is to write ---- */

static int compare_places(const void *a, const void *b)
{
    const struct sheaf__convert_item *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->in->place[i] != y->in->place[i])
            return x->in->place[i] < y->in->place[i] ? -1 : 1;
    return strcmp(x->out.name, y->out.name);
}

/* Turns the object graph into what the format has for it. */
static sheaf_status shape_graph(const struct sheaf__convert *c, struct sheaf__convert_item *item,
                                bool to_checkpoint, sheaf_error *err)
{
    const struct sheaf__tensor_entry *in = item->in;
    item->graph = sheaf__tensor_entry_is_graph(in);
    if (!item->graph)
        return SHEAF_OK;
    if (to_checkpoint) {
        item->out.dtype = SHEAF_STRING;
        item->out.shape = SHEAF_SCALAR;
    } else if (in->dtype == SHEAF_STRING) {
        sheaf_error fault = {0};
        sheaf_bytes graph;
        sheaf_tensor *t = sheaf__tensor_file_graph(c->from, item->in, &graph, &fault);
        if (!t)
            return sheaf__error_copy(err, &fault);
        item->out.dtype = SHEAF_UINT8;
        item->out.shape = SHEAF_SHAPE((int64_t)graph.size);
        sheaf__unref(t);
    }
    return SHEAF_OK;
}

static sheaf_status list_items(struct sheaf__convert *c, bool to_checkpoint, sheaf_error *err)
{
    c->items = sheaf__calloc(c->from->count + 1, sizeof(*c->items));
    if (!c->items)
        return sheaf__no_memory(err, "the names of tensors");
    for (size_t i = 0; i < c->from->count; i++) {
        struct sheaf__convert_item *item = &c->items[c->count++];
        *item =
            (struct sheaf__convert_item){.out = c->from->entries[i], .in = &c->from->entries[i]};
        SHEAF__TRY(sheaf__tensor_file_readable(c->from, item->in, err));
        SHEAF__TRY(shape_graph(c, item, to_checkpoint, err));
    }
    if (c->count)
        qsort(c->items, c->count, sizeof(*c->items), compare_places);
    return SHEAF_OK;
}

static sheaf_status check_options(const sheaf_convert_options *o, bool checkpoint, bool safetensors,
                                  sheaf_error *err)
{
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
        if (o->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "convert options: reserved[%zu] is not 0", i);
    if (o->sharding && !checkpoint)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "convert options: a sharding policy is for checkpoints");
    if (o->max_file_bytes < 0 || (o->max_file_bytes && !safetensors))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "convert options: %lld bytes a file are for safetensors, and 1 or more",
                            (long long)o->max_file_bytes);
    if (o->deflate && (checkpoint || safetensors))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "convert options: only .npz files are deflated");
    return sheaf_sharding_callback_check(o->sharding, err);
}

/* What stands at the name is replaced if it is a file; a prefix that is also a directory's name is a slip. */
static sheaf_status check_target(const char *to, sheaf_error *err)
{
    struct sheaf__file_stat stat;
    if (!*sheaf__path_name(to))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "'%s' is no name of a file, expected one to write to", to);
    if (sheaf__file_stat(to, &stat, NULL) < 0 || stat.kind == SHEAF__FILE_REGULAR)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "'%s' is a %s, expected the name of a file to write to", to,
                        stat.kind == SHEAF__FILE_DIRECTORY ? "directory" : "special file");
}

sheaf_status sheaf_tensor_file_convert(sheaf_tensor_file *from, const char *to,
                                       const sheaf_convert_options *options, sheaf_error *err)
{
    static const sheaf_convert_options defaults;
    if (!from || !to)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "converting needs two files");
    const bool npz = sheaf__str_ends(to, ".npz");
    const bool safetensors =
        sheaf__str_ends(to, ".safetensors") || sheaf__str_ends(to, ".safetensors.index.json");
    const bool checkpoint = !npz && !safetensors;
    struct sheaf__convert c = {.from = from, .to = to, .options = options ? options : &defaults};
    SHEAF__TRY(check_options(c.options, checkpoint, safetensors, err));
    SHEAF__TRY(check_target(to, err));
    sheaf_status status = list_items(&c, checkpoint, err);
    if (status >= 0)
        status = npz           ? sheaf__convert_to_npz(&c, err)
                 : safetensors ? sheaf__convert_to_safetensors(&c, err)
                               : sheaf__convert_to_checkpoint(&c, err);
    sheaf__free(c.items);
    return status;
}
