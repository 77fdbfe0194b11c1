/* SPDX-License-Identifier: Apache-2.0 */
/* Activations and losses, with their gradients, against TensorFlow's numbers (section 12 of the semantics). What has no
 * operation of its own is put together from ours. Cases that need operations we do not have are listed. */
#include "rig.h"

#include "ops_help.h"

#include "ops/op.h"

#include <jansson.h>
#include <string.h>

/* ---- reading ---- */

static double number_of(const json_t *j)
{
    if (!json_is_string(j))
        return json_number_value(j);
    const char *text = json_string_value(j);
    return strcmp(text, "nan") == 0 ? NAN : strcmp(text, "inf") == 0 ? INFINITY : -INFINITY;
}

/* A list, or a list of lists, of numbers. */
static sheaf_tensor *tensor_of(const json_t *list)
{
    int64_t dims[2] = {(int64_t)json_array_size(list), 1};
    const json_t *first = json_array_get(list, 0);
    int rank = json_is_array(first) ? 2 : 1;
    if (rank == 2)
        dims[1] = (int64_t)json_array_size(first);
    float values[256];
    assert_true(dims[0] * dims[1] <= 256);
    for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
        const json_t *row = json_array_get(list, (size_t)(rank == 2 ? i / dims[1] : i));
        values[i] = (float)number_of(rank == 2 ? json_array_get(row, (size_t)(i % dims[1])) : row);
    }
    return sheaf_tensor_new(SHEAF_FLOAT32, sheaf_shape_of(rank, dims), values);
}

static void expect_close(const char *name, const char *what, sheaf_tensor *got,
                         const json_t *wanted, double limit)
{
    sheaf_error err = {0};
    sheaf_tensor *w = tensor_of(wanted);
    rig_ok(sheaf_tensor_status(got, &err), &err);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(got), sheaf_tensor_shape(w)));
    for (int64_t i = 0; i < sheaf_tensor_elements(w); i++) {
        double x = sheaf_tensor_number(got, i), y = sheaf_tensor_number(w, i);
        if (!(fabs(x - y) <= 2e-6 * fabs(y) + limit))
            fail_msg("%s, %s, element %d: %.9g, TensorFlow %.9g", name, what, (int)i, x, y);
    }
}

static json_t *load(const char *file)
{
    json_error_t why;
    json_t *root = json_load_file(rig_golden(file), 0, &why);
    if (!root)
        fail_msg("%s: %s", file, why.text);
    return root;
}

/* ---- activations ---- */

static sheaf_tensor *silu(sheaf_tensor *x)
{
    return sheaf_mul(x, sheaf_sigmoid(x));
}
static sheaf_tensor *leaky(sheaf_tensor *x)
{
    return sheaf_maximum(sheaf_scale(x, 0.2, 0), x);
}
static sheaf_tensor *exponential(sheaf_tensor *x)
{
    return sheaf_exp(sheaf_scale(x, 0.1, 0));
}
static sheaf_tensor *linear(sheaf_tensor *x)
{
    return sheaf_scale(x, 1, 0);
}
static sheaf_tensor *log_softmax(sheaf_tensor *x)
{
    return sheaf__op_run1(SHEAF__OP_LOG_SOFTMAX, x, NULL);
}

/* `limit`: of the weighted gradient, absolute. Where a function saturates, y (1 - y) and 1 - y² keep few digits of y, of
 * which TensorFlow's tanh, a rational approximation, has less than ours. */
static const struct {
    const char *name;
    sheaf_tensor *(*fn)(sheaf_tensor *x);
    double limit;
} activations[] = {
    {"relu", sheaf_relu, 0},
    {"sigmoid", sheaf_sigmoid, 2e-6},
    {"tanh", sheaf_tanh, 1e-5},
    {"softmax", sheaf_softmax, 3e-7},
    {"log_softmax", log_softmax, 3e-7},
    {"silu", silu, 1e-5},
    {"leaky_relu (0.2)", leaky, 3e-7},
    {"exponential of x * 0.1", exponential, 3e-7},
    {"linear", linear, 0},
};
/* They need a minimum, an absolute value, erf or a stable log(1 + exp x). */
static const char *const not_ours[] = {
    "relu6",        "elu",      "selu",     "gelu",        "gelu approximate",
    "hard_sigmoid", "softplus", "softsign", "log_sigmoid", "mish"};

static bool listed(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static void check_activation(size_t k, const json_t *c)
{
    sheaf_tensor *x = tensor_of(json_object_get(c, "x"));
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, x);
    const char *name = activations[k].name;
    sheaf_tensor *y = activations[k].fn(x);
    sheaf_tensor *numbers = sheaf_range(1, sheaf_tensor_elements(y) + 1, 1);
    numbers = sheaf_reshape(sheaf_cast(numbers, SHEAF_FLOAT32), sheaf_tensor_shape(y));
    sheaf_tensor *g = sheaf_tape_gradient(tape, sheaf_mul(y, numbers), x);
    expect_close(name, "value", y, json_object_get(c, "y"), 3e-7);
    expect_close(name, "gradient", g, json_object_get(c, "gradient_of_sum_y_times_1_2_3"),
                 activations[k].limit);
}

static void activations_are_tensorflows(void **state)
{
    (void)state;
    json_t *root = load("ops/activations.json");
    size_t i, checked = 0;
    const json_t *c;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        const char *name = json_string_value(json_object_get(c, "activation"));
        bool known = listed(name, not_ours, sizeof(not_ours) / sizeof(not_ours[0]));
        for (size_t k = 0; k < sizeof(activations) / sizeof(activations[0]); k++)
            if (strcmp(activations[k].name, name) == 0)
                SHEAF_FRAME
                {
                    check_activation(k, c);
                    known = true;
                    checked++;
                }
        if (!known)
            fail_msg("%s is neither checked nor listed", name);
    }
    assert_int_equal(checked, sizeof(activations) / sizeof(activations[0]));
    json_decref(root);
}

/* ---- losses ---- */

/* Labels as the case has them, smoothed if it says so. */
static sheaf_tensor *smooth(sheaf_tensor *labels, double smoothing, double classes)
{
    return smoothing > 0 ? sheaf_scale(labels, 1 - smoothing, smoothing / classes) : labels;
}

static sheaf_tensor *mean_rows(sheaf_tensor *t)
{
    return sheaf_reduce_mean(t, (int[]){-1}, 1);
}

static sheaf_tensor *one_more_log(sheaf_tensor *t)
{
    return sheaf_log(sheaf_scale(sheaf_maximum(t, sheaf_float(1e-7f)), 1, 1));
}

/* NULL: not put together here. */
static sheaf_tensor *loss_of(const char *name, sheaf_tensor *z, sheaf_tensor *y, const json_t *c)
{
    bool logits = json_is_true(json_object_get(c, "from_logits"));
    double smoothing = json_number_value(json_object_get(c, "label_smoothing"));
    if (strcmp(name, "mean_squared_error") == 0)
        return mean_rows(sheaf_square(sheaf_sub(y, z)));
    if (strcmp(name, "mean_squared_logarithmic_error") == 0)
        return mean_rows(sheaf_square(sheaf_sub(one_more_log(y), one_more_log(z))));
    if (strcmp(name, "poisson") == 0)
        return mean_rows(sheaf_sub(y, sheaf_mul(z, sheaf_log(sheaf_scale(y, 1, 1e-7)))));
    if (strcmp(name, "tf.nn.sigmoid_cross_entropy_with_logits") == 0)
        return sheaf_sigmoid_cross_entropy(z, y);
    if (strcmp(name, "binary_crossentropy") == 0 && logits)
        return mean_rows(sheaf_sigmoid_cross_entropy(smooth(z, smoothing, 2), y));
    if (strcmp(name, "tf.nn.softmax_cross_entropy_with_logits") == 0)
        return sheaf_softmax_cross_entropy(z, y);
    if (strcmp(name, "categorical_crossentropy") == 0 && logits)
        return sheaf_softmax_cross_entropy(
            smooth(z, smoothing, (double)sheaf_tensor_shape(y).dims[1]), y);
    if (strcmp(name, "tf.nn.sparse_softmax_cross_entropy_with_logits") == 0 ||
        (strcmp(name, "sparse_categorical_crossentropy") == 0 && logits))
        return sheaf_sparse_softmax_cross_entropy(sheaf_cast(z, SHEAF_INT64), y);
    return NULL;
}

static void losses_are_tensorflows(void **state)
{
    (void)state;
    json_t *root = load("ops/losses.json");
    size_t i, checked = 0;
    const json_t *c;
    json_array_foreach(json_object_get(root, "losses"), i, c) SHEAF_FRAME
    {
        const char *name = json_string_value(json_object_get(c, "loss"));
        sheaf_tensor *z = tensor_of(json_object_get(c, "y_true")),
                     *y = tensor_of(json_object_get(c, "y_pred"));
        sheaf_tape *tape = sheaf_tape_start();
        sheaf_tape_watch(tape, y);
        sheaf_tensor *loss = loss_of(name, z, y, c);
        if (!loss)
            continue;
        expect_close(name, "loss", loss, json_object_get(c, "per_example"), 3e-7);
        expect_close(name, "gradient", sheaf_tape_gradient(tape, loss, y),
                     json_object_get(c, "gradient_of_sum"), 3e-7);
        checked++;
    }
    assert_int_equal(checked, 11);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(activations_are_tensorflows),
        rig_test(losses_are_tensorflows),
    };
    return rig_run(tests);
}
