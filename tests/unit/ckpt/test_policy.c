/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "base/random.h"
#include "ckpt/plan.h"

/* Sharding callbacks: what they see, what they may do, what is refused (S200-S214). */

#define PS_0  FAKE_DEVICE("ps", "0")
#define PS_1  FAKE_DEVICE("ps", "1")
#define CHIEF FAKE_DEVICE("chief", "0")

/* A coordinator and two parameter servers: a on ps 0, b on ps 1, c on ps 0's second device, own of
 * the coordinator; a partitioned table over both. */
struct cluster {
    struct fake_group *group;
    struct fake *a, *b, *c, *own, *table, *root;
};

static struct cluster make_cluster(void)
{
    struct cluster k = {fake_group_new(CHIEF),           fake_new(), fake_new(), fake_new(),
                        fake_floats(SHEAF_SHAPE(2), 50), fake_new(), fake_new()};
    float data[20];
    for (int i = 0; i < 20; i++)
        data[i] = (float)i;
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), data);
    fake_hold(k.group, k.a, PS_0, t, 0, 2);
    fake_hold(k.group, k.b, PS_1, t, 0, 2);
    fake_hold(k.group, k.c, "/job:ps/replica:0/task:0/device:CPU:1", t, 0, 2);
    sheaf_tensor *whole = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(10, 2), data);
    fake_hold(k.group, k.table, PS_0, whole, 0, 6);
    fake_hold(k.group, k.table, PS_1, whole, 6, 4);
    fake_add_child(k.root, "a", k.a);
    fake_add_child(k.root, "b", k.b);
    fake_add_child(k.root, "c", k.c);
    fake_add_child(k.root, "own", k.own);
    fake_add_child(k.root, "table", k.table);
    return k;
}

static void free_cluster(struct cluster *k)
{
    fake_free(k->a);
    fake_free(k->b);
    fake_free(k->c);
    fake_free(k->own);
    fake_free(k->table);
    fake_free(k->root);
    fake_group_free(k->group);
}

#define VALUE "/.ATTRIBUTES/VARIABLE_VALUE"

static sheaf_status save(struct cluster *k, const char *name,
                         const sheaf_sharding_callback *callback, sheaf_error *err)
{
    bool skipped;
    sheaf_checkpoint_options options = {.sharding = callback};
    struct sheaf__ckpt_save save = {
        .root = &k->root->trackable, .path = rig_path(name), .options = &options, .writes = true};
    return sheaf__ckpt_save(&save, &skipped, err);
}

static size_t count_files(const char *part)
{
    struct sheaf__strings names = {0};
    size_t count = 0;
    sheaf_error err;
    rig_ok(sheaf__file_list(rig_folder(), &names, &err), &err);
    for (size_t i = 0; i < names.count; i++)
        count += strstr(names.items[i], part) != NULL;
    sheaf__strings_clear(&names);
    return count;
}

/* A callback that notes what it is called with, and puts everything in one shard (document C's
 * AllInOnePolicy). */
struct notes {
    int calls;
    char text[4096];
    int custom_param;
};

static sheaf_status all_in_one(sheaf_shardable *const *tensors, size_t count,
                               sheaf_shard_plan *plan, void *user)
{
    struct notes *notes = user;
    notes->calls++;
    size_t at = strlen(notes->text);
    for (size_t i = 0; i < count; i++) {
        char shape[64];
        sheaf_shape_format(sheaf_shardable_shape(tensors[i]), shape, sizeof(shape));
        at += (size_t)snprintf(
            notes->text + at, sizeof(notes->text) - at, "%d %s %s %s [%s] %s\n", notes->calls,
            sheaf_shardable_key(tensors[i]), sheaf_dtype_name(sheaf_shardable_dtype(tensors[i])),
            shape, sheaf_shardable_slice_spec(tensors[i]), sheaf_shardable_device(tensors[i]));
        sheaf_shard_put(plan, 0, tensors[i]);
    }
    return SHEAF_OK;
}

/* S200-S202, S208-S212: once a task and save; fields; devices of one task are one group; the user's
 * pointer; one file a task. */
static void s202_called_once_a_task(void **state)
{
    (void)state;
    struct cluster k = make_cluster();
    struct notes notes = {.custom_param = 5};
    sheaf_sharding_callback callback = {all_in_one, "All in one", &notes};
    sheaf_error err;
    rig_ok(save(&k, "x", &callback, &err), &err);
    assert_int_equal(notes.calls, 3);
    assert_string_equal(
        notes.text, "1 a" VALUE " float32 (2, 3) [] " PS_0 "\n"
                    "1 c" VALUE " float32 (2, 3) [] /job:ps/replica:0/task:0/device:CPU:1\n"
                    "1 table" VALUE " float32 (6, 2) [10 2 0,6:0,2] " PS_0 "\n"
                    "2 b" VALUE " float32 (2, 3) [] " PS_1 "\n"
                    "2 table" VALUE " float32 (4, 2) [10 2 6,4:0,2] " PS_1 "\n"
                    "3 own" VALUE " float32 (2,) [] /job:localhost/replica:0/task:0/device:CPU:0\n"
                    "3 _CHECKPOINTABLE_OBJECT_GRAPH string () [] "
                    "/job:localhost/replica:0/task:0/device:CPU:0\n");
    assert_int_equal(count_files(".data-"), 3);
    assert_int_equal(k.group->writes, 2);
    assert_int_equal(k.group->proofs, 2);
    assert_int_equal(k.group->fetches, 0); /* nobody asked for a value */
    assert_int_equal(count_files("_temp"), 0);

    /* S211: the description stands beside it and is seen by the reader, and in errors of restore. */
    sheaf_bundle *b = NULL;
    rig_ok(sheaf_bundle_open(rig_path("x"), &b, &err), &err);
    assert_string_equal(sheaf_bundle_description(b), "All in one");
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    sheaf_bundle_free(b);
    rig_ok(save(&k, "y", NULL, &err), &err);
    struct fake *other = fake_floats(SHEAF_SHAPE(3), 0);
    fake_add_child(k.root, "other", other);
    rig_fails(fake_restore(&k.root->trackable, rig_path("x"), &err), &err, SHEAF_ERR_NOT_FOUND,
              "the checkpoint has no value for object 'other' (VARIABLE_VALUE) "
              "(saved with sharding 'All in one')");
    /* That of one who has not asked for any explains nothing. */
    rig_fails(fake_restore(&k.root->trackable, rig_path("y"), &err), &err, SHEAF_ERR_NOT_FOUND,
              "no value for object 'other'");
    assert_null(strstr(err.message, "sharding"));
    fake_free(other);
    free_cluster(&k);
}

/* S208: one task, one file. */
static void s208_one_task_one_file(void **state)
{
    (void)state;
    struct fake *root = fake_new(), *w = fake_floats(SHEAF_SHAPE(4, 3), 0);
    struct notes notes = {0};
    sheaf_sharding_callback callback = {all_in_one, "All in one", &notes};
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_error err;
    const char *path = NULL;
    sheaf_checkpoint_add(c, "w", &w->trackable);
    rig_ok(sheaf_checkpoint_save(c, rig_path("path"),
                                 &(sheaf_checkpoint_options){.sharding = &callback}, &path, &err),
           &err);
    assert_string_equal(path, rig_path("path-1"));
    assert_int_equal(notes.calls, 1);
    assert_int_equal(count_files(".data-00000-of-00001"), 1);
    assert_int_equal(count_files(".data-"), 1);
    sheaf_checkpoint_free(c);
    fake_free(w);
    fake_free(root);
}

/* S209: a shardable's value, fetched if it is another task's. */
static sheaf_status look_at_values(sheaf_shardable *const *tensors, size_t count,
                                   sheaf_shard_plan *plan, void *user)
{
    double *sum = user;
    for (size_t i = 0; i < count; i++) {
        if (sheaf_shardable_dtype(tensors[i]) == SHEAF_FLOAT32)
            *sum += sheaf_tensor_number(sheaf_shardable_tensor(tensors[i]), 1);
        sheaf_shard_put_as(plan, (int)i, sheaf_shardable_key(tensors[i]),
                           sheaf_shardable_slice_spec(tensors[i]),
                           sheaf_shardable_tensor(tensors[i]), sheaf_shardable_device(tensors[i]));
    }
    return SHEAF_OK;
}

static void s209_values_can_be_seen(void **state)
{
    (void)state;
    struct cluster k = make_cluster();
    double sum = 0;
    sheaf_sharding_callback callback = {look_at_values, "Looks", &sum};
    sheaf_error err;
    rig_ok(save(&k, "x", &callback, &err), &err);
    assert_true(sum == 1 + 1 + 1 + (1 + 13) + 51);
    assert_int_equal(count_files(".data-"), 7);
    free_cluster(&k);
}

/* S213: a callback without its function, or without a description. */
static void s213_callback_is_checked(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_sharding_callback none = {NULL, "x", NULL}, silent = {all_in_one, NULL, NULL};
    rig_fails(sheaf_sharding_callback_check(&none, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "without its function");
    rig_fails(sheaf_sharding_callback_check(&silent, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "without its description");
    rig_ok(sheaf_sharding_callback_check(sheaf_shard_by_task(), &err), &err);
    rig_ok(sheaf_sharding_callback_check(NULL, &err), &err);
    assert_string_equal(sheaf_shard_by_task()->description,
                        "Split tensors into shards based on their device spec task.");
    struct cluster k = make_cluster();
    rig_fails(save(&k, "x", &none, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "without its function");
    free_cluster(&k);
}

/* Breaking the promises. Each rule puts everything as it is but for what `fault` says. */

enum fault {
    DROP,
    RESHAPE,
    RETYPE,
    OTHER_TASK,
    MIX_TASKS,
    TWICE,
    UNKNOWN_KEY,
    FAIL,
    EMPTY_TENSOR,
    NEGATIVE,
    GAP,
    OVERLAP,
    STRANGE_SLICE
};

struct breaking {
    enum fault fault;
    const sheaf_shardable *kept;
    sheaf_dtype dtype;
    char key[64], device[80];
};

static void put_slices(sheaf_shard_plan *plan, const sheaf_shardable *t, const char *first,
                       const char *second, int64_t rows)
{
    sheaf_tensor *whole = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1, 3), NULL);
    sheaf_tensor *other = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(rows, 3), NULL);
    sheaf_shard_put_as(plan, 0, sheaf_shardable_key(t), first, whole, NULL);
    if (second)
        sheaf_shard_put_as(plan, 0, sheaf_shardable_key(t), second, other, NULL);
}

static sheaf_status break_it(sheaf_shardable *const *tensors, size_t count, sheaf_shard_plan *plan,
                             void *user)
{
    struct breaking *b = user;
    const char *key = sheaf_shardable_key(tensors[0]);
    const char *device = sheaf_shardable_device(tensors[0]);
    for (size_t i = 1; i < count; i++)
        sheaf_shard_put(plan, 0, tensors[i]);
    sheaf_tensor *zeros = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), NULL);
    if (strcmp(key, "a" VALUE) != 0) { /* only ps 0's are broken */
        sheaf_shard_put(plan, 0, tensors[0]);
        if (b->fault == MIX_TASKS)
            sheaf_shard_put_as(plan, 0, b->key, "", zeros, b->device);
        return SHEAF_OK;
    }
    snprintf(b->key, sizeof(b->key), "%s", key);
    snprintf(b->device, sizeof(b->device), "%s", device);
    switch (b->fault) {
    case DROP:
        break;
    case RESHAPE:
        sheaf_shard_put_as(plan, 0, key, "",
                           sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3, 2), NULL), device);
        break;
    case RETYPE:
        sheaf_shard_put_as(plan, 0, key, "",
                           sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SHAPE(2, 3), NULL), device);
        break;
    case OTHER_TASK:
        sheaf_shard_put_as(plan, 0, key, "", zeros, PS_1);
        break;
    case TWICE:
        sheaf_shard_put(plan, 0, tensors[0]);
        sheaf_shard_put(plan, 1, tensors[0]);
        break;
    case UNKNOWN_KEY:
        sheaf_shard_put(plan, 0, tensors[0]);
        sheaf_shard_put_as(plan, 0, "new", "", zeros, device);
        break;
    case FAIL:
        return sheaf_error_set(NULL, SHEAF_ERR_ABORTED, "my error");
    case EMPTY_TENSOR:
        sheaf_shard_put_as(plan, 0, key, "", NULL, device);
        break;
    case NEGATIVE:
        sheaf_shard_put(plan, -1, tensors[0]);
        break;
    case GAP:
        put_slices(plan, tensors[0], "2 3 0,1:0,3", NULL, 0);
        break;
    case OVERLAP:
        put_slices(plan, tensors[0], "2 3 0,1:0,3", "2 3 0,2:0,3", 2);
        break;
    case STRANGE_SLICE:
        put_slices(plan, tensors[0], "2 4 0,1:0,3", NULL, 0);
        break;
    case MIX_TASKS:
        sheaf_shard_put(plan, 0, tensors[0]);
        break;
    }
    return SHEAF_OK;
}

/* S203-S207: what is broken is named with key, slice, description and both sides; and no file of the
 * new checkpoint is there. */
static void s203_to_s207_promises(void **state)
{
    (void)state;
    static const struct {
        enum fault fault;
        const char *parts[4];
    } cases[] = {
        {DROP, {"tensors in the object graph were not found in the checkpoint shards"}},
        {RESHAPE,
         {"a tensor was found with an altered shape", "original tensor_shape: (2, 3)",
          "new tensor_shape: (3, 2)"}},
        {RETYPE,
         {"a tensor was found with an altered dtype", "original tensor_dtype: float32",
          "new tensor_dtype: float64"}},
        {OTHER_TASK,
         {"a tensor was found with an altered task",
          "original tensor_task: /job:ps/replica:0/task:0",
          "new tensor_task: /job:ps/replica:0/task:1"}},
        {MIX_TASKS,
         {"tensors with different tasks were found in the same shard",
          "task: /job:ps/replica:0/task:0", "tensors of task: /job:ps/replica:0/task:1"}},
        {TWICE, {"multiple tensors with the same checkpoint key and slice spec were found"}},
        {UNKNOWN_KEY,
         {"a tensor not originally in the object graph was found in the checkpoint shards",
          "checkpoint_key: new"}},
        {EMPTY_TENSOR, {"a tensor that holds an error was put into a shard"}},
        {NEGATIVE, {"a tensor was put into a shard of negative number"}},
        {GAP, {"have 3 of its 6 elements"}},
        {OVERLAP, {"slices that overlap were found"}},
        {STRANGE_SLICE, {"a slice was found that no tensor of this key has"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster k = make_cluster();
        struct breaking b = {.fault = cases[i].fault};
        sheaf_sharding_callback callback = {break_it, "Breaks its promises", &b};
        sheaf_error err;
        sheaf_status status = save(&k, "x", &callback, &err);
        assert_int_equal(status, SHEAF_ERR_FAILED_PRECONDITION);
        for (int n = 0; n < 4 && cases[i].parts[n]; n++) {
            if (!strstr(err.message, cases[i].parts[n]))
                fail_msg("'%s' does not say '%s'", err.message, cases[i].parts[n]);
        }
        assert_non_null(strstr(err.message, "callback_description: Breaks its promises"));
        assert_non_null(strstr(err.message, "checkpoint_key: "));
        assert_non_null(strstr(err.message, "slice_spec: "));
        assert_int_equal(count_files("x"), 0);
        free_cluster(&k);
    }
    struct cluster k = make_cluster();
    struct breaking b = {.fault = FAIL};
    sheaf_sharding_callback callback = {break_it, "Breaks its promises", &b};
    sheaf_error err;
    rig_fails(save(&k, "x", &callback, &err), &err, SHEAF_ERR_ABORTED,
              "sharding callback 'Breaks its promises' failed: my error");
    free_cluster(&k);
}

/* A task that does not see the directory, or cannot write: nothing is left, and nothing held. */
static void other_tasks_fail(void **state)
{
    (void)state;
    struct cluster k = make_cluster();
    sheaf_error err;
    k.group->blind = PS_1;
    rig_fails(save(&k, "x", NULL, &err), &err, SHEAF_ERR_FAILED_PRECONDITION, "does not see");
    assert_int_equal(k.group->writes, 0);
    assert_int_equal(k.group->drops, 1);
    assert_int_equal(count_files("x"), 0);
    k.group->blind = NULL;
    k.group->broken = PS_1;
    rig_fails(save(&k, "x", NULL, &err), &err, SHEAF_ERR_IO, "cannot write");
    assert_int_equal(k.group->drops, 1);
    assert_null(k.group->cut);
    assert_int_equal(count_files("x"), 0);
    free_cluster(&k);
}

/* What the tasks note is kept beside the checkpoint and comes back to the same tasks. */
static void notes_come_back(void **state)
{
    (void)state;
    struct cluster k = make_cluster();
    sheaf_error err;
    rig_ok(save(&k, "x", NULL, &err), &err);
    SHEAF_FRAME
    {
        rig_ok(fake_restore(&k.root->trackable, rig_path("x"), &err), &err);
        assert_int_equal(k.group->reads, 2);
        assert_int_equal(k.group->settles, 1);
    }
    struct sheaf__sidecar s;
    rig_ok(sheaf__sidecar_read(rig_path("x"), 0, &s, &err), &err);
    assert_null(s.description); /* it belongs to another index */
    sheaf_bundle *b = NULL;
    rig_ok(sheaf_bundle_open(rig_path("x"), &b, &err), &err);
    assert_string_equal(sheaf__sidecar_note(&b->sidecar, "/job:ps/replica:0/task:1"),
                        "pushes of " PS_1);
    assert_null(sheaf__sidecar_note(&b->sidecar, "/job:ps/replica:0/task:2"));
    sheaf_bundle_free(b);
    free_cluster(&k);
}

/* S214: any policy, any number of tasks and parts, read into any other. */

static struct sheaf__philox dice;

static uint64_t roll(uint64_t n)
{
    return sheaf__philox_below(&dice, n);
}

/* Puts tensors, and random slices of them, anywhere. */
static sheaf_status random_policy(sheaf_shardable *const *tensors, size_t count,
                                  sheaf_shard_plan *plan, void *user)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        const sheaf_shardable *t = tensors[i];
        sheaf_shape shape = sheaf_shardable_shape(t), full = t->slice.full;
        if (full.rank != 2 || shape.dims[0] == 0 || roll(3) == 0) {
            sheaf_shard_put(plan, (int)roll(4) * 7, t);
            continue;
        }
        int64_t rows = 0;
        while (rows < shape.dims[0]) {
            int64_t more = 1 + (int64_t)roll((uint64_t)(shape.dims[0] - rows));
            char spec[96];
            snprintf(spec, sizeof(spec), "%d %d %d,%d:0,%d", (int)full.dims[0], (int)full.dims[1],
                     (int)(t->slice.offset[0] + rows), (int)more, (int)full.dims[1]);
            sheaf_tensor *part =
                sheaf_tensor_new(sheaf_shardable_dtype(t), SHEAF_SHAPE(more, full.dims[1]), NULL);
            sheaf_shard_put_as(plan, (int)roll(5), sheaf_shardable_key(t), spec, part, NULL);
            rows += more;
        }
    }
    return SHEAF_OK;
}

enum { TABLES = 4, MOST_TASKS = 5 };

struct world {
    struct fake_group *group;
    struct fake *root, *tables[TABLES], *scalar, *words;
    char devices[MOST_TASKS][64];
};

/* The tables are cut into parts over some tasks; values NULL: zeros. */
static void make_world(struct world *w, sheaf_tensor *const *values, const int64_t *rows)
{
    int tasks = 1 + (int)roll(MOST_TASKS);
    w->group = fake_group_new(roll(2) ? "/job:chief/replica:0/task:0/device:CPU:0" : NULL);
    w->root = fake_new();
    for (int i = 0; i < MOST_TASKS; i++)
        snprintf(w->devices[i], sizeof(w->devices[i]), "/job:ps/replica:0/task:%d/device:CPU:0", i);
    static const char *const names[TABLES] = {"t0", "t1", "t2", "t3"};
    for (int i = 0; i < TABLES; i++) {
        w->tables[i] = fake_new();
        fake_add_child(w->root, names[i], w->tables[i]);
        sheaf_tensor *whole = values[i];
        int64_t parts = 1 + (int64_t)roll(7), first = 0;
        for (int64_t p = 0; p < parts; p++) {
            int64_t end = rows[i] * (p + 1) / parts;
            fake_hold(w->group, w->tables[i], w->devices[roll((uint64_t)tasks)], whole, first,
                      end - first);
            first = end;
        }
    }
    w->scalar = fake_new();
    fake_hold(w->group, w->scalar, w->devices[0], values[TABLES], 0, 0);
    w->words = fake_new();
    fake_add(w->words, values[TABLES + 1]);
    fake_add_child(w->root, "scalar", w->scalar);
    fake_add_child(w->root, "words", w->words);
}

static void free_world(struct world *w)
{
    for (int i = 0; i < TABLES; i++)
        fake_free(w->tables[i]);
    fake_free(w->scalar);
    fake_free(w->words);
    fake_free(w->root);
    fake_group_free(w->group);
}

/* The bytes of table `i`, wherever its parts are. */
static void join(const struct world *w, int i, uint8_t *out)
{
    const struct fake *f = w->tables[i];
    for (size_t p = 0; p < f->count; p++) {
        const struct sheaf__saveable *s = &f->saveables[p];
        bool here = fake_group_is_local(&w->group->group, s->device);
        const sheaf_tensor *t = here ? f->values[p] : w->group->held[s->handle].value;
        size_t size = (size_t)sheaf_tensor_elements(t) * sheaf_dtype_size(s->dtype);
        if (size)
            memcpy(out, sheaf_tensor_data(t), size);
        out += size;
    }
}

static void s214_any_cut_to_any_other(void **state)
{
    (void)state;
    static const sheaf_dtype dtypes[TABLES] = {SHEAF_FLOAT32, SHEAF_FLOAT16, SHEAF_INT64,
                                               SHEAF_UINT8};
    sheaf__philox_init(&dice, 20, 0);
    for (int round = 0; round < 60; round++) {
        SHEAF_FRAME
        {
            struct world from, to;
            sheaf_tensor *values[TABLES + 2], *zeros[TABLES + 2];
            int64_t rows[TABLES];
            uint8_t bytes[4096];
            for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)roll(256);
            for (int i = 0; i < TABLES; i++) {
                rows[i] = (int64_t)roll(20);
                sheaf_shape shape = SHEAF_SHAPE(rows[i], 1 + (int64_t)roll(5));
                values[i] = sheaf_tensor_new(dtypes[i], shape, bytes + 8 * roll(100));
                zeros[i] = sheaf_tensor_new(dtypes[i], shape, NULL);
            }
            values[TABLES] = sheaf_double(0.25);
            zeros[TABLES] = sheaf_double(0);
            sheaf_bytes words[] = {{"", 0}, {"one", 3}, {(const char *)bytes, 64}};
            values[TABLES + 1] = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), words);
            zeros[TABLES + 1] = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), NULL);
            make_world(&from, values, rows);
            make_world(&to, zeros, rows);

            sheaf_error err;
            bool skipped;
            struct notes notes = {0};
            sheaf_sharding_callback callbacks[] = {
                {random_policy, "Random", NULL},
                {all_in_one, "All in one", &notes},
                sheaf_shard_max_size(64 + (int64_t)roll(400)), /* more than any element */
                sheaf_shard_round_robin(1 + (int)roll(4)),
            };
            sheaf_checkpoint_options options = {.sharding = roll(5) ? &callbacks[roll(4)] : NULL};
            struct sheaf__ckpt_save save = {.root = &from.root->trackable,
                                            .path = rig_path("x"),
                                            .options = &options,
                                            .writes = true};
            rig_ok(sheaf__ckpt_save(&save, &skipped, &err), &err);
            rig_ok(fake_restore(&to.root->trackable, rig_path("x"), &err), &err);
            for (int i = 0; i < TABLES; i++) {
                uint8_t a[4096] = {0}, b[4096] = {0};
                join(&from, i, a);
                join(&to, i, b);
                assert_memory_equal(a, b, sizeof(a));
            }
            assert_true(fake_equal(to.words->values[0], values[TABLES + 1]));
            sheaf_bundle *b = NULL;
            rig_ok(sheaf_bundle_open(rig_path("x"), &b, &err), &err);
            rig_ok(sheaf_bundle_verify(b, &err), &err);
            sheaf_bundle_free(b);
            free_world(&from);
            free_world(&to);
        }
    }
}

/* NULL is an error of the call that gets it. */
static sheaf_status give_nothing(sheaf_shardable *const *tensors, size_t count,
                                 sheaf_shard_plan *plan, void *user)
{
    (void)user;
    (void)count;
    assert_string_equal(sheaf_shardable_key(NULL), "");
    assert_string_equal(sheaf_shardable_slice_spec(NULL), "");
    assert_null(sheaf_shardable_device(NULL));
    assert_int_equal(sheaf_shardable_dtype(NULL), SHEAF_INVALID_DTYPE);
    assert_int_equal(sheaf_shardable_shape(NULL).rank, 0);
    assert_true(sheaf_tensor_status(sheaf_shardable_tensor(NULL), NULL) < 0);
    sheaf_shard_put(NULL, 0, tensors[0]);
    sheaf_shard_put(plan, 0, NULL);
    return SHEAF_OK;
}

static void nothing_is_an_error(void **state)
{
    (void)state;
    const sheaf_sharding_callback callback = {give_nothing, "Gives nothing", NULL};
    struct cluster k = make_cluster();
    sheaf_error err;
    rig_fails(save(&k, "nothing", &callback, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "Gives nothing");
    assert_int_equal(count_files("nothing"), 0);
    free_cluster(&k);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(nothing_is_an_error),       rig_test(s202_called_once_a_task),
        rig_test(s208_one_task_one_file),    rig_test(s209_values_can_be_seen),
        rig_test(s213_callback_is_checked),  rig_test(s203_to_s207_promises),
        rig_test(other_tasks_fail),          rig_test(notes_come_back),
        rig_test(s214_any_cut_to_any_other),
    };
    return rig_run(tests);
}
