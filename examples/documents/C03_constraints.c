/* SPDX-License-Identifier: Apache-2.0 */

/* Document C, ShardingCallback: what a callback must not do (S203-S207). Variables a and b are on ps 0, c is on ps 1. With the
 * argument 1 the callbacks cut the tensors into slices, to which the same holds. */

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

/* Puts rows of a tensor into a shard: `rows` of its `shape` from `first` on. */
static void put_rows(sheaf_shard_plan *plan, int shard, const sheaf_shardable *t, int first,
                     int rows)
{
    const sheaf_shape full = sheaf_shardable_shape(t);
    sheaf_shape shape = full;
    char spec[64];
    shape.dims[0] = rows;
    if (full.rank == 1)
        snprintf(spec, sizeof(spec), "%d %d,%d", (int)full.dims[0], first, rows);
    else
        snprintf(spec, sizeof(spec), "%d %d %d,%d:0,%d", (int)full.dims[0], (int)full.dims[1],
                 first, rows, (int)full.dims[1]);
    sheaf_shard_put_as(plan, shard, sheaf_shardable_key(t), spec,
                       sheaf_zeros(sheaf_shardable_dtype(t), shape), NULL);
}

static void halves(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    const int rows = (int)sheaf_shardable_shape(t).dims[0];
    put_rows(plan, 0, t, 0, rows / 2);
    put_rows(plan, 1, t, rows / 2, rows - rows / 2);
}

static void half_removed(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    if (is_tensor(t, "b"))
        put_rows(plan, 0, t, 0, 2);
    else
        halves(plan, t);
}

static void half_added(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    halves(plan, t);
    put_rows(plan, 1, t, 2, 1);
}

static void half_twice(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    halves(plan, t);
    if (is_tensor(t, "a"))
        put_rows(plan, 1, t, 0, 1);
}

static void halves_overlap(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    if (is_tensor(t, "b")) {
        put_rows(plan, 0, t, 0, 3);
        put_rows(plan, 1, t, 2, 2);
    } else {
        halves(plan, t);
    }
}

/* The first half as it should be, the second under another shape, dtype or task. */
static void second_as(sheaf_shard_plan *plan, const sheaf_shardable *t, sheaf_tensor *tensor,
                      const char *device)
{
    put_rows(plan, 0, t, 0, 1);
    sheaf_shard_put_as(plan, 1, sheaf_shardable_key(t), "2 3 1,1:0,3", tensor, device);
}

static void half_reshaped(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    second_as(plan, t, sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(3)), NULL);
}

static void half_of_other_dtype(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    second_as(plan, t, sheaf_zeros(SHEAF_FLOAT64, SHEAF_SHAPE(1, 3)), NULL);
}

static void half_of_other_task(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    second_as(plan, t, sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(1, 3)),
              "/job:ps/task:1/device:CPU:0");
}

static void halves_of_two_tasks(sheaf_shard_plan *plan, const sheaf_shardable *t)
{
    halves(plan, t);
    if (is_tensor(t, "b"))
        sheaf_shard_put_as(plan, 1, "c/.ATTRIBUTES/VARIABLE_VALUE", "4 0,2",
                           sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(2)), NULL);
}

static void judge_slices(void)
{
    sheaf_variable *a =
        sheaf_variable_new("a", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3)), NULL);
    sheaf_variable *c = sheaf_variable_new("c", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(4)), NULL);
    sheaf_variable *b = sheaf_variable_new("b", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(4)), NULL);
    sheaf_variable *const ab[] = {a, b}, *const bc[] = {b, c};
    judge("halves", halves, ab, 2, (const char *const[]){NULL});
    judge("half removed", half_removed, ab, 2, (const char *const[]){"b", "2 of its 4", NULL});
    judge("half added", half_added, ab, 1, (const char *const[]){"a", "2 3 2,1:0,3", NULL});
    judge("half twice", half_twice, ab, 2, (const char *const[]){"a", "2 3 0,1:0,3", NULL});
    judge("halves overlap", halves_overlap, ab, 2, (const char *const[]){"b", "4 2,2", NULL});
    judge("half reshaped", half_reshaped, ab, 1,
          (const char *const[]){"a", "2 3 1,1:0,3", "(1, 3)", "(3,)", NULL});
    judge("half of other dtype", half_of_other_dtype, ab, 1,
          (const char *const[]){"a", "2 3 1,1:0,3", "float32", "float64", NULL});
    judge("half of other task", half_of_other_task, ab, 1,
          (const char *const[]){"a", "2 3 1,1:0,3", "0", "1", NULL});
    judge("halves of two tasks", halves_of_two_tasks, bc, 2,
          (const char *const[]){"c", "4 0,2", "0", "1", NULL});
    sheaf_variable_free(a);
    sheaf_variable_free(b);
    sheaf_variable_free(c);
}

static int task(int argc, char **argv)
{
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    const bool slices = argument(argc, argv, 1, 0);
    must(sheaf_cluster_resolve(NULL, &cluster, &err));
    if (sheaf_cluster_is(cluster, "ps")) {
        must(sheaf_server_run(cluster, NULL, &err));
    } else {
        must(sheaf_strategy_new("ParameterServerStrategy", cluster, NULL, &s, &err));
        SHEAF_SCOPE(s)
        {
            if (slices)
                judge_slices();
            else
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
