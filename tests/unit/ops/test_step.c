/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "ops_help.h"

#include "base/mem.h"
#include "ops/tape.h"

/* A small network: forward, loss, backward, plain descent. */
struct net {
    sheaf_variable *w1, *b1, *w2, *b2, *table;
};

static void make(struct net *n)
{
    const sheaf_initializer glorot = sheaf_init_glorot_uniform(1);
    n->w1 = sheaf_variable_init("w1", SHEAF_FLOAT32, SHEAF_SHAPE(20, 64), glorot, NULL);
    n->b1 = sheaf_variable_init("b1", SHEAF_FLOAT32, SHEAF_SHAPE(64), sheaf_init_zeros(), NULL);
    n->w2 = sheaf_variable_init("w2", SHEAF_FLOAT32, SHEAF_SHAPE(64, 10), glorot, NULL);
    n->b2 = sheaf_variable_init("b2", SHEAF_FLOAT32, SHEAF_SHAPE(10), sheaf_init_zeros(), NULL);
    n->table = sheaf_variable_init("table", SHEAF_FLOAT32, SHEAF_SHAPE(10, 20), glorot, NULL);
}

static void drop(struct net *n)
{
    sheaf_variable *all[] = {n->w1, n->b1, n->w2, n->b2, n->table};
    for (int i = 0; i < 5; i++)
        sheaf_variable_free(all[i]);
}

static sheaf_status step(const struct net *n, int64_t rows, double *loss_out, sheaf_error *err)
{
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *labels = sheaf_range(0, rows, 1);
    sheaf_tensor *x = sheaf_add(sheaf_random_normal(SHEAF_FLOAT32, SHEAF_SHAPE(rows, 20), 0, 1, 3),
                                sheaf_embedding_lookup(n->table, labels));
    sheaf_tensor *h = sheaf_add(sheaf_matmul(x, sheaf_value(n->w1)), sheaf_value(n->b1));
    sheaf_tensor *z =
        sheaf_add(sheaf_matmul(sheaf_relu(h), sheaf_value(n->w2)), sheaf_value(n->b2));
    sheaf_tensor *loss = sheaf_mean(sheaf_sparse_softmax_cross_entropy(labels, z));
    struct sheaf__gradients g = {0};
    sheaf_status status = sheaf__tape_gradients(tape, loss, NULL, &g, err);
    for (size_t i = 0; i < g.count && status >= 0; i++)
        status = sheaf_assign_sub(g.all[i].variable,
                                  sheaf_scale(sheaf__tape_dense(g.all[i].value), .1, 0), err);
    *loss_out = sheaf_tensor_number(loss, 0);
    return status;
}

static double run(const struct net *n, int64_t rows)
{
    sheaf_error err = {0};
    double loss = 0;
    SHEAF_FRAME
    {
        rig_ok(step(n, rows, &loss, &err), &err);
    }
    return loss;
}

/* After the first runs, whose memory the pools keep, a step takes nothing from the system. */
static void a_repeated_step_allocates_nothing(void **state)
{
    (void)state;
    struct net n = {0};
    make(&n);
    double first = run(&n, 8), last = 0;
    run(&n, 8);
    uint64_t before = sheaf__mem_stats().allocations;
    for (int i = 0; i < 20; i++)
        last = run(&n, 8);
    assert_int_equal(sheaf__mem_stats().allocations - before, 0);
    assert_true(last < first / 2);
    drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(a_repeated_step_allocates_nothing)};
    return rig_run(tests);
}
