/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_SLICE_H
#define SHEAF_FORMAT_SLICE_H

/* Slices of tensors: their arithmetic, their text (R8.6) and their keys in a checkpoint's index
 * (R8.27, formats.md 4.5). */

#include "base/buf.h"
#include "base/str.h"

#include <sheaf/tensor.h>

/* A box in a tensor of shape `full`, which all of it lies in. */
struct sheaf__slice {
    sheaf_shape full;
    sheaf_shape shape;
    int64_t offset[SHEAF_MAX_RANK];
};

/* The whole of a tensor. */
struct sheaf__slice sheaf__slice_all(sheaf_shape full);
/* True if the slice is the whole tensor. */
bool sheaf__slice_is_all(const struct sheaf__slice *s);
bool sheaf__slice_equal(const struct sheaf__slice *a, const struct sheaf__slice *b);
/* False if the ranks differ, a size is negative or a part lies outside. */
bool sheaf__slice_is_valid(const struct sheaf__slice *s);
/* Number of elements that two slices of one tensor share, 0 if none; `common` (may be NULL) gets
 * the box. */
int64_t sheaf__slice_intersect(const struct sheaf__slice *a, const struct sheaf__slice *b,
                               struct sheaf__slice *common);

/* Copies elements of slice `from`, given as its row-major elements [first, first + count) in
 * `data`, to their places in `out`, which holds slice `to`; those outside `to` are dropped. */
struct sheaf__slice_copy {
    const struct sheaf__slice *from;
    const struct sheaf__slice *to;
    size_t width; /* bytes of an element */
    void *out;
};
void sheaf__slice_scatter(const struct sheaf__slice_copy *copy, int64_t first, int64_t count,
                          const void *data);

/* Gathers what slices `from` and `to` of a tensor share out of a file that holds `from`, reading no
 * more than those bytes, small gaps, and `scratch_size` at once. */
struct sheaf__slice_gather {
    struct sheaf__slice_copy copy;
    /* Reads elements [first, first + count) of `from` to `out`. */
    sheaf_status (*fetch)(void *user, int64_t first, int64_t count, void *out, sheaf_error *err);
    void *user;
    void *scratch;
    size_t scratch_size;
};
sheaf_status sheaf__slice_gather(const struct sheaf__slice_gather *g, sheaf_error *err);

/* The box that begins with element `first` of a slice, as many as follow each other in its row-major order and are
 * at most `most` (at least 1); `first` 0 or where the box before ended. */
struct sheaf__slice sheaf__slice_box(const struct sheaf__slice *s, int64_t first, int64_t most);

/* Start and length as they are spelled in an index; length SHEAF__WHOLE_AXIS: all of the axis. */
#define SHEAF__WHOLE_AXIS (-1)
struct sheaf__extent {
    int64_t start;
    int64_t length;
};
/* The spelling with a start and a length for every axis, which TensorFlow's own savers use. */
void sheaf__slice_spell(const struct sheaf__slice *s, struct sheaf__extent *extents);
/* The slice that `extents` spell; false if one lies outside, is empty or negative. */
bool sheaf__slice_from(sheaf_shape full, const struct sheaf__extent *extents,
                       struct sheaf__slice *s);
/* Appends the key under which a slice of tensor `name` is stored. */
void sheaf__slice_key(struct sheaf__buf *key, const void *name, size_t name_size,
                      const struct sheaf__extent *extents, int rank);

/* "10 3 4,3:0,3"; nothing for a whole tensor. */
void sheaf__slice_text(struct sheaf__str *text, const struct sheaf__slice *s);
/* Reads such a text; "" is the whole of a tensor of shape `full`, whose sizes must be the text's.
 * SHEAF_ERR_INVALID_ARGUMENT. */
sheaf_status sheaf__slice_parse(const char *text, sheaf_shape full, struct sheaf__slice *s,
                                sheaf_error *err);

#endif
