/* SPDX-License-Identifier: Apache-2.0 */

/* The table of a parameter server: definitions, updates, snapshots, restores. */

#include "rig.h"

#include "ps/table.h"

#include <string.h>

static struct sheaf__ps_definition define(uint32_t number, const char *name, int64_t rows)
{
    return (struct sheaf__ps_definition){.variable = number,
                                         .dtype = SHEAF_FLOAT32,
                                         .full = SHEAF_SHAPE(rows, 2),
                                         .shape = SHEAF_SHAPE(rows, 2),
                                         .name = name,
                                         .name_size = strlen(name)};
}

static struct sheaf__ps_variable *make(struct sheaf__ps_table *t, const float *values)
{
    sheaf_error err = {0};
    struct sheaf__ps_variable *v = NULL;
    const struct sheaf__ps_definition d = define(0, "w", 2);
    rig_ok(sheaf__ps_define(t, &d, &v, &err), &err);
    struct sheaf__buffer *b = sheaf__buffer_new(NULL, v->bytes, &err);
    assert_non_null(b);
    memcpy(b->data, values, v->bytes);
    assert_true(sheaf__ps_initialise(v, b));
    assert_false(sheaf__ps_initialise(v, b)); /* has a value already */
    sheaf__unref(b);
    return v;
}

static void expect(struct sheaf__ps_variable *v, float a, float b, float c, float d)
{
    struct sheaf__buffer *now = sheaf__ps_snapshot(v, 0, NULL);
    const float expected[] = {a, b, c, d};
    assert_memory_equal(now->data, expected, sizeof(expected));
    sheaf__unref(now);
}

static void test_S5_differences(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__ps_table t = {0};
    struct sheaf__ps_variable *v;
    struct sheaf__ps_definition d = define(3, "w", 2);
    rig_ok(sheaf__ps_define(&t, &d, &v, &err), &err);
    rig_ok(sheaf__ps_define(&t, &d, &v, &err), &err);
    d = define(3, "v", 2);
    rig_fails(sheaf__ps_define(&t, &d, &v, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "variable 3 is 'w' float32 (2, 2) here, 'v' float32 (2, 2) in");
    d = define(3, "w", 5);
    rig_fails(sheaf__ps_define(&t, &d, &v, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "is 'w' float32 (2, 2) here, 'w' float32 (5, 2) in");
    d = define(3, "w", 2);
    d.dtype = SHEAF_INT32;
    rig_fails(sheaf__ps_define(&t, &d, &v, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "is 'w' float32 (2, 2) here, 'w' int32 (2, 2) in");
    d = define(3, "w", 2);
    d.first_row = 1;
    rig_fails(sheaf__ps_define(&t, &d, &v, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "is another part of 'w' float32 (2, 2) here");
    rig_fails(sheaf__ps_find(&t, 1, &v, &err), &err, SHEAF_ERR_NOT_FOUND, "variable 1");
    rig_fails(sheaf__ps_find(&t, 3, &v, &err), &err, SHEAF_ERR_FAILED_PRECONDITION, "no value");
    sheaf__ps_table_free(&t);
}

static void test_updates(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__ps_table t = {0};
    static const float start[] = {1, 2, 3, 4}, ones[] = {1, 1, 1, 1};
    struct sheaf__ps_variable *v = make(&t, start);
    const struct sheaf__hyper sgd = {.rule = SHEAF__RULE_SGD, .step = 1, .lr = 0.5};
    struct sheaf__ps_update u = {.kind = SHEAF__PS_GRADIENT, .bytes = sizeof(ones)};
    rig_ok(sheaf__ps_apply(v, &u, &sgd, ones, &err), &err);
    expect(v, 0.5f, 1.5f, 2.5f, 3.5f);
    u.kind = SHEAF__PS_ADD;
    rig_ok(sheaf__ps_apply(v, &u, NULL, ones, &err), &err);
    u.kind = SHEAF__PS_SUB;
    rig_ok(sheaf__ps_apply(v, &u, NULL, start, &err), &err);
    expect(v, 0.5f, 0.5f, 0.5f, 0.5f);
    u.kind = SHEAF__PS_ASSIGN;
    rig_ok(sheaf__ps_apply(v, &u, NULL, start, &err), &err);
    expect(v, 1, 2, 3, 4);
    assert_int_equal(v->version, 4);
    u.bytes = 4;
    rig_fails(sheaf__ps_apply(v, &u, NULL, start, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "4 bytes");
    sheaf__ps_table_free(&t);
}

static void test_rows(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__ps_table t = {0};
    static const float start[] = {1, 2, 3, 4};
    struct sheaf__ps_variable *v = make(&t, start);
    const struct sheaf__hyper sgd = {.rule = SHEAF__RULE_SGD, .step = 1, .lr = 1};
    struct {
        int64_t ids[2];
        float values[4];
    } rows = {{1, 1}, {1, 1, 1, 2}};
    struct sheaf__ps_update u = {.kind = SHEAF__PS_ROWS, .count = 2, .bytes = sizeof(rows)};
    rig_ok(sheaf__ps_apply(v, &u, &sgd, &rows, &err), &err);
    expect(v, 1, 2, 1, 1); /* the repeated row is summed */
    static const int64_t ids[] = {1, 0, 1}, bad[] = {0, 2};
    float out[6];
    rig_ok(sheaf__ps_rows(v, ids, 3, out, &err), &err);
    static const float expected[] = {1, 1, 1, 2, 1, 1};
    assert_memory_equal(out, expected, sizeof(expected));
    rig_fails(sheaf__ps_rows(v, bad, 2, out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "id 2");
    rows.ids[0] = 7;
    assert_int_equal(sheaf__ps_apply(v, &u, &sgd, &rows, &err), SHEAF_ERR_INVALID_ARGUMENT);
    u.count = UINT64_MAX / 4;
    assert_int_equal(sheaf__ps_apply(v, &u, &sgd, &rows, &err), SHEAF_ERR_DATA_LOSS);
    expect(v, 1, 2, 1, 1);
    sheaf__ps_table_free(&t);
}

/* What was read stays as it was: values by another buffer, slots by a copy */
static void test_snapshots(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__ps_table t = {0};
    static const float start[] = {1, 2, 3, 4}, ones[] = {1, 1, 1, 1};
    struct sheaf__ps_variable *v = make(&t, start);
    const struct sheaf__hyper momentum = {
        .rule = SHEAF__RULE_SGD, .step = 1, .lr = 1, .momentum = 0.5};
    const struct sheaf__ps_update u = {.kind = SHEAF__PS_GRADIENT, .bytes = sizeof(ones)};
    rig_ok(sheaf__ps_apply(v, &u, &momentum, ones, &err), &err);
    uint64_t version;
    struct sheaf__buffer *value = sheaf__ps_snapshot(v, 0, &version),
                         *slot = sheaf__ps_snapshot(v, 1, NULL);
    assert_int_equal(version, 1);
    float before[8];
    memcpy(before, value->data, 16);
    memcpy(before + 4, slot->data, 16);
    rig_ok(sheaf__ps_apply(v, &u, &momentum, ones, &err), &err);
    assert_memory_equal(value->data, before, 16);
    assert_memory_equal(slot->data, before + 4, 16);
    expect(v, -1.5f, -0.5f, 0.5f, 1.5f);
    sheaf__unref(value);
    sheaf__unref(slot);
    rig_fails(sheaf__ps_make_slot(v, 1, "other", 0, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "same optimizer");
    sheaf__ps_table_free(&t);
}

static void test_restore(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__ps_table t = {0};
    static const float start[] = {1, 2, 3, 4}, other[] = {5, 6, 7, 8};
    struct sheaf__ps_variable *v = make(&t, start);
    struct sheaf__buffer *b = sheaf__buffer_new(NULL, sizeof(other), &err);
    memcpy(b->data, other, sizeof(other));
    sheaf__ps_hold(v, 0, b);
    expect(v, 1, 2, 3, 4);
    sheaf__ps_settle(&t, false);
    expect(v, 1, 2, 3, 4);
    sheaf__ps_hold(v, 0, b);
    sheaf__ps_settle(&t, true);
    expect(v, 5, 6, 7, 8);
    sheaf__unref(b);
    sheaf__ps_table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S5_differences), rig_test(test_updates), rig_test(test_rows),
        rig_test(test_snapshots),      rig_test(test_restore),
    };
    return rig_run(tests);
}
