/* SPDX-License-Identifier: Apache-2.0 */

/* S222: each kind of value has a type, a printer and a function that frees it; valgrind sees that nothing is lost. What
 * belongs to a frame goes with the frame. */

#include <sheaf/sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sheaf_error err;

static void must(sheaf_status status)
{
    if (status < 0)
        exit(sheaf_error_exit(&err));
}

/* The text is what the printer must give. */
static void same(const char *text, const char *expected)
{
    if (strcmp(text, expected) != 0) {
        printf("found    %s\nexpected %s\n", text, expected);
        exit(1);
    }
}

static sheaf_status value(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)user;
    same(sheaf_value_context_str(context),
         context->replica_id_in_sync_group
             ? "tf.distribute.ValueContext(replica id 1,  total replicas in sync: 2)"
             : "tf.distribute.ValueContext(replica id 0,  total replicas in sync: 2)");
    return sheaf_element_put(out, "", sheaf_int(context->replica_id_in_sync_group));
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)in;
    same(sheaf_replica_str(r), sheaf_replica_id(r)
                                   ? "ReplicaContext(replica id 1, total replicas in sync: 2)"
                                   : "ReplicaContext(replica id 0, total replicas in sync: 2)");
    sheaf_element_put(out, "", sheaf_value(user));
    return sheaf_assign_add(user, sheaf_float(1), NULL);
}

static sheaf_dataset *batches(const sheaf_input_context *context, void *user)
{
    (void)user;
    same(sheaf_input_context_str(context),
         "tf.distribute.InputContext(input pipeline id 0, total: 1)");
    return sheaf_dataset_batch(sheaf_dataset_range(0, 8, 1), 2, NULL);
}

static void values(sheaf_strategy *s)
{
    static const char text[] = "PerReplica:{\n  0: tf.Tensor(0, shape=(), dtype=int32),\n"
                               "  1: tf.Tensor(1, shape=(), dtype=int32)\n}";
    sheaf_values *v = NULL, *kept = NULL;
    SHEAF_FRAME
    {
        must(sheaf_distribute_values_from_function(s, value, NULL, &v, &err));
        same(sheaf_values_str(v), text);
        kept = sheaf_values_keep(v);
    }
    same(sheaf_values_str(kept), text);
    sheaf_values_free(kept);
}

static void variable(sheaf_strategy *s)
{
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    sheaf_variable *w = NULL;
    sheaf_values *v = NULL;
    SHEAF_SCOPE(s)
    {
        w = sheaf_variable_new("w", sheaf_float(1), &sum);
    }
    same(sheaf_variable_str(w),
         "MirroredVariable:{\n"
         "  0: <tf.Variable 'w:0' shape=() dtype=float32, numpy=1.0>,\n"
         "  1: <tf.Variable 'w/replica_1:0' shape=() dtype=float32, numpy=1.0>\n}");
    for (int i = 0; i < 3; i++)
        SHEAF_FRAME
        {
            must(sheaf_run(s, step, w, NULL, &v, &err));
        }
    sheaf_variable_free(w);
}

static void iterate(sheaf_dist_dataset *data, const char *spec, int expected)
{
    char text[256];
    sheaf_values *batch;
    sheaf_element_spec *kept = NULL;
    sheaf_dist_iterator *it = sheaf_iterate(data);
    snprintf(text, sizeof(text), "<DistributedDataset element_spec=%s>", spec);
    same(sheaf_dist_dataset_str(data), text);
    snprintf(text, sizeof(text), "<DistributedIterator element_spec=%s>", spec);
    same(sheaf_dist_iterator_str(it), text);
    kept = sheaf_element_spec_keep(sheaf_dist_dataset_element_spec(data));
    sheaf_dist_dataset_free(data); /* the iterator has its own count */
    int steps = 0;
    SHEAF_EACH(batch, it, &err)
    {
        steps++;
    }
    must(err.status);
    if (steps != expected) {
        printf("%d steps, expected %d\n", steps, expected);
        exit(1);
    }
    sheaf_dist_iterator_free(it);
    same(sheaf_spec_str(kept), "TensorSpec(shape=(None,), dtype=tf.int64, name=None)");
    sheaf_element_spec_free(kept);
}

int main(void)
{
    static const char spec[] =
        "PerReplicaSpec(TensorSpec(shape=(None,), dtype=tf.int64, name=None), "
        "TensorSpec(shape=(None,), dtype=tf.int64, name=None))";
    sheaf_strategy *s = NULL;
    must(sheaf_devices_configure(2, &err));
    must(sheaf_strategy_new("mirrored", NULL, NULL, &s, &err));
    values(s);
    variable(s);
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 6, 1), 4, NULL);
    iterate(sheaf_distribute_dataset(s, d, NULL), spec, 2);
    iterate(sheaf_distribute_datasets_from_function(s, batches, NULL, NULL), spec, 2);
    /* One that is left in the middle. */
    d = sheaf_dataset_batch(sheaf_dataset_range(0, 1000, 1), 4, NULL);
    sheaf_dist_dataset *data = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(data);
    sheaf_values *batch = NULL;
    must(sheaf_next(it, &batch, &err));
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(data);
    sheaf_strategy_free(s);
    sheaf_frame_clear();
    return sheaf_error_exit(&err);
}
