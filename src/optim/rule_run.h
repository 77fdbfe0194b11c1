/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_RULE_RUN_H
#define SHEAF_OPTIM_RULE_RUN_H

/* A rule made ready for the buffers of one variable: what dense and row gradients share. */

#include "optim/rule_kernel.h"

struct sheaf__rule_run {
    const struct sheaf__update *update;
    struct sheaf__rule_constants constants;
    sheaf__rule_kernel kernel;
    sheaf__rule_kernel with_squares; /* NULL: squares do not matter */
    sheaf__rule_kernel decay;        /* NULL: no weight decay */
    size_t slots;
    size_t size; /* bytes of an element */
};

void sheaf__rule_run_init(struct sheaf__rule_run *run, const struct sheaf__hyper *h,
                          const struct sheaf__update *u);
/* Updates `n` elements from number `first` on with the gradients at `gradient`; `squares` may be
 * NULL. */
void sheaf__rule_run_span(const struct sheaf__rule_run *run, size_t first, const void *gradient,
                          const void *squares, size_t n);

#endif
