/* SPDX-License-Identifier: Apache-2.0 */

/* Document C, ShardingCallback: every tensor in one shard (S200, S201, S208-S211, S213). With a number of bytes as its argument,
 * in shards of at most so many, which cuts tensors (S215). */

#include "document.h"
#include <glob.h>

static sheaf_status all_in_one(sheaf_shardable *const *tensors, size_t count,
                               sheaf_shard_plan *plan, void *user)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        char shape[64];
        sheaf_shape_format(sheaf_shardable_shape(tensors[i]), shape, sizeof(shape));
        printf("%s %s %s slice '%s'\n", sheaf_shardable_key(tensors[i]),
               sheaf_dtype_name(sheaf_shardable_dtype(tensors[i])), shape,
               sheaf_shardable_slice_spec(tensors[i]));
        sheaf_shard_put(plan, 0, tensors[i]);
    }
    return SHEAF_OK;
}

static void print_files(void)
{
    glob_t found;
    if (glob("path*", 0, NULL, &found) != 0)
        return;
    printf("[");
    for (size_t i = 0; i < found.gl_pathc; i++)
        printf("%s'%s'", i ? ", " : "", found.gl_pathv[i]);
    printf("]\n");
    globfree(&found);
}

/* Name and shape of every tensor, as tf.train.list_variables gives them. */
static void print_variables(const char *path)
{
    sheaf_bundle *bundle;
    sheaf_bundle_entry entry;
    must(sheaf_bundle_open(path, &bundle, &err));
    printf("[");
    for (size_t i = 0; sheaf_bundle_get(bundle, i, &entry) == SHEAF_OK; i++) {
        printf("%s('%s', [", i ? ", " : "", entry.key);
        for (int k = 0; k < entry.shape.rank; k++)
            printf("%s%lld", k ? ", " : "", (long long)entry.shape.dims[k]);
        printf("])");
    }
    printf("]\n");
    sheaf_bundle_free(bundle);
}

int main(int argc, char **argv)
{
    static const float ws[] = {1, 2, 3, 4, 5, 6}, bs[] = {0.5, -0.5, 0.25};
    const int bytes = argument(argc, argv, 1, 0);
    sheaf_sharding_callback policy = {.assign = all_in_one,
                                      .description = "Place all tensors in a single shard."};
    if (bytes)
        policy = sheaf_shard_max_size(bytes);
    sheaf_variable *w =
        sheaf_variable_new("w", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), ws), NULL);
    sheaf_variable *b =
        sheaf_variable_new("b", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), bs), NULL);
    sheaf_variable *step = sheaf_variable_new("step", sheaf_long(7), NULL);
    sheaf_variable *const all[] = {w, b, step};
    sheaf_checkpoint *ckpt = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(ckpt, all, 3);
    const char *path;
    must(sheaf_checkpoint_save(ckpt, "path", &(sheaf_checkpoint_options){.sharding = &policy},
                               &path, &err));
    printf("%s\n", path);
    print_files();
    print_variables(path);
    for (int i = 0; i < 3; i++)
        must(sheaf_assign(
            all[i], sheaf_zeros(sheaf_variable_dtype(all[i]), sheaf_variable_shape(all[i])), &err));
    must(sheaf_checkpoint_restore(ckpt, path, &err));
    printf("%s %s %s\n", sheaf_list_str(sheaf_value(w)), sheaf_list_str(sheaf_value(b)),
           sheaf_list_str(sheaf_value(step)));
    printf("%s\n", policy.description);

    /* Python hands over an object of another type here; in C that is a callback without its parts */
    const sheaf_sharding_callback no_function = {.description = "all in one"}, nothing = {0};
    sheaf_status status = sheaf_checkpoint_save(
        ckpt, "path", &(sheaf_checkpoint_options){.sharding = &no_function}, NULL, &err);
    printf("wrong type: %s\n", status < 0 ? "refused" : "accepted");
    status = sheaf_sharding_callback_check(&nothing, &err);
    printf("no function, no description: %s\n", status < 0 ? "refused" : "accepted");
    sheaf_checkpoint_free(ckpt);
    for (int i = 0; i < 3; i++)
        sheaf_variable_free(all[i]);
    return 0;
}
