/* SPDX-License-Identifier: Apache-2.0 */

/* Lack of memory: whichever allocation of a mirrored training fails, it ends with that error or as if nothing was; nothing
 * crashes, waits or is left behind. */

#include "helpers.h"

#include "base/mem.h"

struct model {
    sheaf_variable *weights;
    sheaf_optimizer *optimizer;
};

static sheaf_status fit(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct model *m = user;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_reshape(sheaf_cast(only(in), SHEAF_FLOAT32), SHEAF_SHAPE(-1, 1));
    sheaf_tensor *y = sheaf_matmul(x, sheaf_value(m->weights));
    const int columns = 1;
    sheaf_tensor *loss = sheaf_average_loss(r, sheaf_reduce_sum(sheaf_square(y), &columns, 1));
    sheaf_element_put(out, "loss", loss);
    return sheaf_optimizer_minimize(m->optimizer, tape, loss);
}

static sheaf_status train_once(sheaf_error *err)
{
    struct model m = {0};
    sheaf_strategy *s = NULL;
    sheaf_values *batch, *result;
    sheaf_element *sum;
    if (sheaf_strategy_new("mirrored", NULL, NULL, &s, err) < 0)
        return err->status;
    sheaf_step *step = NULL;
    SHEAF_SCOPE(s)
    {
        m.weights = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(1, 3),
                                        sheaf_init_constant(1), NULL);
        m.optimizer = sheaf_adam(NULL);
        step = sheaf_step_new(fit, &m, NULL);
    }
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 6, 1), 4, NULL);
    sheaf_dist_dataset *data = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(data);
    SHEAF_EACH(batch, it, err)
    if (sheaf_run_step(s, step, batch, &result, err) < 0 ||
        sheaf_reduce(s, SHEAF_REDUCE_SUM, result, NULL, 0, &sum, err) < 0)
        break;
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(data);
    sheaf_step_free(step);
    sheaf_optimizer_free(m.optimizer);
    sheaf_variable_free(m.weights);
    sheaf_strategy_free(s);
    sheaf_frame_clear();
    return err->status;
}

static void test_every_allocation(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(2, &err), &err);
    rig_ok(train_once(&err), &err);
    int failures = 0;
    bool hit = true;
    for (uint64_t k = 1; hit; k++) {
        err = (sheaf_error){0};
        sheaf__mem_fail_at(k);
        sheaf_status status = train_once(&err);
        hit = sheaf__mem_fail_hit();
        sheaf__mem_fail_at(0);
        if (status < 0 && status != SHEAF_ERR_RESOURCE_EXHAUSTED)
            fail_msg("allocation %llu: %d %s", (unsigned long long)k, (int)status, err.message);
        failures += status < 0;
    }
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_every_allocation)};
    return rig_run(tests);
}
