/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "ops_help.h"

#include "base/thread.h"
#include "ops/mode.h"
#include "ops/variable.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static void reads_snapshots(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    sheaf_tensor *before = sheaf_value(v);
    rig_ok(sheaf_assign_add(v, F32(SHEAF_SHAPE(2), 10, 20), &err), &err);
    sheaf_tensor *between = sheaf_value(v);
    rig_ok(sheaf_assign(v, F32(SHEAF_SHAPE(2), 7, 8), &err), &err);
    rig_ok(sheaf_assign_sub(v, F32(SHEAF_SHAPE(2), 1, 1), &err), &err);
    EXPECT(before, SHEAF_FLOAT32, SHEAF_SHAPE(2), 1, 2);
    EXPECT(between, SHEAF_FLOAT32, SHEAF_SHAPE(2), 11, 22);
    EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(2), 6, 7);
    sheaf_variable_free(v);
}

/* A write changes memory in place unless somebody reads it. */
static void writes_in_place_without_readers(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    const void *from = NULL;
    const void *to = sheaf__variable_update_begin(v, &from);
    sheaf__variable_update_commit(v);
    assert_ptr_equal(to, from);
    SHEAF_FRAME
    {
        assert_ptr_equal(sheaf_tensor_data(sheaf_value(v)), from);
        float *other = sheaf__variable_update_begin(v, &from);
        assert_ptr_not_equal(other, from);
        other[0] = other[1] = 5;
        sheaf__variable_update_commit(v);
        EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(2), 5, 5);
    }
    sheaf_variable_free(v);
}

/* A given value that nobody else has becomes the variable's without a copy, as one that a restore
 * has read; whoever gave it and reads on sees no later write. */
static void takes_values_that_nobody_else_has(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    SHEAF_FRAME
    {
        sheaf_tensor *given = F32(SHEAF_SHAPE(2), 3, 4);
        rig_ok(sheaf_assign(v, given, &err), &err);
        assert_ptr_equal(sheaf_tensor_data(sheaf_value(v)), sheaf_tensor_data(given));
        rig_ok(sheaf_assign_add(v, F32(SHEAF_SHAPE(2), 1, 1), &err), &err);
        EXPECT(given, SHEAF_FLOAT32, SHEAF_SHAPE(2), 3, 4);
    }
    const void *from = NULL;
    const float *to = sheaf__variable_update_begin(v, &from);
    sheaf__variable_update_commit(v);
    assert_ptr_equal(to, from);
    EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(2), 4, 5);
    sheaf_variable_free(v);
}

/* Anything else is copied: memory that is not the pool's, a part of more, what another one holds. Of
 * a plain number the value alone is taken (R4.17). */
static void copies_values_that_others_have(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    sheaf_variable *n = sheaf_variable_new("n", sheaf_float(1), NULL);
    float foreign[2] = {3, 4};
    SHEAF_FRAME
    {
        sheaf_tensor *more = F32(SHEAF_SHAPE(3), 5, 6, 7);
        sheaf_tensor *held = sheaf_tensor_keep(F32(SHEAF_SHAPE(2), 8, 9));
        sheaf_tensor *given[] = {
            sheaf_tensor_wrap(SHEAF_FLOAT32, SHEAF_SHAPE(2), foreign, NULL, NULL),
            sheaf_tensor_rows(more, 0, 2), held};
        for (int i = 0; i < 3; i++) {
            rig_ok(sheaf_assign(v, given[i], &err), &err);
            assert_ptr_not_equal(sheaf_tensor_data(sheaf_value(v)), sheaf_tensor_data(given[i]));
        }
        sheaf_tensor_free(held);
        foreign[0] = 0;
        EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(2), 8, 9);
        rig_ok(sheaf_assign(n, sheaf_float(2), &err), &err);
        assert_false(sheaf_value(n)->plain);
    }
    sheaf_variable_free(v);
    sheaf_variable_free(n);
}

/* A look-up leaves no reader behind: an update of a large table needs no second one. */
static void looks_up_without_holding_the_table(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(2, 1), 1, 2), NULL);
    sheaf_tensor *rows = sheaf_embedding_lookup(v, I32(SHEAF_SHAPE(1), 1));
    const void *from = NULL;
    float *to = sheaf__variable_update_begin(v, &from);
    assert_ptr_equal(to, from);
    to[1] = 9;
    sheaf__variable_update_commit(v);
    EXPECT(rows, SHEAF_FLOAT32, SHEAF_SHAPE(1, 1), 2);
    expect_failed(sheaf_embedding_lookup(v, I32(SHEAF_SHAPE(1), 2)), "gather: id 2");
    sheaf_variable_free(v);
}

/* An update that is given up leaves the value. */
static void gives_updates_up(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(1), 1), NULL);
    sheaf_tensor *reader = sheaf_value(v);
    const void *from = NULL;
    float *to = sheaf__variable_update_begin(v, &from);
    to[0] = 5;
    sheaf__variable_update_abort(v);
    EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(1), 1);
    EXPECT(reader, SHEAF_FLOAT32, SHEAF_SHAPE(1), 1);
    sheaf_variable_free(v);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("w", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    rig_fails(sheaf_assign(v, F32(SHEAF_SHAPE(3), 1, 2, 3), &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "variable 'w' is float32 of shape (2,), the value float32 of shape (3,)");
    rig_fails(sheaf_assign_add(v, I32(SHEAF_SHAPE(2), 1, 2), &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "int32");
    rig_fails(sheaf_assign(NULL, sheaf_int(1), &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the variable is NULL");
    rig_fails(sheaf_assign(v, sheaf_add(sheaf_int(1), sheaf_float(1)), &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "add: int32");
    EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(2), 1, 2);
    sheaf_variable_free(v);
}

/* Builders latch: the error comes out of every use. */
static void latches_bad_creation(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("v", sheaf_add(sheaf_int(1), sheaf_float(1)), NULL);
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "add: int32");
    expect_failed(sheaf_value(v), "add: int32");
    rig_fails(sheaf_assign(v, sheaf_int(1), &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "add: int32");
    sheaf_variable_free(v);
    v = sheaf_variable_new("v", sheaf_int(1),
                           &(sheaf_variable_options){.aggregation = (sheaf_aggregation)9});
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "aggregation 9, expected 0 to 3");
    sheaf_variable_free(v);
    v = sheaf_variable_new("v", sheaf_int(1), &(sheaf_variable_options){.reserved = {0, 1}});
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "reserved option 1");
    sheaf_variable_free(v);
    v = sheaf_variable_new("v", NULL, NULL);
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "initial value is NULL");
    sheaf_variable_free(v);
}

static void describes_itself(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_new(NULL, F32(SHEAF_SHAPE(2), 1, 2), NULL);
    assert_string_equal(sheaf_variable_name(v), "Variable");
    assert_int_equal(sheaf_variable_dtype(v), SHEAF_FLOAT32);
    assert_true(sheaf_shape_equal(sheaf_variable_shape(v), SHEAF_SHAPE(2)));
    assert_true(sheaf_variable_trainable(v));
    assert_string_equal(sheaf_variable_device(v), "/job:localhost/replica:0/task:0/device:CPU:0");
    assert_int_equal(sheaf_variable_copies(v), 1);
    assert_int_equal(sheaf_variable_parts(v), 1);
    assert_string_equal(sheaf_variable_part_device(v, 0), sheaf_variable_device(v));
    assert_ptr_equal(sheaf_variable_copy(v, 0), v);
    sheaf_variable_free(v);
    v = sheaf_variable_new(
        "m", sheaf_float(1),
        &(sheaf_variable_options){.synchronization = SHEAF_SYNCHRONIZATION_ON_READ});
    assert_false(sheaf_variable_trainable(v)); /* R5.2 */
    sheaf_variable_free(v);
}

static void prints_as_P5_3(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_new("w", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    assert_string_equal(
        sheaf_variable_str(v),
        "<tf.Variable 'w:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>");
    sheaf_variable_free(v);
}

static void holds_strings_and_nothing(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("s", sheaf_string("abc"), NULL);
    SHEAF_FRAME rig_ok(sheaf_assign(v, sheaf_string("defg"), &err), &err);
    sheaf_bytes bytes = sheaf_tensor_bytes(sheaf_value(v), 0);
    assert_int_equal(bytes.size, 4);
    assert_memory_equal(bytes.data, "defg", 4);
    rig_fails(sheaf_assign_add(v, sheaf_string("x"), &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "no sums of dtype string");
    sheaf_variable_free(v);
    v = sheaf_variable_init("e", SHEAF_FLOAT32, SHEAF_SHAPE(0, 3), sheaf_init_zeros(), NULL);
    rig_ok(sheaf_assign_add(v, sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 3)), &err), &err);
    assert_int_equal(sheaf_tensor_elements(sheaf_value(v)), 0);
    sheaf_variable_free(v);
    const sheaf_shape none =
        SHEAF_SHAPE(0, INT64_C(1) << 62, 4); /* the others' product is no number */
    v = sheaf_variable_init("n", SHEAF_FLOAT32, none, sheaf_init_zeros(), NULL);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(sheaf_value(v)), none));
    sheaf_variable_free(v);
}

/* S97: a plain variable works in a replica of a strategy, and is counted. */
static void counts_unscoped_reads_S97(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_new("v", sheaf_float(1), NULL);
    sheaf_value(v);
    assert_int_equal(sheaf_counter("variable.read.unscoped"), 0);
    struct sheaf__mode mode = {.kind = SHEAF__MODE_REPLICA,
                               .strategy = (struct sheaf_strategy *)(uintptr_t)8};
    sheaf__mode_push(&mode);
    EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SCALAR, 1);
    sheaf_embedding_lookup(v, sheaf_int(0));
    sheaf__mode_pop(&mode);
    assert_int_equal(sheaf_counter("variable.read.unscoped"), 2);
    assert_int_equal(sheaf__mode_current()->kind, SHEAF__MODE_DEFAULT);
    sheaf_variable_free(v);
}

/* ---- slots and checkpoints ---- */

static void keeps_slots_beside_it(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("v", F32(SHEAF_SHAPE(2), 1, 2), NULL);
    float *m = sheaf__variable_slot(v, "m", 0), *h = sheaf__variable_slot(v, "h", .5);
    assert_true(m[0] == 0 && m[1] == 0 && h[0] == .5f && h[1] == .5f);
    assert_ptr_equal(sheaf__variable_slot(v, "m", 0), m);
    assert_int_equal(sheaf__variable_slots(v), 2);
    assert_string_equal(sheaf__variable_slot_name(v, 1), "h");
    sheaf_trackable *t = sheaf__variable_slot_trackable(v, 0);
    assert_ptr_equal(sheaf__variable_slot_track(v, "m", 0), t);
    struct sheaf__saveable s;
    assert_true(t->cls->saveable(t, 0, &s));
    assert_string_equal(s.attribute, "VARIABLE_VALUE");
    assert_false(t->cls->saveable(t, 1, &s));
    /* What a checkpoint reads stays while the optimizer goes on. */
    sheaf_tensor *saved = t->cls->read(t, 0);
    m = sheaf__variable_slot(v, "m", 0);
    m[0] = 9;
    EXPECT(saved, SHEAF_FLOAT32, SHEAF_SHAPE(2), 0, 0);
    rig_ok(t->cls->write(t, 0, F32(SHEAF_SHAPE(2), 3, 4), &err), &err);
    m = sheaf__variable_slot(v, "m", 0);
    assert_true(m[0] == 3 && m[1] == 4);
    rig_fails(t->cls->write(t, 0, sheaf_float(1), &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "'m' is float32 of shape (2,)");
    sheaf_variable_free(v);
}

static void is_trackable(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = sheaf_variable_new("dense/kernel", I64(SHEAF_SHAPE(2), 1, 2), NULL);
    sheaf_trackable *t = sheaf_variable_trackable(v);
    struct sheaf__saveable s;
    assert_true(t->cls->saveable(t, 0, &s));
    assert_string_equal(s.attribute, "VARIABLE_VALUE");
    assert_string_equal(s.full_name, "dense/kernel");
    assert_true(s.dtype == SHEAF_INT64 && sheaf_shape_equal(s.full, SHEAF_SHAPE(2)) && !s.group);
    EXPECT(t->cls->read(t, 0), SHEAF_INT64, SHEAF_SHAPE(2), 1, 2);
    rig_ok(t->cls->write(t, 0, I64(SHEAF_SHAPE(2), 5, 6), &err), &err);
    EXPECT(sheaf_value(v), SHEAF_INT64, SHEAF_SHAPE(2), 5, 6);
    rig_fails(t->cls->write(t, 0, sheaf_float(1), &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "'dense/kernel' is int64");
    sheaf_variable_free(v);
}

/* ---- threads ---- */

enum { ROUNDS = 2000, WIDTH = 64 };

struct shared {
    sheaf_variable *v;
    _Atomic int torn;
};

static void add_often(void *user)
{
    struct shared *s = user;
    for (int i = 0; i < ROUNDS; i++)
        SHEAF_FRAME if (sheaf_assign_add(s->v, sheaf_ones(SHEAF_INT64, SHEAF_SHAPE(WIDTH)), NULL) <
                        0) s->torn++;
}

static void read_often(void *user)
{
    struct shared *s = user;
    for (int i = 0; i < ROUNDS; i++)
        SHEAF_FRAME
        {
            sheaf_tensor *t = sheaf_value(s->v);
            const int64_t *x = sheaf_tensor_data(t);
            for (int k = 1; x && k < WIDTH; k++)
                if (x[k] != x[0])
                    s->torn++;
        }
}

/* Updates of several threads all count, and no reader sees half of one. */
static void is_whole_for_every_thread(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct shared s = {
        sheaf_variable_init("v", SHEAF_INT64, SHEAF_SHAPE(WIDTH), sheaf_init_zeros(), NULL), 0};
    struct sheaf__thread *threads[4] = {0};
    for (int i = 0; i < 4; i++)
        rig_ok(sheaf__thread_start("test", i < 2 ? add_often : read_often, &s, NULL, &threads[i],
                                   &err),
               &err);
    for (int i = 0; i < 4; i++)
        rig_ok(sheaf__thread_join(threads[i], INT64_MAX, &err), &err);
    assert_int_equal(s.torn, 0);
    assert_int_equal(sheaf_tensor_integer(sheaf_value(s.v), WIDTH - 1), 2 * ROUNDS);
    sheaf_variable_free(s.v);
}

/* ---- creation ---- */

static sheaf_variable *rename_it(sheaf_variable_request *request, void *user)
{
    char name[64];
    (*(int *)user)++;
    snprintf(name, sizeof(name), "%s_%d", request->name, *(int *)user);
    request->name = name;
    return sheaf_variable_create_next(request);
}

static sheaf_variable *freeze(sheaf_variable_request *request, void *user)
{
    (void)user;
    assert_string_equal(request->name, "w_1"); /* the inner hook came first */
    request->options.not_trainable = true;
    request->initializer = sheaf_init_constant(3);
    return sheaf_variable_create_next(request);
}

static void runs_creators_innermost_first_S91(void **state)
{
    (void)state;
    int calls = 0;
    sheaf_variable *v = NULL, *after = NULL;
    SHEAF_CREATOR(freeze, NULL)
    {
        SHEAF_CREATOR(rename_it, &calls)
        v = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(2), sheaf_init_zeros(), NULL);
    }
    after = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(2), sheaf_init_zeros(), NULL);
    assert_int_equal(calls, 1);
    assert_string_equal(sheaf_variable_name(v), "w_1");
    assert_false(sheaf_variable_trainable(v));
    EXPECT(sheaf_value(v), SHEAF_FLOAT32, SHEAF_SHAPE(2), 3, 3);
    assert_string_equal(sheaf_variable_name(after), "w");
    sheaf_variable_free(v);
    sheaf_variable_free(after);
}

static void takes_null_for_an_answer(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *v = NULL;
    assert_null(sheaf_variable_create_next(NULL));
    rig_fails(sheaf_variable_status(NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the variable is NULL");
    assert_false(sheaf_creator_scope_enter(NULL, rename_it, NULL));
    sheaf_creator_scope_leave(NULL);
    SHEAF_FRAME
    {
        SHEAF_CREATOR(NULL, NULL)
        v = sheaf_variable_new("v", sheaf_float(1), NULL);
        assert_null(v); /* the block did not run */
        rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_INVALID_ARGUMENT, "without a function");
    }
    expect_failed(sheaf_value(NULL), "the variable is NULL");
    expect_failed(sheaf_embedding_lookup(NULL, sheaf_int(1)), "the variable is NULL");
    expect_failed(sheaf_tape_gradient(NULL, NULL, NULL), "");
    assert_string_equal(sheaf_variable_name(NULL), "");
    assert_non_null(sheaf_variable_str(NULL));
    sheaf_variable_free(NULL);
}

/* ---- initializers ---- */

/* Any part made alone equals the same part of the whole. */
static void makes_any_part_alone(void **state)
{
    (void)state;
    enum { ROWS = 97, COLUMNS = 7, N = ROWS * COLUMNS };
    const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16};
    for (int d = 0; d < 3; d++) {
        const sheaf_initializer all[] = {sheaf_init_uniform(-1, 1, 5), sheaf_init_normal(0, 1, 5),
                                         sheaf_init_glorot_uniform(5), sheaf_init_constant(2)};
        for (int k = 0; k < 4; k++) {
            sheaf_shape shape = SHEAF_SHAPE(ROWS, COLUMNS);
            static _Alignas(8) uint8_t whole[8 * N], part[8 * N];
            size_t size = sheaf_dtype_size(dtypes[d]);
            const sheaf_initial_part all_of_it = {dtypes[d], shape, 0, N};
            all[k].fill(whole, &all_of_it, all[k].seed, all[k].args);
            for (uint64_t first = 0; first < N; first += 13) {
                uint64_t count = N - first < 301 ? N - first : 301;
                const sheaf_initial_part some = {dtypes[d], shape, first, count};
                all[k].fill(part, &some, all[k].seed, all[k].args);
                assert_memory_equal(part, whole + first * size, count * size);
            }
        }
    }
}

static void makes_rows_of_a_request(void **state)
{
    (void)state;
    sheaf_variable_request r = {.name = "t",
                                .dtype = SHEAF_FLOAT32,
                                .shape = SHEAF_SHAPE(5, 3),
                                .initializer = sheaf_init_normal(0, 1, 4)};
    const float *all = sheaf_tensor_data(sheaf__variable_initial(&r, 0, -1));
    sheaf_tensor *rows = sheaf__variable_initial(&r, 2, 2);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(rows), SHEAF_SHAPE(2, 3)));
    assert_memory_equal(sheaf_tensor_data(rows), all + 6, 6 * sizeof(float));
    r.initial = F32(SHEAF_SHAPE(3), 1, 2, 3);
    EXPECT(sheaf__variable_initial(&r, 1, 2), SHEAF_FLOAT32, SHEAF_SHAPE(2), 2, 3);
}

static void draws_within_glorots_limit(void **state)
{
    (void)state;
    sheaf_variable *v = sheaf_variable_init("k", SHEAF_FLOAT32, SHEAF_SHAPE(30, 20),
                                            sheaf_init_glorot_uniform(3), NULL);
    double limit = sqrt(6. / 50), most = 0, sum = 0;
    sheaf_tensor *t = sheaf_value(v);
    for (int64_t i = 0; i < 600; i++) {
        double x = sheaf_tensor_number(t, i);
        most = fabs(x) > most ? fabs(x) : most;
        sum += x;
    }
    assert_true(most <= limit && most > .95 * limit && fabs(sum / 600) < .03);
    sheaf_variable_free(v);
}

/* Seed 0 takes the next of the context: the same after the same global seed, others in between. */
static void refuses_what_makes_no_numbers(void **state)
{
    (void)state;
    const struct {
        sheaf_initializer initializer;
        sheaf_dtype dtype;
        const char *message;
    } bad[] = {
        {sheaf_init_uniform(2, 1, 5), SHEAF_FLOAT32, "variable 'v': uniform in [2, 1)"},
        {sheaf_init_uniform(0, 1, 5), SHEAF_INT64, "variable 'v': dtype int64, wanted a float"},
        {sheaf_init_normal(0, 1, 5), SHEAF_BOOL, "dtype bool, wanted a float"},
        {sheaf_init_glorot_uniform(5), SHEAF_INT32, "dtype int32, wanted a float"},
        {sheaf_init_glorot_uniform(5), SHEAF_STRING, "dtype string, wanted a float"},
        {sheaf_init_constant(3), SHEAF_STRING, "strings, wanted a tensor"},
        {sheaf_init_constant(3), SHEAF_QINT8, "constant 3: no numbers of dtype qint8"},
        {sheaf_init_normal(0, -0.1, 0), SHEAF_FLOAT32, "variable 'v': normal with mean 0"},
        {sheaf_init_normal(0, INFINITY, 0), SHEAF_FLOAT64, "deviation inf"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        sheaf_error err = {0};
        sheaf_variable *v =
            sheaf_variable_init("v", bad[i].dtype, SHEAF_SHAPE(2), bad[i].initializer, NULL);
        rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, bad[i].message);
        sheaf_variable_free(v);
    }
}

/* Zeros are zeros of every dtype: no memory of another tensor shows. */
static void makes_zeros_of_every_dtype(void **state)
{
    (void)state;
    enum { BYTES = 64 };
    static const uint8_t zeros[BYTES * 16];
    for (int d = 1; d <= SHEAF_FLOAT4_E2M1FN; d++) {
        const sheaf_dtype dtype = (sheaf_dtype)d;
        if (sheaf_dtype_size(dtype) == 0)
            continue;
        SHEAF_FRAME
        {
            uint8_t used[BYTES * 16];
            memset(used, 0xa5, sizeof(used));
            if (dtype != SHEAF_STRING)
                sheaf_tensor_new(dtype, SHEAF_SHAPE(BYTES), used); /* freed at once */
            sheaf_frame_clear();
            sheaf_variable *v =
                sheaf_variable_init("v", dtype, SHEAF_SHAPE(BYTES), sheaf_init_zeros(), NULL);
            sheaf_tensor *t = sheaf_value(v);
            sheaf_error err = {0};
            rig_ok(sheaf_tensor_status(t, &err), &err);
            if (dtype == SHEAF_STRING)
                assert_int_equal((int)sheaf_tensor_bytes(t, 7).size, 0);
            else
                assert_memory_equal(sheaf_tensor_data(t), zeros, BYTES * sheaf_dtype_size(dtype));
            sheaf_variable_free(v);
        }
    }
}

static void takes_the_next_seed(void **state)
{
    (void)state;
    double got[2][2];
    for (int round = 0; round < 2; round++) {
        sheaf_set_seed(42);
        for (int i = 0; i < 2; i++) {
            sheaf_variable *zeros = sheaf_variable_init("z", SHEAF_FLOAT32, SHEAF_SHAPE(round),
                                                        sheaf_init_zeros(), NULL);
            sheaf_variable *v = sheaf_variable_init("v", SHEAF_FLOAT64, SHEAF_SCALAR,
                                                    sheaf_init_uniform(0, 1, 0), NULL);
            got[round][i] = sheaf_tensor_number(sheaf_value(v), 0);
            sheaf_variable_free(v);
            sheaf_variable_free(zeros);
        }
    }
    assert_true(got[0][0] == got[1][0] && got[0][1] == got[1][1] && got[0][0] != got[0][1]);
}

static sheaf_status use(sheaf_error *err)
{
    sheaf_status status = SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_variable *v =
        sheaf_variable_init("v", SHEAF_FLOAT32, SHEAF_SHAPE(3), sheaf_init_zeros(), NULL);
    if (v)
        status = sheaf_variable_status(v, err);
    else
        sheaf_error_set(err, status, "not enough memory");
    if (status >= 0)
        SHEAF_FRAME
        {
            sheaf_value(v);
            status = sheaf_assign_add(v, sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(3)), err);
            if (status >= 0 && !sheaf__variable_slot(v, "m", 0))
                status = sheaf_error_set(err, SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory");
        }
    sheaf_variable_free(v);
    return status;
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    (void)user;
    return in_own_context(use, err);
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(attempt, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(reads_snapshots),
        rig_test(writes_in_place_without_readers),
        rig_test(takes_values_that_nobody_else_has),
        rig_test(copies_values_that_others_have),
        rig_test(looks_up_without_holding_the_table),
        rig_test(gives_updates_up),
        rig_test(refuses_what_does_not_fit),
        rig_test(latches_bad_creation),
        rig_test(describes_itself),
        rig_test(prints_as_P5_3),
        rig_test(holds_strings_and_nothing),
        rig_test(counts_unscoped_reads_S97),
        rig_test(keeps_slots_beside_it),
        rig_test(is_trackable),
        rig_test(is_whole_for_every_thread),
        rig_test(runs_creators_innermost_first_S91),
        rig_test(takes_null_for_an_answer),
        rig_test(makes_any_part_alone),
        rig_test(makes_rows_of_a_request),
        rig_test(draws_within_glorots_limit),
        rig_test(refuses_what_makes_no_numbers),
        rig_test(makes_zeros_of_every_dtype),
        rig_test(takes_the_next_seed),
        rig_test(survives_every_failed_allocation),
    };
    return rig_run(tests);
}
