/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_AUTOSHARD_H
#define SHEAF_DATA_AUTOSHARD_H

#include "data/rewrite.h"
#include "data/stage.h"

/* One worker's part of a pipeline (tf-semantics 2). */
struct sheaf__autoshard {
    sheaf_autoshard policy; /* in: asked for; out: applied */
    int64_t workers, worker;
    int64_t replicas;   /* N: parts of a batch, if a rebatch is made a legacy one */
    bool keep_balanced; /* it is not */
    char why[280];      /* out: of the choice, perhaps an error's message */
};

/* The rewritten pipeline; uses up `d`. On failure `*out` is not set. */
sheaf_status sheaf__autoshard(sheaf_dataset *d, struct sheaf__autoshard *a, sheaf_dataset **out,
                              sheaf_error *err);

/* A copy of every stage, so that it shares no state with the original (R9.11). */
sheaf_dataset *sheaf__dataset_clone(const sheaf_dataset *d);

#endif
