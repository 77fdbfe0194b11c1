/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_KEEP_H
#define SHEAF_CKPT_KEEP_H

/* Which checkpoints of a directory stay: the newest, one in so many hours, the best. What is to be known
 * after a restart stands in the state file (times) and beside each checkpoint (how good it is). */

#include "ckpt/group.h"
#include "format/state_file.h"

#include <sheaf/checkpoint.h>

struct sheaf__keep {
    const char *directory, *name; /* of the files "<name>-N" */
    int newest;                   /* so many; negative: all */
    int best;                     /* so many beside them */
    bool lower_is_better;
    double every; /* seconds; 0: none stays for ever */
    double since; /* when this began: seconds since 1970 */
    bool adopted; /* `state` was read */
    struct sheaf__state_file state;
};

/* Borrows the texts. */
struct sheaf__keep sheaf__keep_init(const char *directory, const char *name,
                                    const sheaf_manager_options *options);
void sheaf__keep_free(struct sheaf__keep *k);
/* The directory is another one by now: what is in it is looked at when it is needed, as at first. */
void sheaf__keep_forget(struct sheaf__keep *k);
/* A save begins that will become the checkpoint `path`: what is left of it when this process is killed is ours. */
void sheaf__keep_begin(const struct sheaf__keep *k, const char *path);
/* It has failed. */
void sheaf__keep_give_up(const struct sheaf__keep *k, const char *path);
/* Names a new checkpoint as the latest in the state file, then deletes what does not stay. Both as far
 * as `group` (NULL: none) lets this process. */
sheaf_status sheaf__keep_add(struct sheaf__keep *k, const char *path,
                             struct sheaf__save_group *group, sheaf_error *err);

#endif
