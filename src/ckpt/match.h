/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_MATCH_H
#define SHEAF_CKPT_MATCH_H

/* Matching the objects of a program with those of a file, by the names of the edges alone, as
 * TensorFlow does (formats.md 5.3); in a file without objects, tensors by the names of variables. */

#include "ckpt/restored.h"

/* Below the nodes of a file: -1, it has none, and of what it need not have: */
enum {
    SHEAF__MATCH_LACKS = -2, /* which is told */
    SHEAF__MATCH_NOT_MISSED = -3
};

struct sheaf__ckpt_match {
    struct sheaf__restored *file;
    struct sheaf__ckpt_objects *objects;
    int32_t *nodes; /* the file's, for every node of `objects`; below 0: none */
    const char *
        *keys; /* in a file without objects, of what is not found by its own name; or NULL */
    size_t capacity, key_capacity;
};

/* Fills a match whose file and objects are set; the first object is node `first` of the file. Adds objects whose values the
 * file has and that are nobody's children. Warns where an object that is a whole (trackable.h) has less than the file.
 * SHEAF_ERR_INVALID_ARGUMENT: it is another one. */
sheaf_status sheaf__match_all(struct sheaf__ckpt_match *m, int32_t first, sheaf_error *err);
void sheaf__match_free(struct sheaf__ckpt_match *m);
/* Room for all objects. False: no memory. */
bool sheaf__match_reserve(struct sheaf__ckpt_match *m);
/* The node of slot `name` of the variable at node `variable`, -1 if the optimizer has none. */
int32_t sheaf__match_slot(const struct sheaf__graph_node *optimizer, const char *name,
                          int32_t variable);
/* Finds what is still missing in other places (elsewhere.c). */
sheaf_status sheaf__match_elsewhere(struct sheaf__ckpt_match *m, sheaf_error *err);
/* The key under which the file has a tensor, NULL if it has none. */
const char *sheaf__match_key(const struct sheaf__ckpt_match *m, const struct sheaf__ckpt_tensor *t);
/* The error of a tensor that the file should have and has not. */
sheaf_status sheaf__match_missing(const struct sheaf__ckpt_match *m,
                                  const struct sheaf__ckpt_tensor *t, sheaf_error *err);

#endif
