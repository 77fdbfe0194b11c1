/* SPDX-License-Identifier: Apache-2.0 */

/* Document C, ShardingCallback: what a callback must not do (S203-S207). Variables a and b are on ps 0, c is on ps 1. */

#include "cluster.h"

static const char DESCRIPTION[] = "Broken on purpose.";

/* What a callback does with tensor `t` of a parameter server. */
typedef void (*breaker)(sheaf_shard_plan *plan, const sheaf_shardable *t);

static bool is_tensor(const sheaf_shardable *t, const char *name)
{
    const char *key = sheaf_shardable_key(t);
    const size_t size = strlen(name);
    return strncmp(key, name, size) == 0 && key[size] == '/';
}

static sheaf_status assign(sheaf_shardable *const *tensors, size_t count, sheaf_shard_plan *plan,
                           void *user)
{
    breaker const *breaks = user;
    for (size_t i = 0; i < count; i++) {
        if (strstr(sheaf_shardable_device(tensors[i]), "job:ps"))
            (*breaks)(plan, tensors[i]);
        else
            sheaf_shard_put(plan, 0, tensors[i]); /* the save counter and the object graph */
    }
    return SHEAF_OK;
}

/* Saves `variables` and prints the verdict, and which of `names` (NULL-terminated) the message carries. */
static void judge(const char *what, breaker breaks, sheaf_variable *const *variables, size_t count,
                  const char *const *names)
{
    const sheaf_sharding_callback callback = {assign, DESCRIPTION, &breaks};
    sheaf_checkpoint *ckpt = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(ckpt, variables, count);
    sheaf_status status = sheaf_checkpoint_save(
        ckpt, "path", &(sheaf_checkpoint_options){.sharding = &callback}, NULL, &err);
    sheaf_checkpoint_free(ckpt);
    if (status >= 0) {
        printf("%s: accepted\n", what);
        return;
    }
    fprintf(stderr, "%s: %s\n", what, err.message);
    printf("%s: refused, names %s", what,
           strstr(err.message, DESCRIPTION) ? DESCRIPTION : "nothing");
    for (; *names; names++)
        if (strstr(err.message, *names))
            printf(" | %s", *names);
    printf("\n");
}

static void whole(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put(plan, 0, t);
}

static void two_shards(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put(plan, is_tensor(t, "b"), t);
}

static void removed(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    if (!is_tensor(t, "b"))
        sheaf_shard_put(plan, 0, t);
}

static void added(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put(plan, 0, t);
    sheaf_shard_put_as(plan, 0, "x", "", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(4)), NULL);
}

static void duplicate(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    if (is_tensor(t, "a")) {
        sheaf_shard_put(plan, 0, t);
        sheaf_shard_put(plan, 1, t);
    }
}

static void reshaped(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put_as(plan, 0, sheaf_shardable_key(t), "",
                       sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(6)), NULL);
}

static void other_dtype(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put_as(plan, 0, sheaf_shardable_key(t), "",
                       sheaf_zeros(SHEAF_FLOAT64, SHEAF_SHAPE(2, 3)), NULL);
}

static void other_task(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put_as(plan, 0, sheaf_shardable_key(t), "",
                       sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3)),
                       "/job:ps/task:1/device:CPU:0");
}

static void two_tasks(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    sheaf_shard_put(plan, 0, t);
    if (is_tensor(t, "b"))
        sheaf_shard_put_as(plan, 0, "c/.ATTRIBUTES/VARIABLE_VALUE", "",
                           sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(4)), NULL);
}

static void judge_all(void)
{
    sheaf_variable *a =
        sheaf_variable_new("a", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3)), NULL);
    sheaf_variable *c = sheaf_variable_new("c", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(4)), NULL);
    sheaf_variable *b = sheaf_variable_new("b", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(4)), NULL);
    sheaf_variable *const ab[] = {a, b}, *const bc[] = {b, c};
    static const char *const nothing[] = {NULL};
    judge("whole", whole, ab, 2, nothing);
    judge("two shards", two_shards, ab, 2, nothing);
    judge("removed", removed, ab, 2, (const char *const[]){"b", NULL});
    judge("added", added, ab, 1, (const char *const[]){"x", NULL});
    judge("duplicate", duplicate, ab, 2, (const char *const[]){"a", NULL});
    judge("reshaped", reshaped, ab, 1, (const char *const[]){"a", "(2, 3)", "(6,)", NULL});
    judge("other dtype", other_dtype, ab, 1,
          (const char *const[]){"a", "float32", "float64", NULL});
    judge("other task", other_task, ab, 1, (const char *const[]){"a", "0", "1", NULL});
    judge("two tasks in a shard", two_tasks, bc, 2,
          (const char *const[]){"b", "c", "0", "1", NULL});
    sheaf_variable_free(a);
    sheaf_variable_free(b);
    sheaf_variable_free(c);
}

static int task(int argc, char **argv)
{
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    (void)argc;
    (void)argv;
    must(sheaf_cluster_resolve(NULL, &cluster, &err));
    if (sheaf_cluster_is(cluster, "ps")) {
        must(sheaf_server_run(cluster, NULL, &err));
    } else {
        must(sheaf_strategy_new("ParameterServerStrategy", cluster, NULL, &s, &err));
        SHEAF_SCOPE(s)
        {
            judge_all();
        }
        must(sheaf_strategy_join(s, 0, &err));
    }
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return 0;
}

int main(int argc, char **argv)
{
    return in_cluster(argv, (struct jobs){.worker = 1, .ps = 2}, task, argc);
}
