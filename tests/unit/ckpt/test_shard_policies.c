/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "ckpt/plan.h"
#include "format/object_graph.h"

#include <jansson.h>

/* The policies that are ready to use (S215): TensorFlow's own cuts, and what it gets wrong. */

#define DEVICE FAKE_DEVICE("worker", "0")

/* Tensors of one task to make a plan of, in the order in which they are added. */
struct list {
    struct sheaf__ckpt_objects objects;
    struct sheaf__ckpt_tensor tensors[8];
    struct fake *owners[8];
};

/* Adds a tensor; `spec` "": whole. */
static void add(struct list *l, const char *key, sheaf_tensor *value, const char *spec)
{
    const size_t i = l->objects.tensor_count++;
    struct fake *f = fake_new();
    struct sheaf__saveable *s = fake_add(f, value);
    s->device = DEVICE;
    if (*spec) {
        struct sheaf__slice slice;
        sheaf_error err;
        sheaf_shape full = {.rank = s->shape.rank};
        const char *at = spec;
        for (int k = 0; k < full.rank; k++)
            full.dims[k] = strtoll(at, (char **)(uintptr_t)&at, 10);
        rig_ok(sheaf__slice_parse(spec, full, &slice, &err), &err);
        s->full = full;
        memcpy(s->offset, slice.offset, sizeof(s->offset));
    }
    l->owners[i] = f;
    l->tensors[i] = (struct sheaf__ckpt_tensor){
        .item = {.key = (char *)(uintptr_t)key, .saveable = *s}, .owner = &f->trackable};
    l->objects.tensors = l->tensors;
}

static sheaf_tensor *zeros(sheaf_dtype dtype, sheaf_shape shape)
{
    return sheaf_tensor_new(dtype, shape, NULL);
}

static void free_list(struct list *l)
{
    for (size_t i = 0; i < l->objects.tensor_count; i++)
        fake_free(l->owners[i]);
}

/* The plan as text, "key[spec] key[spec] | key[spec]": "|" stands between shards. Empty tensors are left out
 * unless `all`. */
static const char *plan_text(const struct list *l, const sheaf_sharding_callback *policy, bool all)
{
    static char text[8192];
    struct sheaf__ckpt_plan plan;
    sheaf_error err;
    size_t at = 0;
    rig_ok(sheaf__ckpt_plan_make(&plan, &l->objects, policy, DEVICE, &err), &err);
    text[0] = 0;
    for (size_t i = 0; i < plan.count; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", i ? " |" : "");
        for (size_t k = 0; k < plan.shards[i].count; k++) {
            const struct sheaf__saveable *s = &plan.shards[i].items[k].saveable;
            struct sheaf__slice slice = {.full = s->full, .shape = s->shape};
            struct sheaf__str spec = {0};
            memcpy(slice.offset, s->offset, sizeof(s->offset));
            sheaf__slice_text(&spec, &slice);
            if (all || sheaf_shape_elements(s->shape))
                at += (size_t)snprintf(text + at, sizeof(text) - at, " %s[%s]",
                                       plan.shards[i].items[k].key, sheaf__str_text(&spec));
            sheaf__str_free(&spec);
            assert_true(at < sizeof(text) - 1);
        }
    }
    sheaf__ckpt_plan_free(&plan);
    return text;
}

static sheaf_tensor *case_tensor(const json_t *t)
{
    const char *dtype = json_string_value(json_object_get(t, "dtype"));
    const json_t *dims = json_object_get(t, "shape"), *value = json_object_get(t, "value");
    sheaf_shape shape = {.rank = (int32_t)json_array_size(dims)};
    sheaf_bytes strings[4];
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = json_integer_value(json_array_get(dims, (size_t)i));
    if (!value)
        return zeros(sheaf_dtype_named(dtype), shape);
    for (size_t i = 0; i < (shape.rank ? json_array_size(value) : 1); i++) {
        const json_t *one = shape.rank ? json_array_get(value, i) : value;
        strings[i] = (sheaf_bytes){json_string_value(one), json_string_length(one)};
    }
    return sheaf_tensor_new(SHEAF_STRING, shape, strings);
}

/* What TensorFlow answered, in the form of plan_text(). It spells slices that are all of a tensor. */
static void expected_text(const struct list *l, const json_t *shards, char *text, size_t size)
{
    size_t i, k, at = 0;
    const json_t *shard, *item;
    text[0] = 0;
    json_array_foreach(shards, i, shard)
    {
        at += (size_t)snprintf(text + at, size - at, "%s", i ? " |" : "");
        json_array_foreach(shard, k, item)
        {
            const char *key = json_string_value(json_object_get(item, "key"));
            const char *spec = json_string_value(json_object_get(item, "slice_spec"));
            const json_t *dims = json_object_get(item, "shape");
            for (size_t n = 0; n < l->objects.tensor_count; n++) {
                const struct sheaf__saveable *s = &l->tensors[n].item.saveable;
                bool whole = !strcmp(l->tensors[n].item.key, key);
                for (int32_t d = 0; d < s->full.rank; d++)
                    whole &= (size_t)d < json_array_size(dims) &&
                             json_integer_value(json_array_get(dims, (size_t)d)) == s->full.dims[d];
                spec = whole ? "" : spec;
            }
            at += (size_t)snprintf(text + at, size - at, " %s[%s]", key, spec);
        }
    }
}

/* Strings that TensorFlow cuts, and cannot read then: we do not. */
static bool has_strings(const json_t *one)
{
    const json_t *t;
    size_t k;
    bool found = false;
    json_array_foreach(json_object_get(one, "tensors"), k, t) found |=
        !strcmp(json_string_value(json_object_get(t, "dtype")), "string") &&
        json_array_size(json_object_get(t, "shape"));
    return found;
}

/* S215, R8.9, R8.10, T8.2-T8.16, T8.18: the plans of TensorFlow's own MaxShardSizePolicy for 150 lists of
 * tensors. What it loses, tensors without elements, is looked at below. */
static void s215_max_size_cuts_as_tensorflow(void **state)
{
    (void)state;
    json_error_t fault;
    json_t *root = json_load_file(rig_golden("input/shard_plan.json"), 0, &fault);
    assert_non_null(root);
    size_t i, k;
    const json_t *one, *t, *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 150);
    json_array_foreach(cases, i, one)
    {
        if (has_strings(one))
            continue;
        SHEAF_FRAME
        {
            struct list l = {0};
            char expected[8192];
            json_array_foreach(json_object_get(one, "tensors"), k, t)
            {
                const char *spec = json_string_value(json_object_get(t, "slice_spec"));
                add(&l, json_string_value(json_object_get(t, "key")), case_tensor(t),
                    spec ? spec : "");
            }
            const sheaf_sharding_callback policy =
                sheaf_shard_max_size(json_integer_value(json_object_get(one, "max_shard_size")));
            expected_text(&l, json_object_get(one, "shards"), expected, sizeof(expected));
            assert_string_equal(plan_text(&l, &policy, false), expected);
            free_list(&l);
        }
    }
    json_decref(root);
    assert_non_null(strstr(rig_log_take(),
                           "tensor 'x': an element of 10 bytes cannot be partitioned "
                           "into a shard of max shard size 8 bytes"));
}

/* S215, T8.17, T8.18: no endless loop where nothing fits, and no tensor is lost. */
static void s215_max_size_keeps_everything(void **state)
{
    (void)state;
    struct list l = {0};
    const sheaf_bytes words[] = {{"ab", 2}, {"a long word", 11}, {"c", 1}};
    add(&l, "e", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 3)), "");
    add(&l, "i", zeros(SHEAF_INT32, SHEAF_SHAPE(2, 2)), "");
    add(&l, "one", zeros(SHEAF_INT32, SHEAF_SHAPE(1)), "");
    add(&l, "none", zeros(SHEAF_INT64, SHEAF_SHAPE(3, 0)), "");
    add(&l, "w", sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), words), "");
    sheaf_sharding_callback policy = sheaf_shard_max_size(4);
    assert_string_equal(plan_text(&l, &policy, true),
                        " e[] i[2 2 0,1:0,1] | i[2 2 0,1:1,1] | i[2 2 1,1:0,1] | i[2 2 1,1:1,1] | "
                        "one[] none[] | w[]");
    const char *log = rig_log_take();
    assert_null(strstr(log, "'i'"));
    assert_non_null(strstr(log, "tensor 'w': strings of 14 bytes cannot be partitioned into a "
                                "shard of max shard size 4 bytes"));
    assert_null(strstr(strstr(log, "'w'") + 1, "'w'")); /* once a tensor */
    policy = sheaf_shard_max_size(3);
    assert_string_equal(
        plan_text(&l, &policy, true),
        " e[] | i[2 2 0,1:0,1] | i[2 2 0,1:1,1] | i[2 2 1,1:0,1] | i[2 2 1,1:1,1] | "
        "one[] | none[] | w[]");
    rig_log_take();
    policy = sheaf_shard_max_size(14);
    assert_string_equal(plan_text(&l, &policy, true),
                        " e[] i[2 2 0,1:0,2] i[2 2 1,1:0,1] | i[2 2 1,1:1,1] one[] none[] | w[]");
    policy = sheaf_shard_max_size(INT64_MAX);
    assert_string_equal(plan_text(&l, &policy, true), " e[] i[] one[] none[] w[]");
    free_list(&l);
}

/* S215: where TensorFlow goes round for ever, 10 x 10 floats in 16 bytes, no shard is larger and no element is missing. */
static void s215_max_size_ends(void **state)
{
    (void)state;
    const sheaf_shape shapes[] = {SHEAF_SHAPE(10, 10), SHEAF_SHAPE(2, 4, 3), SHEAF_SHAPE(5, 1, 7),
                                  SHEAF_SHAPE(9)};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int64_t most = 4; most < 60; most += 3) {
            struct list l = {0};
            struct sheaf__ckpt_plan plan;
            sheaf_error err;
            add(&l, "v", zeros(SHEAF_FLOAT32, shapes[i]), "");
            const sheaf_sharding_callback policy = sheaf_shard_max_size(most);
            rig_ok(sheaf__ckpt_plan_make(&plan, &l.objects, &policy, DEVICE, &err), &err);
            int64_t all = 0; /* that they do not overlap is checked by the plan */
            for (size_t k = 0; k < plan.count; k++) {
                int64_t bytes = 0;
                for (size_t n = 0; n < plan.shards[k].count; n++)
                    bytes += 4 * sheaf_shape_elements(plan.shards[k].items[n].saveable.shape);
                assert_true(bytes <= most);
                all += bytes;
            }
            assert_int_equal(all, 4 * sheaf_shape_elements(shapes[i]));
            sheaf__ckpt_plan_free(&plan);
            free_list(&l);
        }
    }
}

/* S215: where the fewest bytes are; of equal ones the next in turn. No more shards than tensors. */
static void s215_round_robin_by_bytes(void **state)
{
    (void)state;
    struct list l = {0};
    add(&l, "a", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(4)), "");
    add(&l, "b", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(4)), "");
    add(&l, "c", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(20)), "");
    add(&l, "d", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(5)), "");
    add(&l, "e", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(1)), "");
    add(&l, "f", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(6, 2)), "7 2 0,6:0,2");
    sheaf_sharding_callback policy = sheaf_shard_round_robin(3);
    assert_string_equal(plan_text(&l, &policy, true), " a[] d[] | b[] e[] f[7 2 0,6:0,2] | c[]");
    policy = sheaf_shard_round_robin(INT32_MAX);
    assert_string_equal(plan_text(&l, &policy, true),
                        " a[] | b[] | c[] | d[] | e[] | f[7 2 0,6:0,2]");
    assert_string_equal(plan_text(&l, sheaf_shard_all_in_one(), true),
                        " a[] b[] c[] d[] e[] f[7 2 0,6:0,2]");
    free_list(&l);
}

/* S212: parameters that make no sense are refused by the save, with the description. */
static void s212_parameters_are_checked(void **state)
{
    (void)state;
    struct list l = {0};
    struct sheaf__ckpt_plan plan;
    sheaf_error err;
    add(&l, "a", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(4)), "");
    sheaf_sharding_callback policy = sheaf_shard_max_size(0);
    rig_fails(
        sheaf__ckpt_plan_make(&plan, &l.objects, &policy, DEVICE, &err), &err,
        SHEAF_ERR_INVALID_ARGUMENT,
        "sharding callback 'Split tensors into shards with a max shard size.' failed: the max "
        "shard size is 0 bytes, expected 1 or more");
    policy = sheaf_shard_round_robin(-2);
    rig_fails(sheaf__ckpt_plan_make(&plan, &l.objects, &policy, DEVICE, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "the number of shards is -2, expected 1 or more");
    free_list(&l);
}

static sheaf_status plan_some(void *user, sheaf_error *err)
{
    const struct list *l = user;
    struct sheaf__ckpt_plan plan;
    const sheaf_sharding_callback policies[] = {sheaf_shard_max_size(8),
                                                sheaf_shard_round_robin(2)};
    for (int i = 0; i < 2; i++) {
        sheaf_status status = sheaf__ckpt_plan_make(&plan, &l->objects, &policies[i], DEVICE, err);
        if (status < 0)
            return status;
        sheaf__ckpt_plan_free(&plan);
    }
    return SHEAF_OK;
}

static void without_memory(void **state)
{
    (void)state;
    struct list l = {0};
    add(&l, "a", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(3, 2)), "");
    add(&l, "b", zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2)), "");
    assert_true(rig_fail_allocations(plan_some, &l) >= 20);
    free_list(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(s215_max_size_cuts_as_tensorflow),
        rig_test(s215_max_size_keeps_everything),
        rig_test(s215_max_size_ends),
        rig_test(s215_round_robin_by_bytes),
        rig_test(s212_parameters_are_checked),
        rig_test(without_memory),
    };
    return rig_run(tests);
}
