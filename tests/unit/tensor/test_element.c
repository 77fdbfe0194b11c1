/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/mem.h"
#include "tensor/frame.h"
#include "tensor/spec.h"

#include <sheaf/frame.h>

#include <stdio.h>
#include <string.h>

static void test_put_and_get(void **state)
{
    (void)state;
    sheaf_element *e = sheaf_element_new();
    sheaf_tensor *image = sheaf_float(1), *label = sheaf_int(2);
    assert_int_equal(sheaf_element_put(e, "image", image), SHEAF_OK);
    assert_int_equal(sheaf_element_put(e, "label", label), SHEAF_OK);
    assert_int_equal(sheaf_element_size(e), 2);
    assert_ptr_equal(sheaf_element_get(e, "image"), image);
    assert_ptr_equal(sheaf_element_at(e, 1), label);
    assert_string_equal(sheaf_element_name(e, 1), "label");
    assert_null(sheaf_element_name(e, 2));
    assert_null(sheaf_element_at(e, 2));
    /* Replacing keeps the place. */
    sheaf_tensor *other = sheaf_float(3);
    assert_int_equal(sheaf_element_put(e, "image", other), SHEAF_OK);
    assert_int_equal(sheaf_element_size(e), 2);
    assert_ptr_equal(sheaf_element_at(e, 0), other);
    sheaf_error err;
    rig_fails(sheaf_tensor_status(sheaf_element_get(e, "weight"), &err), &err, SHEAF_ERR_NOT_FOUND,
              "element has no tensor 'weight', its names are 'image', 'label'");
    rig_fails(sheaf_tensor_status(sheaf_element_get(e, NULL), &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "2 tensors");
}

static void test_lone_tensor_and_tuple(void **state)
{
    (void)state;
    sheaf_tensor *t = sheaf_int(1);
    sheaf_element *e = sheaf_element_of(t);
    assert_string_equal(sheaf_element_name(e, 0), "");
    assert_ptr_equal(sheaf_element_get(e, NULL), t);
    assert_int_equal(sheaf__element_pattern(e), 0);
    e = sheaf_element_tuple(t, sheaf_int(2), sheaf_int(3), NULL);
    assert_int_equal(sheaf_element_size(e), 3);
    assert_string_equal(sheaf_element_name(e, 2), "2");
    assert_int_equal(sheaf__element_pattern(e), '(');
    sheaf_element_nest(e, '[');
    assert_int_equal(sheaf__element_pattern(e), '[');
    sheaf_element_nest(e, '?');
    assert_int_equal(sheaf__element_pattern(e), '[');
}

/* An element takes counts of its own: it outlives the frame of its tensors. */
static void test_keeps_its_tensors(void **state)
{
    (void)state;
    sheaf_element *e = NULL;
    SHEAF_FRAME
    {
        e = sheaf_element_keep(sheaf_element_new());
        for (int i = 0; i < 20; i++) {
            char name[8];
            snprintf(name, sizeof(name), "n%d", i);
            sheaf_element_put(e, name, sheaf_int(i));
        }
    }
    for (int i = 0; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, name), 0), i);
    }
    sheaf_error err;
    sheaf_element *copy = sheaf__element_copy(e, &err);
    sheaf_element_free(e);
    assert_int_equal(sheaf_tensor_integer(sheaf_element_at(copy, 19), 0), 19);
    sheaf_element_free(copy);
}

/* The error of a failed tensor is the status of putting it, and is latched here. */
static void test_failed_tensor(void **state)
{
    (void)state;
    sheaf_error cause = {.status = SHEAF_ERR_IO, .message = "broken"}, err;
    sheaf_tensor *bad = sheaf_tensor_keep(sheaf_failed(&cause));
    SHEAF_FRAME
    {
        sheaf_element *e = sheaf_element_new();
        assert_int_equal(sheaf_element_put(e, "loss", bad), SHEAF_ERR_IO);
        rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_IO, "broken");
        rig_fails(sheaf__element_status(e, &err), &err, SHEAF_ERR_IO, "'loss': broken");
        assert_int_equal(sheaf_element_put(e, "x", NULL), SHEAF_ERR_INVALID_ARGUMENT);
        assert_int_equal(sheaf_element_put(NULL, "x", bad), SHEAF_ERR_INVALID_ARGUMENT);
        assert_true(sheaf_tensor_status(sheaf_element_get(NULL, "x"), NULL) < 0);
    }
    sheaf_tensor_free(bad);
}

/* Equal names are one pointer. */
static void test_names(void **state)
{
    (void)state;
    char name[] = "image";
    const char *first = sheaf__name(name);
    assert_ptr_equal(sheaf__name("image"), first);
    name[0] = 'x';
    assert_string_equal(first, "image");
    assert_ptr_equal(sheaf__name("7"), sheaf__name_of(7));
    assert_ptr_equal(sheaf__name("63"), sheaf__name_of(63));
    assert_ptr_equal(sheaf__name("64"), sheaf__name_of(64));
    assert_ptr_equal(sheaf__name("1000"), sheaf__name_of(1000));
    assert_string_equal(sheaf__name("07"), "07");
    assert_string_equal(sheaf__name("640"), "640");
    assert_ptr_equal(sheaf__name(""), sheaf__name(""));
}

static const sheaf_tensor_spec pair[] = {{"x", SHEAF_FLOAT32, {.rank = 2, .dims = {-1, 3}}},
                                         {"y", SHEAF_INT64, {.rank = SHEAF_UNKNOWN_RANK}}};

static sheaf_element *pair_element(sheaf_shape x)
{
    sheaf_element *e = sheaf_element_new();
    sheaf_element_put(e, "x", sheaf_tensor_new(SHEAF_FLOAT32, x, NULL));
    sheaf_element_put(e, "y", sheaf_long(1));
    return e;
}

static void test_spec_check(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_element_spec *spec = sheaf_element_spec_new(pair, 2);
    assert_int_equal(sheaf_element_spec_size(spec), 2);
    assert_string_equal(sheaf_element_spec_at(spec, 1).name, "y");
    assert_int_equal(sheaf_element_spec_at(spec, 2).dtype, SHEAF_INVALID_DTYPE);
    rig_ok(sheaf_element_spec_check(spec, pair_element(SHEAF_SHAPE(7, 3)), &err), &err);
    rig_fails(sheaf_element_spec_check(spec, pair_element(SHEAF_SHAPE(7, 4)), &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "tensor 'x' has shape (7, 4), expected (None, 3)");
    sheaf_element *e = sheaf_element_new();
    sheaf_element_put(e, "x", sheaf_int(1));
    rig_fails(sheaf_element_spec_check(spec, e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "1 tensors, expected 2");
    sheaf_element_put(e, "z", sheaf_int(1));
    rig_fails(sheaf_element_spec_check(spec, e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "tensor 'x' is int32, expected float32");
    sheaf_element_put(e, "x", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(0, 3), NULL));
    rig_fails(sheaf_element_spec_check(spec, e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "tensor 1 is named 'z', expected 'y'");
    rig_fails(sheaf_element_spec_check(NULL, e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "NULL");
}

static void test_spec_equality(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_element_spec *a = sheaf_element_spec_new(pair, 2);
    sheaf_element_spec *b = sheaf_element_spec_of(pair_element(SHEAF_SHAPE(7, 3)));
    sheaf_element_spec *c = sheaf_element_spec_of(pair_element(SHEAF_SHAPE(5, 3)));
    assert_true(sheaf_element_spec_equal(a, sheaf_element_spec_new(pair, 2)));
    assert_false(sheaf_element_spec_equal(a, b));
    assert_false(sheaf_element_spec_equal(b, c));
    assert_false(sheaf_element_spec_equal(a, sheaf_element_spec_new(pair, 1)));
    assert_true(sheaf_element_spec_equal(NULL, NULL));
    assert_false(sheaf_element_spec_equal(a, NULL));
    sheaf_element_spec *merged = sheaf__frame_own(sheaf__spec_merge(b, c, &err));
    sheaf_shape shape = sheaf_element_spec_at(merged, 0).shape;
    assert_true(sheaf_shape_equal(shape, SHEAF_SHAPE(-1, 3)));
    sheaf_element_spec *one =
        sheaf__frame_own(sheaf__spec_of_tensor(SHEAF_INT8, SHEAF_SCALAR, &err));
    assert_null(sheaf__spec_merge(a, one, &err));
    assert_int_equal(sheaf__spec_pattern(one), 0);
    assert_int_equal(sheaf__spec_pattern(a), '{');
    sheaf_element_spec *kept = sheaf_element_spec_keep(a);
    sheaf_element_spec_free(kept);
}

/* The same element again takes nothing from the system. */
static void test_elements_are_pooled(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (int round = 0; round < 3; round++) {
        SHEAF_FRAME
        {
            sheaf_element *e = pair_element(SHEAF_SHAPE(2, 3));
            for (int i = 0; i < 10; i++)
                sheaf_element_put(e, sheaf__name_of((size_t)i), sheaf_int(i));
            sheaf_element_spec_of(e);
        }
        uint64_t allocations = sheaf__mem_stats().allocations;
        if (round > 0)
            assert_int_equal(allocations, before);
        before = allocations;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_put_and_get),
        rig_test(test_lone_tensor_and_tuple),
        rig_test(test_keeps_its_tensors),
        rig_test(test_failed_tensor),
        rig_test(test_names),
        rig_test(test_spec_check),
        rig_test(test_spec_equality),
        rig_test(test_elements_are_pooled),
    };
    return rig_run(tests);
}
