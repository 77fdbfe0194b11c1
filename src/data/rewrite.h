/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_REWRITE_H
#define SHEAF_DATA_REWRITE_H

/* What distribute/ does to a dataset: rebatch, prefetch, auto-shard (R1.2), as a rewriting of the
 * stage tree, and the types and empty elements that go with it. */

#include <sheaf/dataset.h>

/* Where one worker stands (R0.2). Zeros are ones (index 0). */
struct sheaf__split {
    int workers;  /* W: input pipelines */
    int worker;   /* w */
    int replicas; /* R: of each worker; N = W * R */
    int ahead;    /* steps that are made ahead; 0: one, of a dataset that is rebatched */
    bool agreed;  /* the workers will have the same seeds where the program gave none */
    bool again;   /* it was done before: nothing is logged */
};

/* The dataset that one worker iterates. Its element number t * R + r belongs to replica r in step
 * t. */
struct sheaf__split_dataset {
    sheaf_dataset *dataset;   /* counted; sheaf_dataset_free() */
    sheaf_element_spec *spec; /* of one replica's part (R1.41-R1.43), NULL if not known; counted */
    sheaf_autoshard policy;   /* what was applied: never AUTO */
    sheaf_rebatch rebatch;    /* LEGACY or BALANCED; AUTO: not rebatched (N is 1) */
    int64_t batch_size;       /* global, -1 if it could not be inferred (R1.8, R1.9) */
    char why[360];            /* one line: "autoshard policy DATA: as asked for" */
};

/* Rewrites `d` (borrowed, unchanged) for a worker. SHEAF_ERR_INVALID_ARGUMENT: elements without a
 * batch axis (R1.7), a bad split; SHEAF_ERR_NOT_FOUND: policy FILE and no file source (R2.35); or
 * the error that `d` holds. A fallback of AUTO is logged once as a warning (S49). */
sheaf_status sheaf__split_make(sheaf_dataset *d, const struct sheaf__split *split,
                               struct sheaf__split_dataset *out, sheaf_error *err);
void sheaf__split_free(struct sheaf__split_dataset *s);

/* The files that a dataset reads, as the end of a line: "; 2 files: a, b", the first `most` by name; "" if there are none
 * or a function makes their names. sheaf__free(); NULL: no memory. */
char *sheaf__autoshard_files(const sheaf_dataset *d, int64_t most);
/* "FILE". */
const char *sheaf__autoshard_name(sheaf_autoshard policy);
const char *sheaf__rebatch_name(sheaf_rebatch rule);

/* Warns where a worker divides by hand what has no order that all know (S189). */
void sheaf__split_check_shards(const sheaf_dataset *d);

/* The batch size that the rebatching assumes (R1.8, R1.9), -1 if it cannot be inferred. */
int64_t sheaf__batch_size_of(const sheaf_dataset *d);
/* Size list of worker w, N entries (R1.12). */
void sheaf__batch_sizes_for_worker(int64_t global, const struct sheaf__split *split,
                                   int64_t *sizes);

/* Whether every size of every tensor is known (R3.2). False for a NULL spec. */
bool sheaf__spec_is_static(const sheaf_element_spec *spec);
/* The same spec with every first size unknown (R1.45); a new count. NULL: no memory or a NULL spec.
 */
sheaf_element_spec *sheaf__spec_any_batch(const sheaf_element_spec *spec);
/* An element of no examples for a replica without data (R3.15-R3.18); a new count. What the spec
 * does not know, layouts and whole shapes, is taken from `like`, a real element of the same dataset,
 * if that is not NULL; `spec` may be NULL then. NULL: no memory, or both are NULL. */
sheaf_element *sheaf__spec_dummy(const sheaf_element_spec *spec, const sheaf_element *like);

/* Whether iterators of `d` give exactly as many elements as its cardinality says, a number or SHEAF_INFINITE, whatever
 * happens: no function, no file and nothing else that may fail takes part. */
bool sheaf__dataset_is_certain(const sheaf_dataset *d);

/* The pipeline as text, a stage a line, source first; sheaf__free(). NULL: no memory. */
char *sheaf__dataset_explain(const sheaf_dataset *d);
/* The line of its last stage, without its end. */
char *sheaf__dataset_line(const sheaf_dataset *d);
/* The same of the stages that make a difference to the elements and their order. */
char *sheaf__dataset_order(const sheaf_dataset *d);

#endif
