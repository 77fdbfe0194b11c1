/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "data/rewrite.h"
#include "tensor/strings.h"

/* Empty elements for replicas without data (R3.15-R3.17), and the types that go with them. */

static void assert_dummy(sheaf_shape shape, const char *expected)
{
    SHEAF_FRAME
    {
        sheaf_element *e = sheaf__spec_dummy(spec_of(SHEAF_FLOAT32, shape), NULL);
        json_t *dims = literal(expected);
        assert_json(shape_json(sheaf_tensor_shape(sheaf_element_at(e, 0))), dims, expected);
        assert_int_equal(sheaf_tensor_dtype(sheaf_element_at(e, 0)), SHEAF_FLOAT32);
        json_decref(dims);
        sheaf_element_free(e);
    }
}

/* T3.4. */
static void test_shapes(void **state)
{
    (void)state;
    assert_dummy(SHEAF_SHAPE(-1, 3), "[0, 3]");
    assert_dummy(SHEAF_SHAPE(4, 3), "[0, 3]");
    assert_dummy(SHEAF_SHAPE(-1, -1, 2), "[0, 0, 2]");
    assert_dummy(SHEAF_SHAPE(-1, 5, -1), "[0, 5, 0]");
    assert_dummy(SHEAF_SHAPE(4, -1), "[4, 0]");
    assert_dummy(SHEAF_SCALAR, "[]");
    assert_dummy((sheaf_shape){.rank = SHEAF_UNKNOWN_RANK}, "[]");
}

static void test_values(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        const sheaf_tensor_spec specs[] = {{"n", SHEAF_INT64, SHEAF_SCALAR},
                                           {"s", SHEAF_STRING, SHEAF_SCALAR}};
        sheaf_element *e = sheaf__spec_dummy(sheaf_element_spec_new(specs, 2), NULL);
        assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, "n"), 0), 0);
        assert_int_equal(sheaf_tensor_bytes(sheaf_element_get(e, "s"), 0).size, 0);
        sheaf_element_free(e);
    }
}

/* What the spec leaves open comes from a real element; without a spec, all of it. */
static void test_like_a_real_element(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_element *real =
            sheaf_element_of(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 7), NULL));
        sheaf_element *e = sheaf__spec_dummy(NULL, real);
        json_t *dims = literal("[0, 7]");
        assert_json(shape_json(sheaf_tensor_shape(sheaf_element_at(e, 0))), dims, "like");
        sheaf_element_free(e);
        json_decref(dims);
        /* a spec of known rank decides alone (T3.4) */
        e = sheaf__spec_dummy(spec_of(SHEAF_FLOAT32, SHEAF_SHAPE(-1, -1)), real);
        dims = literal("[0, 0]");
        assert_json(shape_json(sheaf_tensor_shape(sheaf_element_at(e, 0))), dims, "spec");
        sheaf_element_free(e);
        json_decref(dims);
    }
    assert_null(sheaf__spec_dummy(NULL, NULL));
}

/* R3.16, R3.17. */
static void test_other_layouts(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        const int64_t numbers[] = {0, 2, 3};
        sheaf_tensor *indices = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3, 2), NULL);
        sheaf_tensor *values = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), NULL);
        sheaf_tensor *splits = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), numbers);
        sheaf_tensor *sparse = sheaf__tensor_give(
            sheaf__tensor_sparse(indices, values, SHEAF_SHAPE(2, 5), &err), &err);
        sheaf_tensor *ragged = sheaf__tensor_give(sheaf__tensor_ragged(values, splits, &err), &err);
        sheaf_element *e = sheaf__spec_dummy(NULL, sheaf_element_tuple(sparse, ragged, NULL));
        const sheaf_tensor *s = sheaf_element_at(e, 0), *r = sheaf_element_at(e, 1);
        assert_int_equal(s->layout, SHEAF__SPARSE);
        assert_int_equal(s->shape.dims[0], 0);
        assert_int_equal(s->shape.dims[1], 5);
        assert_int_equal(sheaf_tensor_elements(s->parts[SHEAF__VALUES]), 0);
        assert_int_equal(s->parts[SHEAF__INDICES]->shape.dims[1], 2);
        assert_int_equal(r->layout, SHEAF__RAGGED);
        assert_int_equal(sheaf_tensor_elements(r->parts[SHEAF__RAGGED_VALUES]), 0);
        assert_int_equal(sheaf_tensor_elements(r->parts[SHEAF__ROW_SPLITS]), 1);
        assert_int_equal(sheaf_tensor_integer(r->parts[SHEAF__ROW_SPLITS], 0), 0);
        sheaf_element_free(e);
    }
}

/* R3.2, R1.45. */
static void test_static_and_any_batch(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        const sheaf_tensor_spec specs[] = {{"a", SHEAF_INT64, SHEAF_SHAPE(4, 2)},
                                           {"b", SHEAF_INT64, SHEAF_SHAPE(4)}};
        sheaf_element_spec *spec = sheaf_element_spec_new(specs, 2);
        assert_true(sheaf__spec_is_static(spec));
        assert_false(sheaf__spec_is_static(NULL));
        sheaf_element_spec *any = sheaf__spec_any_batch(spec);
        assert_false(sheaf__spec_is_static(any));
        assert_int_equal(sheaf_element_spec_at(any, 0).shape.dims[0], SHEAF_UNKNOWN_DIM);
        assert_int_equal(sheaf_element_spec_at(any, 0).shape.dims[1], 2);
        sheaf_element_spec_free(any);
        assert_null(sheaf__spec_any_batch(NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_shapes),
        rig_test(test_values),
        rig_test(test_like_a_real_element),
        rig_test(test_other_layouts),
        rig_test(test_static_and_any_batch),
    };
    return rig_run(tests);
}
