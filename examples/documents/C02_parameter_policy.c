/* SPDX-License-Identifier: Apache-2.0 */

/* Document C, ShardingCallback: a parameter of the policy (S207, S212). The document's `...` is filled in: every
 * `custom_param` tensors go into a shard of their own. */

#include "document.h"
#include <glob.h>

enum { COUNT = 5 };

/* What the document's constructor keeps; the callback gets it as its user data. */
struct parameter_policy {
    int custom_param;
    char description[64];
};

static sheaf_status assign(sheaf_shardable *const *tensors, size_t count, sheaf_shard_plan *plan,
                           void *user)
{
    const struct parameter_policy *policy = user;
    for (size_t i = 0; i < count; i++)
        sheaf_shard_put(plan, (int)i / policy->custom_param, tensors[i]);
    return SHEAF_OK;
}

static sheaf_sharding_callback make_policy(struct parameter_policy *policy, int custom_param)
{
    policy->custom_param = custom_param;
    snprintf(policy->description, sizeof(policy->description), "Place every %d tensors in a shard.",
             custom_param);
    return (sheaf_sharding_callback){assign, policy->description, policy};
}

static void print_files(const char *path)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s*", path);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    printf("[");
    for (size_t i = 0; i < found.gl_pathc; i++)
        printf("%s'%s'", i ? ", " : "", found.gl_pathv[i]);
    printf("]\n");
    globfree(&found);
}

int main(void)
{
    static const char *const names[COUNT] = {"v0", "v1", "v2", "v3", "v4"};
    sheaf_variable *v[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const float value = (float)i;
        v[i] = sheaf_variable_new(names[i], sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), &value),
                                  NULL);
    }
    sheaf_checkpoint *ckpt = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(ckpt, v, COUNT);
    for (int custom_param = 2; custom_param <= 3; custom_param++) {
        struct parameter_policy parameters;
        const sheaf_sharding_callback policy = make_policy(&parameters, custom_param);
        const char *path;
        must(sheaf_checkpoint_save(ckpt, "path", &(sheaf_checkpoint_options){.sharding = &policy},
                                   &path, &err));
        printf("%s\n", policy.description);
        print_files(path);
        for (int i = 0; i < COUNT; i++)
            must(sheaf_assign(v[i], sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(1)), &err));
        must(sheaf_checkpoint_restore(ckpt, path, &err));
        for (int i = 0; i < COUNT; i++)
            printf("%s%.1f", i ? ", " : "[", *(const float *)sheaf_tensor_data(sheaf_value(v[i])));
        printf("]\n");
    }
    sheaf_checkpoint_free(ckpt);
    for (int i = 0; i < COUNT; i++)
        sheaf_variable_free(v[i]);
    return 0;
}
