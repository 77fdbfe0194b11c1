/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_RESTORED_H
#define SHEAF_CKPT_RESTORED_H

/* What came of a restore: which values of the file were taken by whom, and which are still there for
 * objects that come later (formats.md 5.3). */

#include "ckpt/objects.h"
#include "format/bundle.h"

enum sheaf__restored_fate {
    SHEAF__RESTORED_LEFT, /* nobody has taken it */
    SHEAF__RESTORED_TAKEN,
    SHEAF__RESTORED_TOLD /* left, and a warning has said so */
};

struct sheaf__restored {
    char *path;
    sheaf_bundle *bundle; /* NULL: closed, as all of it was taken */
    struct sheaf__object_graph
        graph;                      /* the file's; no node: values are found by variables' names */
    uint8_t *fates;                 /* by node of the file */
    size_t left;                    /* nodes with tensors that nobody has taken */
    struct sheaf__strmap keys;      /* without graph: those that were taken */
    struct sheaf__strmap takers;    /* trackables of the program that have their values */
    struct sheaf__pointers watches; /* on objects whose children come later (restore.c) */
    bool partial;                   /* neither side needs to be whole, and nothing is said of it */
    bool speaks;                    /* for all the tasks that restore alike */
    sheaf_error fault;              /* of an object that came later; status 0: none */
};

/* Reads index and graph. */
sheaf_status sheaf__restored_open(const char *path, struct sheaf__restored **restored,
                                  sheaf_error *err);
/* Opens the bundle again, if it is closed. */
sheaf_status sheaf__restored_reopen(struct sheaf__restored *r, sheaf_error *err);
/* Lets go of what is not needed until an object comes: data files; the bundle, if all was taken. */
void sheaf__restored_rest(struct sheaf__restored *r);
/* Warns of what nobody has taken. NULL is nothing. */
void sheaf__restored_free(struct sheaf__restored *r);

/* Notes that `t` takes node `node` of the file, or without graph the tensor `key`; -1: that it needs none.
 * False: no memory. */
bool sheaf__restored_take(struct sheaf__restored *r, sheaf_trackable *t, int32_t node,
                          const char *key);
bool sheaf__restored_has_taken(const struct sheaf__restored *r, const sheaf_trackable *t);
/* The node that it took, -1 if none. */
int32_t sheaf__restored_node(const struct sheaf__restored *r, const sheaf_trackable *t);

/* SHEAF_ERR_FAILED_PRECONDITION names tensors of `objects` that had no value in the file. */
sheaf_status sheaf__restored_check_objects(const struct sheaf__restored *r,
                                           const struct sheaf__ckpt_objects *objects,
                                           sheaf_error *err);
/* The same of what is in the file and `objects` have not taken. */
sheaf_status sheaf__restored_check_file(struct sheaf__restored *r,
                                        const struct sheaf__ckpt_objects *objects,
                                        sheaf_error *err);

#endif
