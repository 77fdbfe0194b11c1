/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "ops_help.h"

#include "base/mem.h"
#include "ops/plan.h"
#include "ops/tape.h"

/* A small network: forward, loss, backward, plain descent. */
struct net {
    sheaf_variable *w1, *b1, *w2, *b2, *table;
    bool other_way; /* take another path */
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
    h = n->other_way ? sheaf_tanh(h) : sheaf_relu(h);
    sheaf_tensor *z = sheaf_add(sheaf_matmul(h, sheaf_value(n->w2)), sheaf_value(n->b2));
    sheaf_tensor *loss = sheaf_mean(sheaf_sparse_softmax_cross_entropy(labels, z));
    struct sheaf__gradients g = {0};
    sheaf_status status = sheaf__tape_gradients(tape, loss, NULL, &g, err);
    for (size_t i = 0; i < g.count && status >= 0; i++)
        status = sheaf_assign_sub(g.all[i].variable,
                                  sheaf_scale(sheaf__tape_dense(g.all[i].value), .1, 0), err);
    *loss_out = sheaf_tensor_number(loss, 0);
    return status;
}

static double run(struct sheaf__plan *plan, const struct net *n, int64_t rows)
{
    sheaf_error err = {0};
    double loss = 0;
    SHEAF_FRAME
    {
        sheaf__plan_begin(plan);
        sheaf_status status = step(n, rows, &loss, &err);
        sheaf__plan_end(plan, status);
        rig_ok(status, &err);
    }
    return loss;
}

/* After the first runs, whose memory the pools keep, a step takes nothing from the system. */
static void a_repeated_step_allocates_nothing(void **state)
{
    (void)state;
    struct net n = {0};
    sheaf_error err = {0};
    make(&n);
    struct sheaf__plan *plan = sheaf__plan_new(&err);
    double first = run(plan, &n, 8), last = 0;
    run(plan, &n, 8);
    uint64_t before = sheaf__mem_stats().allocations;
    for (int i = 0; i < 20; i++)
        last = run(plan, &n, 8);
    assert_int_equal(sheaf__mem_stats().allocations - before, 0);
    assert_true(last < first / 2);
    assert_int_equal(sheaf__plan_runs(plan), 22);
    assert_int_equal(sheaf__plan_strays(plan), 0);
    sheaf__plan_free(plan);
    drop(&n);
}

static void learns_operations_and_variables(void **state)
{
    (void)state;
    struct net n = {0};
    sheaf_error err = {0};
    make(&n);
    struct sheaf__plan *plan = sheaf__plan_new(&err);
    run(plan, &n, 8);
    size_t ops = 0, variables = 0;
    const struct sheaf__plan_op *op = sheaf__plan_ops(plan, &ops);
    assert_true(ops > 20);
    assert_string_equal(op[0].op->name, "range");
    size_t products = 0, of_relu = 0;
    for (size_t i = 0; i < ops; i++) {
        products += op[i].op == sheaf__op(SHEAF__OP_MATMUL);
        of_relu += op[i].op == sheaf__op(SHEAF__OP_MATMUL_RELU_GRAD);
    }
    /* Two forward, four backward: the table wants x's gradient. One of them does the relu's step. */
    assert_int_equal(products, 5);
    assert_int_equal(of_relu, 1);
    const struct sheaf__plan_variable *v = sheaf__plan_variables(plan, &variables);
    assert_int_equal(variables, 5);
    for (size_t i = 0; i < variables; i++)
        assert_true(v[i].whole || v[i].variable == n.table);
    /* Another number of rows is the same plan, with that size unknown. */
    run(plan, &n, 5);
    op = sheaf__plan_ops(plan, &ops);
    assert_int_equal(sheaf__plan_strays(plan), 0);
    assert_int_equal(op[0].shape.dims[0], SHEAF_UNKNOWN_DIM);
    sheaf__plan_free(plan);
    drop(&n);
}

static void notices_when_a_run_strays(void **state)
{
    (void)state;
    struct net n = {0};
    sheaf_error err = {0};
    size_t ops = 0, after = 0;
    make(&n);
    struct sheaf__plan *plan = sheaf__plan_new(&err);
    run(plan, &n, 8);
    sheaf__plan_ops(plan, &ops);
    n.other_way = true;
    run(plan, &n, 8);
    assert_int_equal(sheaf__plan_strays(plan), 1);
    run(plan, &n, 8);
    assert_int_equal(sheaf__plan_strays(plan), 1);
    const struct sheaf__plan_op *op = sheaf__plan_ops(plan, &after);
    bool tanh_seen = false, relu_seen = false;
    for (size_t i = 0; i < after; i++) {
        tanh_seen = tanh_seen || op[i].op == sheaf__op(SHEAF__OP_TANH);
        relu_seen = relu_seen || op[i].op == sheaf__op(SHEAF__OP_RELU);
    }
    assert_true(tanh_seen && !relu_seen);
    assert_int_equal(after, ops + 1); /* the step of a relu is done by the product before */
    sheaf__plan_free(plan);
    drop(&n);
}

/* Planned without running: dtypes and shapes are inferred, nothing is computed or written. */
static void plans_without_running(void **state)
{
    (void)state;
    struct net n = {0};
    sheaf_error err = {0};
    size_t traced = 0, ran = 0;
    make(&n);
    struct sheaf__plan *plan = sheaf__plan_new(&err), *real = sheaf__plan_new(&err);
    double before = sheaf_tensor_number(sheaf_value(n.w1), 0);
    assert_false(sheaf__plan_set_tracing(true));
    assert_true(run(plan, &n, 8) == 0);
    assert_true(sheaf__plan_set_tracing(false));
    assert_true(sheaf_tensor_number(sheaf_value(n.w1), 0) == before);
    run(real, &n, 8);
    const struct sheaf__plan_op *a = sheaf__plan_ops(plan, &traced),
                                *b = sheaf__plan_ops(real, &ran);
    assert_int_equal(traced, ran);
    for (size_t i = 0; i < ran; i++)
        assert_true(a[i].op == b[i].op && a[i].dtype == b[i].dtype &&
                    sheaf_shape_equal(a[i].shape, b[i].shape));
    sheaf__plan_free(plan);
    sheaf__plan_free(real);
    drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(a_repeated_step_allocates_nothing),
        rig_test(learns_operations_and_variables),
        rig_test(notices_when_a_run_strays),
        rig_test(plans_without_running),
    };
    return rig_run(tests);
}
