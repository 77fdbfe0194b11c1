/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_CONVERT_H
#define SHEAF_CKPT_CONVERT_H

/* Writing the tensors of one file to another format, one after the other through a bounded buffer. */

#include "format/tensor_file.h"

/* A tensor as it is to be written. The object graph is a string in a checkpoint and a vector of bytes elsewhere. */
struct sheaf__convert_item {
    struct sheaf__tensor_entry out; /* name, dtype and shape */
    const struct sheaf__tensor_entry *in;
    bool graph;
};

struct sheaf__convert {
    sheaf_tensor_file *from;
    const char *to;
    const sheaf_convert_options *options; /* never NULL */
    struct sheaf__convert_item *items;    /* as reading them is sequential */
    size_t count;
};

/* SHEAF_ERR_CANCELLED once the program asked to stop: asked before every piece, and before what is written gets its name. */
sheaf_status sheaf__convert_goes_on(sheaf_error *err);
/* What takes the bytes of a tensor. */
typedef sheaf_status (*sheaf__convert_put_fn)(void *user, const void *data, size_t size,
                                              sheaf_error *err);
/* Gives the bytes of a slice (NULL: all) of a tensor that is no string when it is written. */
sheaf_status sheaf__convert_copy(const struct sheaf__convert *c,
                                 const struct sheaf__convert_item *item,
                                 const struct sheaf__slice *slice, sheaf__convert_put_fn put,
                                 void *user, sheaf_error *err);
/* The value of a tensor that is a string when it is written, in the frame. */
sheaf_tensor *sheaf__convert_strings(const struct sheaf__convert *c,
                                     const struct sheaf__convert_item *item);

sheaf_status sheaf__convert_to_checkpoint(const struct sheaf__convert *c, sheaf_error *err);
sheaf_status sheaf__convert_to_safetensors(const struct sheaf__convert *c, sheaf_error *err);
sheaf_status sheaf__convert_to_npz(const struct sheaf__convert *c, sheaf_error *err);

#endif
