/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_RULE_H
#define SHEAF_OPTIM_RULE_H

/* Update rules over buffers (tf-semantics 12.2): value and slots before, gradient, value and slots
 * after. They know no variables and allocate nothing.
 *
 * Every rule works element by element, so a variable may be updated in chunks, by any number of
 * threads, with the same bits however it is cut. */

#include "optim/rules.h"

#include <sheaf/optimizer.h>

enum sheaf__hyper_flags {
    SHEAF__HYPER_NESTEROV = 1,
    SHEAF__HYPER_AMSGRAD = 2,
    SHEAF__HYPER_CENTERED = 4,
    SHEAF__HYPER_KERAS3_SPARSE = 8 /* rows follow Keras 3 to the letter (R12.4) */
};

/* All that a rule needs for one step. Of fixed size and without pointers, so that it travels with a
 * push as it is (little endian); sheaf__hyper_check() looks at one that came from outside. */
struct sheaf__hyper {
    uint32_t rule;   /* enum sheaf__rule (rules.h) */
    uint32_t family; /* sheaf_optimizer_family */
    uint32_t flags;
    uint32_t reserved;
    int64_t step; /* number of this update, from 1 */
    double lr;    /* rate of this step: after schedule and decay */
    double weight_decay;
    double momentum;
    double rho;
    double beta1, beta2;
    /* Running products up to this step: of the betas in float32 for v1's Adam (R12.3), of the
     * momenta for Nadam. */
    double beta1_product, beta2_product;
    double epsilon;
    double initial_accumulator;
    double l1, l2, l2_shrinkage, beta;
    double learning_rate_power;
};
_Static_assert(sizeof(struct sheaf__hyper) == 144, "crosses the network as it is");

/* SHEAF_ERR_INVALID_ARGUMENT: unknown rule or flag, a family without the rule, a step below 1, a
 * number that is not finite. */
sheaf_status sheaf__hyper_check(const struct sheaf__hyper *h, sheaf_error *err);

#define SHEAF__RULE_SLOTS 3 /* most slots of a rule */

/* A slot: a buffer of the variable's shape and dtype that starts out filled with `fill`. */
struct sheaf__rule_slot {
    const char
        *name; /* as the family calls it in checkpoints: "momentum", "m", … Static storage. */
    double fill;
};
/* The slots of the rule, in the order of struct sheaf__update. Depends on the rule, the family, the
 * flags, momentum and initial_accumulator. Returns how many. */
size_t sheaf__rule_slots(const struct sheaf__hyper *h,
                         struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS]);

/* The buffers of one variable, or of one part of it. SHEAF_FLOAT32, SHEAF_FLOAT64 or SHEAF_BFLOAT16
 * (computed in float32). */
struct sheaf__update {
    sheaf_dtype dtype;
    const void *from;               /* value before */
    void *to;                       /* value after; the same memory as `from`, or not overlapping */
    void *slots[SHEAF__RULE_SLOTS]; /* changed in place */
};

bool sheaf__rule_takes(sheaf_dtype dtype);

/* Applies a dense gradient to the elements [begin, end). */
void sheaf__rule_apply(const struct sheaf__hyper *h, const struct sheaf__update *u,
                       const void *gradient, size_t begin, size_t end);

/* A gradient of rows: `values` are `count` rows of `width` elements, which belong to the rows `ids`
 * of a variable of `rows` rows. */
struct sheaf__rule_rows {
    const int64_t *ids;
    const void *values;
    const void
        *squares; /* sum of the squares of repeated rows; NULL: square of their sum. Adamax: of
                          * their sizes */
    size_t count;
    int64_t width;
    int64_t rows;
};

/* Rows made unique: ids ascending, values (and squares, if `h` wants them) of repeated rows summed
 * in order. */
struct sheaf__rule_merged {
    struct sheaf__rule_rows rows; /* what to apply; may be the input itself if that was in order */
    void *memory;
};
/* SHEAF_ERR_INVALID_ARGUMENT: an id outside 0..rows-1 (names it and its place). */
sheaf_status sheaf__rule_merge(const struct sheaf__hyper *h, sheaf_dtype dtype,
                               const struct sheaf__rule_rows *rows,
                               struct sheaf__rule_merged *merged, sheaf_error *err);
void sheaf__rule_merged_free(struct sheaf__rule_merged *merged);

/* Applies merged rows to the variable's rows [begin, end). What becomes of rows without a gradient
 * is the family's matter (R12.4): v1 and legacy move all rows with Adam, legacy decays the slots of
 * all with RMSprop without momentum, Keras 3 does both for every rule if SHEAF__HYPER_KERAS3_SPARSE
 * is set; else they stay as they are. If `to` is other memory than `from`, rows that stay are
 * copied. */
void sheaf__rule_apply_rows(const struct sheaf__hyper *h, const struct sheaf__update *u,
                            const struct sheaf__rule_rows *merged, int64_t begin, int64_t end);
/* True if rows without a gradient may change. */
bool sheaf__rule_moves_all(const struct sheaf__hyper *h);

/* Nadam's momentum of a step, from 1. */
double sheaf__rule_nadam_momentum(double beta1, int64_t step);

#endif
