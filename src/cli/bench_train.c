/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"
#include "cli/bench_mlp.h"

#include <math.h>

/* Training rate: the best of three times 100 steps, after five to warm up. The loss after all of
 * them is printed, too: who starts from the same numbers must come to the same. */

enum { WARM_UP = 5, STEPS = 100, TIMES = 3 };

static sheaf_status measure(struct sheaf__mlp *m, int batch, const char *rule, sheaf_error *err)
{
    double best = 0, loss = NAN;
    for (int i = 0; i < WARM_UP; i++) {
        sheaf_status status = sheaf__mlp_step(m, NULL, err);
        if (status < 0)
            return status;
    }
    for (int i = 0; i < TIMES; i++) {
        double begin = sheaf__bench_now();
        for (int k = 0; k < STEPS; k++) {
            sheaf_status status = sheaf__mlp_step(m, k + 1 == STEPS ? &loss : NULL, err);
            if (status < 0)
                return status;
        }
        best = fmax(best, STEPS * batch / (sheaf__bench_now() - begin));
    }
    if (!isfinite(loss))
        return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "the loss is %g", loss);
    sheaf__bench_print(best, "examples/s", "train MLP 784-512-512-10 batch %d %s", batch, rule);
    sheaf__bench_print(loss, "loss", "loss after %d steps, MLP 784-512-512-10 batch %d %s",
                       WARM_UP + TIMES * STEPS, batch, rule);
    return SHEAF_OK;
}

int sheaf__bench_train(const struct sheaf__bench_options *options)
{
    static const struct {
        int batch;
        const char *rule;
    } CASES[] = {{32, "sgd"}, {32, "adam"}, {256, "sgd"}, {256, "adam"}};
    (void)options;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct sheaf__mlp m;
        sheaf_error err = {0};
        sheaf_status status = sheaf__mlp_make(&m, CASES[i].rule, CASES[i].batch, &err);
        if (status >= 0)
            status = measure(&m, CASES[i].batch, CASES[i].rule, &err);
        sheaf__mlp_free(&m);
        if (status < 0)
            return sheaf__bench_failed(&err);
    }
    return 0;
}
