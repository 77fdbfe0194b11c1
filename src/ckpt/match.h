/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_MATCH_H
#define SHEAF_CKPT_MATCH_H

/* Matching the objects of a program with those of a file, by the names of the edges alone, as
 * TensorFlow does (formats.md 5.3); in a file without objects, tensors by the names of variables. */

#include "ckpt/restored.h"

struct sheaf__ckpt_match {
    struct sheaf__restored *file;
    const struct sheaf__ckpt_objects *objects;
    int32_t *nodes; /* the file's, for every node of `objects`; -1: none */
};

/* Fills `nodes`, which has room; the first object is node `first` of the file. Warns where an object
 * that is a whole (trackable.h) has less than the file. SHEAF_ERR_INVALID_ARGUMENT: it is another one. */
sheaf_status sheaf__match_all(const struct sheaf__ckpt_match *m, int32_t first, sheaf_error *err);
/* The key under which the file has a tensor, NULL if it has none. */
const char *sheaf__match_key(const struct sheaf__ckpt_match *m, const struct sheaf__ckpt_tensor *t);
/* The error of a tensor that the file should have and has not. */
sheaf_status sheaf__match_missing(const struct sheaf__ckpt_match *m,
                                  const struct sheaf__ckpt_tensor *t, sheaf_error *err);

#endif
