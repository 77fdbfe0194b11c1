/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "data/split_batch.h"

/* Random pipelines, iterated twice, against TensorFlow: all stages together. */

/* ---- functions of the goldens' README ---- */

/* A function with its argument, and the type of its result. */
struct function {
    char name[16];
    int64_t k, r;
};

/* The first component with each element changed by `change`. */
static sheaf_tensor *changed(const sheaf_element *in, int64_t k,
                             int64_t (*change)(int64_t x, int64_t k))
{
    const sheaf_tensor *t = sheaf_element_at(in, 0);
    int64_t values[256], n = sheaf_tensor_elements(t);
    assert_true(n <= 256);
    for (int64_t i = 0; i < n; i++)
        values[i] = change(sheaf_tensor_integer(t, i), k);
    return sheaf_tensor_new(SHEAF_INT64, sheaf_tensor_shape(t), values);
}
static int64_t add(int64_t x, int64_t k)
{
    return x + k;
}
static int64_t mul(int64_t x, int64_t k)
{
    return x * k;
}
static int64_t square(int64_t x, int64_t k)
{
    (void)k;
    return x * x;
}

static sheaf_status put_pair(sheaf_element *out, sheaf_tensor *a, sheaf_tensor *b)
{
    sheaf_status status = sheaf_element_put(out, "0", a);
    return status < 0 ? status : sheaf_element_put(out, "1", b);
}

static sheaf_tensor *counting(int64_t from, int64_t n)
{
    int64_t values[256];
    for (int64_t i = 0; i < n; i++)
        values[i] = from + i;
    return sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(n), values);
}

static sheaf_tensor *sum_of(const sheaf_tensor *t)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++)
        sum += sheaf_tensor_integer(t, i);
    return sheaf_long(sum);
}

static sheaf_status apply_lone(const struct function *f, const sheaf_element *in,
                               sheaf_element *out)
{
    int64_t x = sheaf_tensor_integer(sheaf_element_at(in, 0), 0);
    sheaf_tensor *t;
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)x);
    if (strcmp(f->name, "add") == 0)
        t = changed(in, f->k, add);
    else if (strcmp(f->name, "mul") == 0)
        t = changed(in, f->k, mul);
    else if (strcmp(f->name, "square") == 0)
        t = changed(in, 0, square);
    else if (strcmp(f->name, "vector") == 0)
        t = counting(x, f->k);
    else if (strcmp(f->name, "count_up") == 0)
        t = counting(0, x % f->k);
    else if (strcmp(f->name, "sum_all") == 0)
        t = sum_of(sheaf_element_at(in, 0));
    else if (strcmp(f->name, "half") == 0)
        t = sheaf_float((float)x * 0.5f);
    else
        t = sheaf_string(text);
    return sheaf_element_put(out, "", t);
}

static sheaf_status apply_map(const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct function *f = user;
    sheaf_tensor *a = sheaf_element_at(in, 0), *b = sheaf_element_at(in, 1);
    if (strcmp(f->name, "pair") == 0)
        return put_pair(out, a, changed(in, f->k, mul));
    if (strcmp(f->name, "first") == 0)
        return sheaf_element_put(out, "", a);
    if (strcmp(f->name, "second") == 0)
        return sheaf_element_put(out, "", b);
    if (strcmp(f->name, "swap") == 0)
        return put_pair(out, b, a);
    if (strcmp(f->name, "add_both") == 0)
        return sheaf_element_put(
            out, "", sheaf_long(sheaf_tensor_integer(a, 0) + sheaf_tensor_integer(b, 0)));
    return apply_lone(f, in, out);
}

static sheaf_status apply_filter(const sheaf_element *in, void *user)
{
    const struct function *f = user;
    int64_t x = sheaf_tensor_integer(sheaf_element_at(in, 0), 0);
    bool keep = strcmp(f->name, "mod") == 0 ? x % f->k == f->r : x < f->k;
    return keep ? SHEAF_OK : SHEAF_END;
}

static sheaf_dataset *apply_spread(const sheaf_element *in, void *user)
{
    const struct function *f = user;
    sheaf_tensor *t = sheaf_element_at(in, 0);
    int64_t x = sheaf_tensor_integer(t, 0);
    if (strcmp(f->name, "repeat") == 0)
        return sheaf_dataset_repeat(sheaf_dataset_from_tensors(sheaf_element_of(t)), f->k);
    if (strcmp(f->name, "span") == 0)
        return sheaf_dataset_range(x * 10, x * 10 + f->k, 1);
    if (strcmp(f->name, "up_to_mod") == 0)
        return sheaf_dataset_range(0, x % f->k, 1);
    return sheaf_dataset_from_slices(sheaf_element_of(t));
}

/* Type of the result of a map over `in`, in the frame; NULL if that is not known. */
static sheaf_element_spec *result_of(const struct function *f, const sheaf_element_spec *in)
{
    if (!in)
        return NULL;
    sheaf_tensor_spec a = sheaf_element_spec_at(in, 0), two[2];
    a.name = NULL;
    two[0] = two[1] = a;
    two[0].name = "0";
    two[1].name = "1";
    if (strcmp(f->name, "pair") == 0 || strcmp(f->name, "swap") == 0)
        return sheaf_element_spec_new(two, 2);
    if (strcmp(f->name, "vector") == 0)
        return spec_of(SHEAF_INT64, SHEAF_SHAPE(f->k));
    if (strcmp(f->name, "count_up") == 0)
        return spec_of(SHEAF_INT64, SHEAF_SHAPE(-1));
    if (strcmp(f->name, "sum_all") == 0)
        return spec_of(SHEAF_INT64, SHEAF_SCALAR);
    if (strcmp(f->name, "half") == 0)
        return spec_of(SHEAF_FLOAT32, a.shape);
    if (strcmp(f->name, "text") == 0)
        return spec_of(SHEAF_STRING, a.shape);
    return spec_of(a.dtype, a.shape);
}

/* ---- building ---- */

/* Functions of one pipeline. */
static struct function functions[32];
static size_t function_count;

static struct function *function_of(const json_t *op)
{
    struct function *f = &functions[function_count++];
    assert_true(function_count <= 32);
    snprintf(f->name, sizeof(f->name), "%s", text_at(op, "f"));
    f->k = number_at(op, "k", 0);
    f->r = number_at(op, "r", 0);
    return f;
}

static sheaf_dataset *mapped(sheaf_dataset *d, const json_t *op)
{
    struct function *f = function_of(op);
    SHEAF_FRAME
    {
        const sheaf_map_options o = {.parallel = (int)number_at(op, "parallel", 0),
                                     .spec = result_of(f, sheaf_dataset_element_spec(d))};
        d = sheaf_dataset_map(d, apply_map, f, &o);
    }
    return d;
}

static sheaf_dataset *interleaved(sheaf_dataset *d, const json_t *op)
{
    SHEAF_FRAME
    {
        const sheaf_interleave_options o = {.cycle_length = (int)number_at(op, "cycle", 0),
                                            .block_length = (int)number_at(op, "block", 0),
                                            .parallel = (int)number_at(op, "parallel", 0),
                                            .spec = spec_of(SHEAF_INT64, SHEAF_SCALAR)};
        d = sheaf_dataset_interleave(d, apply_spread, function_of(op), &o);
    }
    return d;
}

static sheaf_dataset *rebatched(sheaf_dataset *d, const json_t *op)
{
    int64_t sizes[8];
    const json_t *list = json_object_get(op, "sizes");
    for (size_t i = 0; i < json_array_size(list); i++)
        sizes[i] = json_integer_value(json_array_get(list, i));
    return sheaf_dataset_rebatch(d, sizes, json_array_size(list),
                                 json_is_true(json_object_get(op, "drop_remainder")));
}

static sheaf_dataset *source(const json_t *op)
{
    sheaf_dataset *d = NULL;
    if (strcmp(text_at(op, "op"), "range") == 0)
        return sheaf_dataset_range(number_at(op, "start", 0), number_at(op, "stop", 0),
                                   number_at(op, "step", 1));
    SHEAF_FRAME
    {
        if (strcmp(text_at(op, "op"), "slices") == 0)
            d = sheaf_dataset_from_slices(
                sheaf_element_of(int64_of(json_object_get(op, "values"))));
        else
            d = sheaf_dataset_from_tensors(sheaf_element_of(sheaf_long(number_at(op, "value", 0))));
    }
    return d;
}

static sheaf_dataset *build(const json_t *ops);

static sheaf_dataset *stage(sheaf_dataset *d, const json_t *op)
{
    const char *name = text_at(op, "op");
    int64_t count = number_at(op, "count", 0);
    const sheaf_batch_options batch = {.drop_remainder =
                                           json_is_true(json_object_get(op, "drop_remainder")),
                                       .parallel = (int)number_at(op, "parallel", 0)};
    const sheaf_padded_batch_options padded = {.drop_remainder = batch.drop_remainder};
    const sheaf_shuffle_options shuffle = {.seed = number_at(op, "seed", 0),
                                           .has_seed = true,
                                           .no_reshuffle =
                                               !json_is_true(json_object_get(op, "reshuffle"))};
#define STAGE(text, result)      \
    if (strcmp(name, text) == 0) \
        return (result);
    STAGE("map", mapped(d, op))
    STAGE("filter", sheaf_dataset_filter(d, apply_filter, function_of(op)))
    STAGE("flat_map", sheaf_dataset_flat_map(d, apply_spread, function_of(op)))
    STAGE("interleave", interleaved(d, op))
    STAGE("batch", sheaf_dataset_batch(d, number_at(op, "size", 0), &batch))
    STAGE("padded_batch", sheaf_dataset_padded_batch(d, number_at(op, "size", 0), &padded))
    STAGE("cache", sheaf_dataset_cache(d, NULL))
    STAGE("unbatch", sheaf_dataset_unbatch(d))
    STAGE("rebatch", rebatched(d, op))
    STAGE("shuffle", sheaf_dataset_shuffle(d, number_at(op, "buffer", 0), &shuffle))
    STAGE("take", sheaf_dataset_take(d, count))
    STAGE("skip", sheaf_dataset_skip(d, count))
    STAGE("repeat", sheaf_dataset_repeat(d, count))
    STAGE("shard",
          sheaf_dataset_shard(d, number_at(op, "num_shards", 0), number_at(op, "index", 0)))
    STAGE("enumerate", sheaf_dataset_enumerate(d, number_at(op, "start", 0)))
    STAGE("zip", sheaf_dataset_zip((sheaf_dataset *[]){d, build(json_object_get(op, "with"))}, 2))
    STAGE("concatenate", sheaf_dataset_concatenate(d, build(json_object_get(op, "with"))))
    STAGE("prefetch", sheaf_dataset_prefetch(d, number_at(op, "buffer", 0)))
#undef STAGE
    fail_msg("no stage %s", name);
    return NULL;
}

static sheaf_dataset *build(const json_t *ops)
{
    sheaf_dataset *d = source(json_array_get(ops, 0));
    for (size_t i = 1; i < json_array_size(ops); i++)
        d = stage(d, json_array_get(ops, i));
    return d;
}

static json_t *spec_json(const sheaf_element_spec *spec)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sheaf_element_spec_size(spec); i++) {
        sheaf_tensor_spec s = sheaf_element_spec_at(spec, i);
        json_array_append_new(list, json_pack("{s:s, s:o}", "dtype", sheaf_dtype_name(s.dtype),
                                              "shape", shape_json(s.shape)));
    }
    return list;
}

static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("pipelines.json"), *c;
    size_t i, typed = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        const json_t *ops = json_object_get(c, "ops"), *epochs = json_object_get(c, "epochs");
        char *text = json_dumps(ops, 0);
        function_count = 0;
        sheaf_set_seed(17);
        sheaf_dataset *d = build(ops);
        if (sheaf_dataset_element_spec(d)) {
            assert_json(spec_json(sheaf_dataset_element_spec(d)), json_object_get(c, "spec"), text);
            typed++;
        }
        assert_int_equal(sheaf_dataset_cardinality(d), number_at(c, "cardinality", 0));
        for (size_t k = 0; k < 2; k++)
            assert_json(elements_by(d, components_json),
                        json_array_get(epochs, k < json_array_size(epochs) ? k : 0), text);
        sheaf_dataset_free(d);
        free(text);
        rig_log_take(); /* of caches that were read in part (R9.22) */
    }
    assert_int_equal(i, 300);
    assert_true(typed > 200);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_golden)};
    return rig_run(tests);
}
