/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "ops_help.h"

#include "ops/mode.h"
#include "ops/tape_internal.h"
#include "tensor/frame.h"

#include <string.h>

static sheaf_variable *made(const char *name, sheaf_tensor *initial)
{
    return sheaf_variable_new(name, initial, NULL);
}

static void follows_what_is_watched(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SHAPE(2), 3, -4), *other = F32(SHEAF_SHAPE(2), 1, 1);
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, x);
    sheaf_tensor *y = sheaf_mul(sheaf_square(x), other);
    EXPECT(sheaf_tape_gradient(tape, y, x), SHEAF_FLOAT32, SHEAF_SHAPE(2), 6, -8);
}

static void is_zero_for_what_does_not_matter(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SHAPE(2), 3, -4), *other = F32(SHEAF_SHAPE(3), 1, 1, 1);
    sheaf_tape *tape = sheaf_tape_start_persistent();
    sheaf_tape_watch(tape, x);
    sheaf_tape_watch(tape, other);
    sheaf_tensor *y = sheaf_square(x), *unseen = F32(SHEAF_SHAPE(1), 1);
    EXPECT(sheaf_tape_gradient(tape, y, other), SHEAF_FLOAT32, SHEAF_SHAPE(3), 0, 0, 0);
    EXPECT(sheaf_tape_gradient(tape, y, unseen), SHEAF_FLOAT32, SHEAF_SHAPE(1), 0);
    EXPECT(sheaf_tape_gradient(tape, unseen, x), SHEAF_FLOAT32, SHEAF_SHAPE(2), 0, 0);
    EXPECT(sheaf_tape_gradient(tape, y, y), SHEAF_FLOAT32, SHEAF_SHAPE(2), 1, 1);
}

/* A tensor that is used several times collects all of it, in one order. */
static void adds_up_all_uses(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SCALAR, 3);
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, x);
    sheaf_tensor *y = sheaf_add(sheaf_mul(x, x), sheaf_mul(sheaf_square(x), x));
    EXPECT(sheaf_tape_gradient(tape, y, x), SHEAF_FLOAT32, SHEAF_SCALAR, 33);
}

static void expect_same(sheaf_tensor *got, sheaf_tensor *wanted)
{
    sheaf_error err = {0};
    rig_ok(sheaf_tensor_status(got, &err), &err);
    rig_ok(sheaf_tensor_status(wanted, &err), &err);
    assert_int_equal(got->dtype, wanted->dtype);
    assert_true(sheaf_shape_equal(got->shape, wanted->shape));
    assert_memory_equal(sheaf_tensor_data(got), sheaf_tensor_data(wanted),
                        (size_t)sheaf_tensor_elements(got) * sheaf_dtype_size(got->dtype));
}

static sheaf_tensor *drawn(sheaf_dtype dtype, int64_t rows, int64_t columns)
{
    return sheaf_cast(
        sheaf_random_normal(SHEAF_FLOAT32, SHEAF_SHAPE(rows, columns), 0, 1, (uint64_t)columns),
        dtype);
}

/* Where a product alone uses a relu's result, it does the relu's step; never what was asked for,
 * nor a part of a sum. */
static void products_do_the_step_of_a_relu(void **state)
{
    (void)state;
    const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16};
    for (int i = 0; i < 6; i++)
        SHEAF_FRAME
        {
            sheaf_dtype dtype = dtypes[i / 2];
            sheaf_tensor *x = drawn(dtype, 40, 20), *w = drawn(dtype, 20, 70);
            sheaf_tensor *v = drawn(dtype, 70, 50), *u = drawn(dtype, 70, 51);
            sheaf_tensor *zero = sheaf_zeros(dtype, SHEAF_SHAPE(70));
            sheaf_tape *tape = sheaf_tape_start_persistent();
            sheaf_tape_watch(tape, x);
            sheaf_tensor *h = i % 2 ? sheaf_dense(x, w, zero, SHEAF_ACTIVATION_RELU)
                                    : sheaf_relu(sheaf_matmul(x, w));
            sheaf_tensor *y = sheaf_matmul(h, v);
            sheaf_tensor *one = sheaf_tape_gradient(tape, y, x);
            sheaf_tensor *asked = sheaf_tape_gradient(tape, y, h);
            sheaf_tensor *both = sheaf_add(sheaf_sum(y), sheaf_sum(sheaf_matmul(h, u)));
            sheaf_tensor *two = sheaf_tape_gradient(tape, both, x);
            sheaf_tensor *dh =
                sheaf_matmul_ex(sheaf_ones(dtype, SHEAF_SHAPE(40, 50)), v, false, true);
            sheaf_tensor *du =
                sheaf_matmul_ex(sheaf_ones(dtype, SHEAF_SHAPE(40, 51)), u, false, true);
            expect_same(one, sheaf_matmul_ex(sheaf__op_run2(SHEAF__OP_RELU_GRAD, dh, h, NULL), w,
                                             false, true));
            expect_same(asked, dh);
            dh = sheaf_add(dh, du);
            expect_same(two, sheaf_matmul_ex(sheaf__op_run2(SHEAF__OP_RELU_GRAD, dh, h, NULL), w,
                                             false, true));
        }
}

/* Rows, copies to a device and plain numbers are views that tensors make by themselves. */
static void flows_through_views(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, x);
    sheaf_tensor *y = sheaf_square(sheaf_tensor_rows(sheaf_tensor_rows(x, 1, 3), 0, 1));
    y = sheaf_tensor_to_device(y, "CPU:0");
    EXPECT(sheaf_tape_gradient(tape, sheaf_plain(sheaf_sum(y)), x), SHEAF_FLOAT32,
           SHEAF_SHAPE(3, 2), 0, 0, 6, 8, 0, 0);
}

static void nests(void **state)
{
    (void)state;
    sheaf_tensor *x = F64(SHEAF_SCALAR, 2);
    sheaf_tape *outer = sheaf_tape_start();
    sheaf_tape_watch(outer, x);
    sheaf_tape *inner = sheaf_tape_start();
    sheaf_tape_watch(inner, x);
    sheaf_tensor *y = sheaf_mul(sheaf_square(x), x);
    sheaf_tensor *first = sheaf_tape_gradient(inner, y, x);
    EXPECT(first, SHEAF_FLOAT64, SHEAF_SCALAR, 12);
    EXPECT(sheaf_tape_gradient(outer, first, x), SHEAF_FLOAT64, SHEAF_SCALAR, 12);
}

static void persists_only_when_told(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_tensor *x = F32(SHEAF_SCALAR, 3);
    sheaf_tape *once = sheaf_tape_start(), *often = sheaf_tape_start_persistent();
    sheaf_tape_watch(once, x);
    sheaf_tape_watch(often, x);
    sheaf_tensor *y = sheaf_square(x);
    EXPECT(sheaf_tape_gradient(once, y, x), SHEAF_FLOAT32, SHEAF_SCALAR, 6);
    sheaf_tensor *again = sheaf_tape_gradient(once, y, x);
    rig_fails(sheaf_tensor_status(again, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "not persistent");
    EXPECT(sheaf_tape_gradient(often, y, x), SHEAF_FLOAT32, SHEAF_SCALAR, 6);
    sheaf_tensor *z = sheaf_mul(y, x);
    EXPECT(sheaf_tape_gradient(often, z, x), SHEAF_FLOAT32, SHEAF_SCALAR, 27);
}

/* The tape keeps what it needs when an inner frame closes under it. */
static void outlives_inner_frames(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SHAPE(2), 1, 2), *y = NULL;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, x);
    SHEAF_FRAME
    {
        y = sheaf_tensor_keep(sheaf_exp(sheaf_square(x)));
    }
    for (int i = 0; i < 50; i++) /* other tensors take the freed memory */
        SHEAF_FRAME sheaf_square(F32(SHEAF_SHAPE(2), 9, 9));
    EXPECT(sheaf_tape_gradient(tape, y, x), SHEAF_FLOAT32, SHEAF_SHAPE(2), 2 * exp(1), 4 * exp(4));
    sheaf_tensor_free(y);
}

static void ends_with_its_frame(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SCALAR, 3);
    SHEAF_FRAME
    {
        sheaf_tape_watch(sheaf_tape_start(), x);
        assert_true(sheaf__tape_follows(&x, 1));
    }
    assert_false(sheaf__tape_follows(&x, 1));
}

static void passes_failures_on(void **state)
{
    (void)state;
    sheaf_tensor *x = F32(SHEAF_SHAPE(2), 1, 2);
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, x);
    sheaf_tensor *bad = sheaf_add(x, F32(SHEAF_SHAPE(3), 1, 2, 3));
    expect_failed(sheaf_tape_gradient(tape, bad, x), "add: shapes");
}

/* ---- variables ---- */

static void lists_variables_in_the_order_of_creation(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *a = made("a", F32(SHEAF_SCALAR, 2)), *b = made("b", F32(SHEAF_SCALAR, 3));
    sheaf_variable *fixed = sheaf_variable_new("fixed", F32(SHEAF_SCALAR, 5),
                                               &(sheaf_variable_options){.not_trainable = true});
    sheaf_variable *whole = made("whole", sheaf_int(5));
    sheaf_variable *unused = made("unused", F32(SHEAF_SHAPE(2), 1, 1));
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_value(unused);
    sheaf_tensor *y = sheaf_mul(sheaf_value(b), sheaf_mul(sheaf_value(a), sheaf_value(b)));
    y = sheaf_mul(y, sheaf_mul(sheaf_value(fixed), sheaf_cast(sheaf_value(whole), SHEAF_FLOAT32)));
    struct sheaf__gradients g = {0};
    rig_ok(sheaf__tape_gradients(tape, y, NULL, &g, &err), &err);
    assert_int_equal(g.count, 3);
    assert_ptr_equal(g.all[0].variable, a);
    assert_ptr_equal(g.all[1].variable, b);
    assert_ptr_equal(g.all[2].variable, unused);
    EXPECT(g.all[0].value, SHEAF_FLOAT32, SHEAF_SCALAR, 225);
    EXPECT(g.all[1].value, SHEAF_FLOAT32, SHEAF_SCALAR, 300);
    assert_true(!g.all[0].unused && !g.all[1].unused && g.all[2].unused);
    assert_null(g.all[2].value);
    sheaf_variable *all[] = {a, b, fixed, whole, unused};
    for (int i = 0; i < 5; i++)
        sheaf_variable_free(all[i]);
}

struct order {
    size_t seen[3];
    size_t count;
    int pending; /* gradients not final when the first was */
};

static sheaf_status note(const struct sheaf__gradients *g, size_t i, void *user, sheaf_error *err)
{
    struct order *o = user;
    (void)err;
    if (o->count == 0)
        for (size_t k = 0; k < g->count; k++)
            o->pending += !g->all[k].value;
    o->seen[o->count++] = i;
    return SHEAF_OK;
}

/* The last layer's gradient is told while the first layer's is still to come. */
static void tells_gradients_as_they_become_final(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v[3];
    for (int i = 0; i < 3; i++)
        v[i] = made("w", F32(SHEAF_SHAPE(2, 2), 1, 2, 3, 4));
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = F32(SHEAF_SHAPE(1, 2), 1, 1);
    for (int i = 0; i < 3; i++)
        x = sheaf_matmul(x, sheaf_value(v[i]));
    struct order order = {0};
    struct sheaf__gradients g = {0};
    rig_ok(sheaf__tape_gradients(
               tape, x, &(struct sheaf__gradient_calls){.ready = note, .user = &order}, &g, &err),
           &err);
    assert_int_equal(order.count, 3);
    assert_int_equal(order.pending, 2);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(order.seen[i], 2 - i);
    EXPECT(g.all[0].value, SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), 17, 37, 17, 37);
    for (int i = 0; i < 3; i++)
        sheaf_variable_free(v[i]);
}

static sheaf_status refuse(const struct sheaf__gradients *g, size_t i, void *user, sheaf_error *err)
{
    (void)g, (void)i, (void)user;
    return sheaf_error_set(err, SHEAF_ERR_ABORTED, "enough");
}

static void stops_when_told(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = made("v", F32(SHEAF_SCALAR, 2));
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *y = sheaf_square(sheaf_value(v));
    struct sheaf__gradients g = {0};
    rig_fails(
        sheaf__tape_gradients(tape, y, &(struct sheaf__gradient_calls){.ready = refuse}, &g, &err),
        &err, SHEAF_ERR_ABORTED, "enough");
    sheaf_variable_free(v);
}

/* ---- gradients taken while they are computed ---- */

enum { WIDE = 300, LONG = 700, ROWS = 24 };

struct taker {
    float *got[4];
    _Atomic int64_t elements[4];
    bool direct[4];
};

static sheaf_status take_all(const struct sheaf__gradients *g, void *user, sheaf_error *err)
{
    struct taker *t = user;
    (void)err;
    for (size_t i = 0; i < g->count; i++) {
        t->direct[i] = g->all[i].direct;
        g->all[i].take = g->all[i].direct && t->got[i];
    }
    return SHEAF_OK;
}

static void take(size_t i, const void *elements, size_t first, size_t count, void *user)
{
    struct taker *t = user;
    memcpy(t->got[i] + first, elements, count * sizeof(float));
    t->elements[i] += (int64_t)count;
}

/* Two layers, the second weight as it is or transposed; another weight is used twice. */
static sheaf_tensor *two_layers(sheaf_variable *const *v, bool transposed)
{
    sheaf_tensor *x = sheaf_random_normal(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, LONG), 0, 1, 9);
    sheaf_tensor *bias = sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(WIDE));
    sheaf_tensor *h = sheaf_dense(x, sheaf_value(v[0]), bias, SHEAF_ACTIVATION_RELU);
    h = sheaf_matmul_ex(h, sheaf_value(v[1]), false, transposed);
    h = sheaf_matmul(h, sheaf_value(v[2]));
    return sheaf_sum(sheaf_square(sheaf_matmul(h, sheaf_value(v[2]))));
}

static void hands_elements_over(bool transposed)
{
    sheaf_error err = {0};
    static float first[LONG * WIDE], second[WIDE * 8];
    const sheaf_initializer normal = sheaf_init_normal(0, .1, 5);
    sheaf_shape shape = transposed ? SHEAF_SHAPE(8, WIDE) : SHEAF_SHAPE(WIDE, 8);
    sheaf_variable *v[] = {
        sheaf_variable_init("a", SHEAF_FLOAT32, SHEAF_SHAPE(LONG, WIDE), normal, NULL),
        sheaf_variable_init("b", SHEAF_FLOAT32, shape, normal, NULL),
        sheaf_variable_init("c", SHEAF_FLOAT32, SHEAF_SHAPE(8, 8), normal, NULL),
        sheaf_variable_init("d", SHEAF_FLOAT32, SHEAF_SHAPE(8, 8), normal, NULL),
    };
    struct taker t = {.got = {first, second, second, second}};
    struct sheaf__gradients plain = {0}, g = {0};
    sheaf_tape *tape = sheaf_tape_start();
    rig_ok(sheaf__tape_gradients(tape, two_layers(v, transposed), NULL, &plain, &err), &err);
    tape = sheaf_tape_start();
    /* d is read, and used by a product that the target does not depend on. */
    sheaf_matmul(sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(1, 8)), sheaf_value(v[3]));
    const struct sheaf__gradient_calls calls = {.begin = take_all, .take = take, .user = &t};
    rig_ok(sheaf__tape_gradients(tape, two_layers(v, transposed), &calls, &g, &err), &err);
    assert_int_equal(g.count, 4);
    assert_true(t.direct[0] && t.direct[1] && !t.direct[2] && t.direct[3]);
    for (size_t i = 0; i < 2; i++) {
        int64_t n = sheaf_tensor_elements(plain.all[i].value);
        assert_true(g.all[i].take && !g.all[i].unused && !g.all[i].value);
        assert_int_equal(t.elements[i], n);
        const float *wanted = sheaf_tensor_data(plain.all[i].value);
        assert_memory_equal(t.got[i], wanted, (size_t)n * sizeof(float));
    }
    assert_non_null(g.all[2].value);
    assert_true(g.all[3].unused && t.elements[3] == 0);
    for (int i = 0; i < 4; i++)
        sheaf_variable_free(v[i]);
}

static void hands_elements_over_while_computing(void **state)
{
    (void)state;
    hands_elements_over(false);
    hands_elements_over(true);
}

/* The value of a variable is the target itself: its gradient is more than the product's. */
static void hands_nothing_over_for_a_target(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = made("v", F32(SHEAF_SHAPE(1, 1), 3));
    struct taker t = {.got = {NULL}};
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *value = sheaf_value(v);
    sheaf_matmul(F32(SHEAF_SHAPE(1, 1), 2), value);
    const struct sheaf__gradient_calls calls = {.begin = take_all, .take = take, .user = &t};
    struct sheaf__gradients g = {0};
    rig_ok(sheaf__tape_gradients(tape, value, &calls, &g, &err), &err);
    assert_false(t.direct[0]);
    EXPECT(g.all[0].value, SHEAF_FLOAT32, SHEAF_SHAPE(1, 1), 1);
    sheaf_variable_free(v);
}

/* The gradient of look-ups is rows in the order of the look-ups, of both widths of ids. */
static void gives_rows_for_look_ups(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *table = made("table", F32(SHEAF_SHAPE(4, 2), 0, 1, 2, 3, 4, 5, 6, 7));
    sheaf_tape *tape = sheaf_tape_start_persistent();
    sheaf_tensor *a = sheaf_embedding_lookup(table, I32(SHEAF_SHAPE(2), 3, 1));
    sheaf_tensor *b = sheaf_embedding_lookup(table, I64(SHEAF_SHAPE(1, 1), 3));
    sheaf_tensor *y = sheaf_add(sheaf_sum(sheaf_square(a)), sheaf_sum(b));
    struct sheaf__gradients g = {0};
    rig_ok(sheaf__tape_gradients(tape, y, NULL, &g, &err), &err);
    assert_int_equal(g.count, 1);
    assert_int_equal(g.all[0].value->layout, SHEAF__ROWS);
    EXPECT(g.all[0].value->parts[SHEAF__INDICES], SHEAF_INT64, SHEAF_SHAPE(3), 3, 3, 1);
    EXPECT(g.all[0].value->parts[SHEAF__VALUES], SHEAF_FLOAT32, SHEAF_SHAPE(3, 2), 1, 1, 12, 14, 4,
           6);
    EXPECT(sheaf__tape_dense(g.all[0].value), SHEAF_FLOAT32, SHEAF_SHAPE(4, 2), 0, 0, 4, 6, 0, 0,
           13, 15);
    /* Read as a whole as well, it is dense. */
    y = sheaf_add(y, sheaf_sum(sheaf_value(table)));
    rig_ok(sheaf__tape_gradients(tape, y, NULL, &g, &err), &err);
    EXPECT(g.all[0].value, SHEAF_FLOAT32, SHEAF_SHAPE(4, 2), 1, 1, 5, 7, 1, 1, 14, 16);
    sheaf_variable_free(table);
}

/* A look-up differentiated twice: through a dense, recorded gradient. */
static void differentiates_look_ups_twice(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *table = made("table", F32(SHEAF_SHAPE(3, 1), 2, 3, 4));
    sheaf_tensor *ids = I64(SHEAF_SHAPE(2), 2, 2);
    sheaf_tape *outer = sheaf_tape_start();
    sheaf_tensor *t = sheaf_value(table);
    sheaf_tape *inner = sheaf_tape_start();
    sheaf_tape_watch(inner, t);
    sheaf_tensor *rows = sheaf_gather(t, ids);
    sheaf_tensor *y = sheaf_sum(sheaf_mul(sheaf_square(rows), rows));
    sheaf_tensor *first = sheaf_tape_gradient(inner, y, t);
    EXPECT(first, SHEAF_FLOAT32, SHEAF_SHAPE(3, 1), 0, 0, 96);
    struct sheaf__gradients g = {0};
    rig_ok(sheaf__tape_gradients(outer, first, NULL, &g, &err), &err);
    EXPECT(sheaf__tape_dense(g.all[0].value), SHEAF_FLOAT32, SHEAF_SHAPE(3, 1), 0, 0, 48);
    sheaf_variable_free(table);
}

/* ---- a network, against numbers worked out by hand ---- */

static void trains_a_line(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *w = made("w", F64(SHEAF_SHAPE(2, 1), 0, 0)),
                   *b = made("b", F64(SHEAF_SHAPE(1), 0));
    sheaf_tensor *x = F64(SHEAF_SHAPE(4, 2), 0, 0, 0, 1, 1, 0, 1, 1),
                 *z = F64(SHEAF_SHAPE(4, 1), 1, -1, 3, 1);
    for (int i = 0; i < 400; i++)
        SHEAF_FRAME
        {
            sheaf_tape *tape = sheaf_tape_start();
            sheaf_tensor *y = sheaf_add(sheaf_matmul(x, sheaf_value(w)), sheaf_value(b));
            sheaf_tensor *loss = sheaf_mean(sheaf_square(sheaf_sub(y, z)));
            struct sheaf__gradients g = {0};
            rig_ok(sheaf__tape_gradients(tape, loss, NULL, &g, &err), &err);
            for (size_t k = 0; k < g.count; k++)
                rig_ok(
                    sheaf_assign_sub(g.all[k].variable, sheaf_scale(g.all[k].value, .3, 0), &err),
                    &err);
        }
    EXPECT(sheaf_value(w), SHEAF_FLOAT64, SHEAF_SHAPE(2, 1), 2, -2);
    EXPECT(sheaf_value(b), SHEAF_FLOAT64, SHEAF_SHAPE(1), 1);
    sheaf_variable_free(w);
    sheaf_variable_free(b);
}

/* ---- an empty batch, and running out of memory ---- */

static void takes_an_empty_batch(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *w = made("w", F32(SHEAF_SHAPE(2, 3), 1, 2, 3, 4, 5, 6)),
                   *b = made("b", F32(SHEAF_SHAPE(3), 1, 2, 3));
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 2));
    sheaf_tensor *z = sheaf_relu(sheaf_add(sheaf_matmul(x, sheaf_value(w)), sheaf_value(b)));
    sheaf_tensor *losses =
        sheaf_sparse_softmax_cross_entropy(sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(0)), z);
    struct sheaf__gradients g = {0};
    rig_ok(sheaf__tape_gradients(tape, sheaf_sum(losses), NULL, &g, &err), &err);
    assert_int_equal(g.count, 2);
    EXPECT(g.all[0].value, SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT(g.all[1].value, SHEAF_FLOAT32, SHEAF_SHAPE(3), 0, 0, 0);
    sheaf_variable_free(w);
    sheaf_variable_free(b);
}

static sheaf_status take_gradients(sheaf_error *err)
{
    sheaf_status status = SHEAF_ERR_INTERNAL;
    sheaf_variable *w = made("w", F32(SHEAF_SHAPE(2, 2), 1, 2, 3, 4));
    SHEAF_FRAME
    {
        sheaf_tape *tape = sheaf_tape_start();
        sheaf_tensor *y = sheaf_relu(sheaf_matmul(F32(SHEAF_SHAPE(1, 2), 1, 1), sheaf_value(w)));
        y = sheaf_add(sheaf_sum(y), sheaf_sum(sheaf_embedding_lookup(w, I32(SHEAF_SHAPE(1), 1))));
        struct sheaf__gradients g = {0};
        status = sheaf__tape_gradients(tape, y, NULL, &g, err);
    }
    sheaf_variable_free(w);
    return status;
}

/* What a tape has room for. */
struct room {
    const void *places[5];
    size_t bytes[5];
};

static struct room room_of(const sheaf_tape *t)
{
    const struct sheaf__tape_array *arrays[] = {&t->kept, &t->slots, &t->inputs, &t->nodes,
                                                &t->map};
    struct room r;
    for (int i = 0; i < 5; i++) {
        r.places[i] = arrays[i]->data;
        r.bytes[i] = arrays[i]->capacity;
    }
    return r;
}

/* x doubled `times` times: its gradient is 2^times. Whether the tape had to be moved meanwhile. */
static bool doubles(struct sheaf__step_plan *plan, int times)
{
    struct sheaf__mode mode = {.kind = SHEAF__MODE_REPLICA, .plan = plan};
    bool moved = false;
    sheaf__mode_push(&mode);
    SHEAF_FRAME
    {
        sheaf_tensor *x = F32(SHEAF_SCALAR, 3), *y = x;
        sheaf_tape *tape = sheaf_tape_start();
        const struct room before = room_of(tape);
        sheaf_tape_watch(tape, x);
        for (int i = 0; i < times; i++)
            y = sheaf_add(y, y);
        const struct room after = room_of(tape);
        moved = memcmp(&before, &after, sizeof(before)) != 0;
        const float wanted = (float)(1 << times);
        EXPECT(sheaf_tape_gradient(tape, y, x), SHEAF_FLOAT32, SHEAF_SCALAR, wanted);
    }
    sheaf__mode_pop(&mode);
    return moved;
}

/* S145: the first run of a compiled step grows its tape, later ones have room for all from the start; one that strays
 * learns more. */
static void grows_once_with_a_plan(void **state)
{
    (void)state;
    struct sheaf__step_plan plan = {0};
    assert_true(doubles(&plan, 3));
    assert_false(doubles(&plan, 3));
    assert_false(doubles(&plan, 2));
    assert_true(doubles(&plan, 20));
    assert_false(doubles(&plan, 20));
    assert_false(doubles(&plan, 3));
    assert_int_equal(plan.bytes[3], 20 * sizeof(struct sheaf__tape_node));
    assert_true(doubles(NULL, 3));
    assert_true(doubles(NULL, 3));
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    (void)user;
    return in_own_context(take_gradients, err);
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(attempt, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(follows_what_is_watched),
        rig_test(is_zero_for_what_does_not_matter),
        rig_test(adds_up_all_uses),
        rig_test(products_do_the_step_of_a_relu),
        rig_test(flows_through_views),
        rig_test(nests),
        rig_test(persists_only_when_told),
        rig_test(outlives_inner_frames),
        rig_test(ends_with_its_frame),
        rig_test(passes_failures_on),
        rig_test(lists_variables_in_the_order_of_creation),
        rig_test(tells_gradients_as_they_become_final),
        rig_test(stops_when_told),
        rig_test(hands_elements_over_while_computing),
        rig_test(hands_nothing_over_for_a_target),
        rig_test(gives_rows_for_look_ups),
        rig_test(differentiates_look_ups_twice),
        rig_test(trains_a_line),
        rig_test(takes_an_empty_batch),
        rig_test(grows_once_with_a_plan),
        rig_test(survives_every_failed_allocation),
    };
    return rig_run(tests);
}
