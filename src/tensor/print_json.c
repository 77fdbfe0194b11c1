/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as JSON, for other programs. */
#include "base/base64.h"
#include "tensor/frame.h"
#include "tensor/kernel.h"
#include "tensor/print_array.h"

#include <math.h>

static void add_number(struct sheaf__str *out, sheaf_dtype dtype, const void *element)
{
    const double value = sheaf__kernel_number(element, dtype, 0);
    const float wide = (float)value;
    if (!isfinite(value))
        sheaf__str_add(out, isnan(value) ? "\"NaN\""
                            : value > 0  ? "\"Infinity\""
                                         : "\"-Infinity\"");
    else if (dtype ==
             SHEAF_BFLOAT16) /* which print_number() cuts to 6 digits, and -0 to no float */
        sheaf__print_number(out, SHEAF_FLOAT32, &wide);
    else
        sheaf__print_number(out, dtype, element);
}

static void add_element(struct sheaf__str *out, sheaf_dtype dtype, const void *element)
{
    const sheaf_bytes *bytes = element;
    const sheaf_dtype part = dtype == SHEAF_COMPLEX64 ? SHEAF_FLOAT32 : SHEAF_FLOAT64;
    switch (dtype) {
    case SHEAF_STRING:
        sheaf__base64_json(out, bytes->data, bytes->size);
        break;
    case SHEAF_BOOL:
        sheaf__str_add(out, *(const uint8_t *)element ? "true" : "false");
        break;
    case SHEAF_COMPLEX64:
    case SHEAF_COMPLEX128:
        sheaf__str_char(out, '[');
        add_number(out, part, element);
        sheaf__str_add(out, ", ");
        add_number(out, part, (const char *)element + sheaf_dtype_size(part));
        sheaf__str_char(out, ']');
        break;
    default:
        if (sheaf__dtype_is_float(dtype))
            add_number(out, dtype, element);
        else
            sheaf__print_number(out, dtype, element);
        break;
    }
}

static void print_json(struct sheaf__str *out, const sheaf_tensor *t)
{
    if (!sheaf__tensor_ok(t)) {
        sheaf__str_add(out, "null");
    } else if (!sheaf__print_nested(out, t, add_element)) {
        sheaf__str_add(out, "{\"indices\": ");
        print_json(out, t->parts[SHEAF__INDICES]);
        sheaf__str_add(out, ", \"values\": ");
        print_json(out, t->parts[SHEAF__VALUES]);
        for (int i = 0; i < t->shape.rank; i++)
            sheaf__str_printf(out, "%s%lld", i ? ", " : ", \"shape\": [",
                              (long long)t->shape.dims[i]);
        sheaf__str_add(out, "]}");
    }
}

const char *sheaf_json_str(const sheaf_tensor *t)
{
    struct sheaf__str out = {0};
    print_json(&out, t);
    return sheaf__frame_str(&out);
}
