/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, reduce: with and without axis, whole and partial batches (S74-S80). */

#include "document.h"

/* The numbers of each replica. */
struct numbers {
    sheaf_dtype dtype;
    int counts[2];
};

/* Replica 0 holds 0, 1, 2, 3; replica 1 goes on from 4. */
static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    const struct numbers *n = user;
    const int r = context->replica_id_in_sync_group;
    sheaf_tensor *t = sheaf_range(4 * r, 4 * r + n->counts[r], 1);
    return sheaf_element_put(out, "", sheaf_cast(t, n->dtype));
}

static sheaf_values *distributed(sheaf_strategy *s, struct numbers numbers)
{
    sheaf_values *values;
    must(sheaf_distribute_values_from_function(s, value_fn, &numbers, &values, &err));
    return values;
}

static sheaf_status mean_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_mean(sheaf_element_get(in, NULL)));
}

/* Prints the result of a reduction, or the type of its error. */
static void show(const char *what, sheaf_strategy *s, const char *name, const sheaf_values *values,
                 const int *axes, size_t axis_count)
{
    sheaf_element *result;
    sheaf_reduce_op op;
    must(sheaf_reduce_op_named(name, &op, &err));
    sheaf_status status = sheaf_reduce(s, op, values, axes, axis_count, &result, &err);
    printf("%s %s\n", what, status < 0 ? sheaf_status_name(status) : sheaf_element_str(result));
}

int main(void)
{
    sheaf_strategy *s = mirrored(2);
    static const int first[] = {0}, last[] = {-1};

    sheaf_values *full = distributed(s, (struct numbers){SHEAF_FLOAT32, {4, 4}});
    show("full SUM axis=None:", s, "SUM", full, NULL, 0);
    show("full MEAN axis=None:", s, "MEAN", full, NULL, 0);
    show("full SUM axis=0:", s, "SUM", full, first, 1);
    show("full MEAN axis=0:", s, "MEAN", full, first, 1);
    show("full SUM axis=-1:", s, "sum", full, last, 1);
    show("full SUM axis=(0,):", s, "SUM", full, first, 1);

    sheaf_values *partial = distributed(s, (struct numbers){SHEAF_FLOAT32, {4, 2}}), *means;
    show("partial SUM axis=None:", s, "SUM", partial, NULL, 0);
    show("partial SUM axis=0:", s, "SUM", partial, first, 1);
    show("partial MEAN axis=0:", s, "MEAN", partial, first, 1);
    must(sheaf_run(s, mean_fn, NULL, partial, &means, &err));
    show("partial mean of means:", s, "MEAN", means, NULL, 0);

    sheaf_values *integers = distributed(s, (struct numbers){SHEAF_INT32, {4, 4}});
    show("int32 SUM axis=0:", s, "SUM", integers, first, 1);
    show("int32 MEAN axis=None:", s, "MEAN", integers, NULL, 0);
    show("int32 MEAN axis=0:", s, "MEAN", integers, first, 1);

    sheaf_reduce_op op;
    sheaf_element *result;
    sheaf_status status = sheaf_reduce_op_named("max", &op, &err);
    printf("op max %s\n", status < 0 ? "refused" : "accepted");
    status = sheaf_reduce(s, (sheaf_reduce_op)3, full, NULL, 0, &result, &err);
    printf("op 3 %s\n", status < 0 ? "refused" : "accepted");
    sheaf_strategy_free(s);
    return 0;
}
