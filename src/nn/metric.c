/* SPDX-License-Identifier: Apache-2.0 */
#include <sheaf/metric.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"
#include "tensor/trackable.h"

#include <sheaf/ops.h>

enum { TOTAL, COUNT, VARIABLES };
static const char *const names[] = {"total", "count"};

struct sheaf_metric {
    sheaf_trackable trackable;
    sheaf_variable *of[VARIABLES];
};

static bool metric_child(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child)
{
    sheaf_metric *m = t->object;
    if (i >= VARIABLES)
        return false;
    *name = names[i];
    *child = sheaf_variable_trackable(m->of[i]);
    return true;
}

static const struct sheaf__trackable_class metric_class = {.child = metric_child};

sheaf_metric *sheaf_metric_mean(const char *name)
{
    const sheaf_variable_options options = {.not_trainable = true,
                                            .synchronization = SHEAF_SYNCHRONIZATION_ON_READ,
                                            .aggregation = SHEAF_AGGREGATION_SUM};
    sheaf_metric *m = sheaf__calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->trackable = (sheaf_trackable){&metric_class, m};
    for (int i = 0; i < VARIABLES; i++) {
        char *full = sheaf__printf("%s/%s", name ? name : "mean", names[i]);
        m->of[i] = full ? sheaf_variable_init(full, SHEAF_FLOAT64, SHEAF_SCALAR, sheaf_init_zeros(),
                                              &options)
                        : NULL;
        sheaf__free(full);
    }
    return m;
}

void sheaf_metric_free(sheaf_metric *m)
{
    for (int i = 0; m && i < VARIABLES; i++)
        sheaf_variable_free(m->of[i]);
    sheaf__free(m);
}

static sheaf_status check(sheaf_metric *m, sheaf_error *err)
{
    for (int i = 0; m && i < VARIABLES; i++) {
        if (!m->of[i])
            return sheaf__no_memory(err, "a metric");
        SHEAF__TRY(sheaf_variable_status(m->of[i], err));
    }
    return m ? SHEAF_OK : sheaf__no_memory(err, "a metric");
}

static sheaf_status check_weights(sheaf_tensor *values, sheaf_tensor *weights, sheaf_error *err)
{
    char a[64], b[64];
    if (!weights || sheaf_shape_equal(sheaf_tensor_shape(values), sheaf_tensor_shape(weights)))
        return SHEAF_OK;
    sheaf_shape_format(sheaf_tensor_shape(weights), a, sizeof(a));
    sheaf_shape_format(sheaf_tensor_shape(values), b, sizeof(b));
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "weights of a metric have shape %s, expected %s, that of the values", a, b);
}

static sheaf_status add(sheaf_metric *m, sheaf_tensor *values, sheaf_tensor *weights,
                        sheaf_error *err)
{
    sheaf_tensor *v = sheaf_cast(values, SHEAF_FLOAT64);
    sheaf_tensor *w = weights ? sheaf_cast(weights, SHEAF_FLOAT64) : NULL;
    SHEAF__TRY(sheaf_assign_add(m->of[TOTAL], sheaf_sum(w ? sheaf_mul(v, w) : v), err));
    return sheaf_assign_add(m->of[COUNT],
                            w ? sheaf_sum(w) : sheaf_double((double)sheaf_tensor_elements(v)), err);
}

sheaf_status sheaf_metric_update(sheaf_metric *m, sheaf_tensor *values, sheaf_tensor *weights,
                                 sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    SHEAF__TRY(check(m, err));
    SHEAF__TRY(sheaf_tensor_status(values, err));
    if (weights)
        SHEAF__TRY(sheaf_tensor_status(weights, err));
    SHEAF__TRY(check_weights(values, weights, err));
    SHEAF_FRAME
    {
        status = add(m, values, weights, err);
    }
    return status;
}

sheaf_tensor *sheaf_metric_result(sheaf_metric *m)
{
    sheaf_error err = {0};
    if (check(m, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *total = sheaf_value(m->of[TOTAL]), *count = sheaf_value(m->of[COUNT]);
    if (sheaf_tensor_status(count, NULL) == SHEAF_OK && sheaf_tensor_number(count, 0) == 0)
        return sheaf_double(0);
    return sheaf_div(total, count);
}

sheaf_status sheaf_metric_reset(sheaf_metric *m, sheaf_error *err)
{
    SHEAF__TRY(check(m, err));
    for (int i = 0; i < VARIABLES; i++)
        SHEAF__TRY(sheaf_assign(m->of[i], sheaf_double(0), err));
    return SHEAF_OK;
}

sheaf_variable *sheaf_metric_variable(sheaf_metric *m, size_t i)
{
    return m && i < VARIABLES ? m->of[i] : NULL;
}

sheaf_trackable *sheaf_metric_trackable(sheaf_metric *m)
{
    return m ? &m->trackable : NULL;
}
