/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_BENCH_MLP_H
#define SHEAF_CLI_BENCH_MLP_H

/* The network of the benchmarks: 784-512-512-10, relu, softmax cross-entropy, one device. */

#include <sheaf/sheaf.h>

enum { SHEAF__MLP_LAYERS = 3 };

struct sheaf__mlp {
    sheaf_strategy *strategy;
    sheaf_variable *w[SHEAF__MLP_LAYERS], *b[SHEAF__MLP_LAYERS];
    sheaf_optimizer *optimizer;
    sheaf_step *step;
    sheaf_values *batch; /* the same random one at every step */
};

/* Makes all of it. On failure what was made is the caller's to free. */
sheaf_status sheaf__mlp_make(struct sheaf__mlp *m, const char *rule, int batch, sheaf_error *err);
/* One training step; the loss is computed, and read if `loss` is given. */
sheaf_status sheaf__mlp_step(struct sheaf__mlp *m, double *loss, sheaf_error *err);
void sheaf__mlp_free(struct sheaf__mlp *m);

#endif
