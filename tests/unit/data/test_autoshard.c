/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/mem.h"
#include "data/rewrite.h"

/* What each worker sees (tf-semantics 2, 1.5, 1.6; R11.1) against TensorFlow. */

static sheaf_status number(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_tensor *t = sheaf_element_get(in, NULL);
    int64_t values[64], n = sheaf_tensor_elements(t);
    (void)user;
    for (int64_t i = 0; i < n; i++) {
        sheaf_bytes b = sheaf_tensor_bytes(t, i);
        char digits[32];
        snprintf(digits, sizeof(digits), "%.*s", (int)b.size, b.data);
        values[i] = strtoll(digits, NULL, 10);
    }
    return sheaf_element_put(out, "", sheaf_tensor_new(SHEAF_INT64, sheaf_tensor_shape(t), values));
}
static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}
static sheaf_status second(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, "1"));
}
/* A reader that the library cannot see from outside. */
static sheaf_dataset *open_own(const sheaf_element *in, void *user)
{
    return sheaf_dataset_take(sheaf_open_tfrecord(in, user), -1);
}

static sheaf_dataset *mapped(sheaf_dataset *d, sheaf_map_fn fn, sheaf_shape shape)
{
    SHEAF_FRAME
    {
        const sheaf_map_options o = {.spec = spec_of(SHEAF_INT64, shape)};
        d = sheaf_dataset_map(d, fn, NULL, &o);
    }
    return d;
}

static sheaf_dataset *names_of(const json_t *files)
{
    sheaf_bytes names[16];
    char paths[16][512];
    size_t n = json_array_size(files);
    sheaf_dataset *d = NULL;
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof(name), "input/tfrecord/%s.tfrecord",
                 json_string_value(json_array_get(files, i)));
        snprintf(paths[i], sizeof(paths[i]), "%s", rig_golden(name));
        names[i] = (sheaf_bytes){paths[i], strlen(paths[i])};
    }
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE((int64_t)n), names)));
    return d;
}

static sheaf_dataset *listed(const json_t *files)
{
    const char *paths[16];
    for (size_t i = 0; i < json_array_size(files); i++) {
        char name[64];
        snprintf(name, sizeof(name), "input/tfrecord/%s.tfrecord",
                 json_string_value(json_array_get(files, i)));
        paths[i] = rig_golden(name);
    }
    return sheaf_tfrecord_files(paths, json_array_size(files));
}

static sheaf_dataset *source(const json_t *c, sheaf_open_fn open)
{
    const json_t *files = json_object_get(c, "files");
    const char *kind = text_at(c, "source");
    const sheaf_interleave_options two = {.cycle_length = 2},
                                   reads = {.cycle_length = 2, .parallel = 2};
    const sheaf_shuffle_options three = {.seed = 3, .no_reshuffle = true};
    if (strcmp(kind, "range") == 0)
        return sheaf_dataset_range(0, number_at(c, "n", 0), 1);
    if (strcmp(kind, "list") == 0)
        return listed(files);
    if (strcmp(kind, "list, 2 parallel reads") == 0)
        return sheaf_dataset_interleave(names_of(files), open, NULL, &reads);
    if (strcmp(kind, "names.interleave(2, 1)") == 0)
        return sheaf_dataset_interleave(names_of(files), open, NULL, &two);
    if (strcmp(kind, "names.flat_map") == 0)
        return sheaf_dataset_flat_map(names_of(files), open, NULL);
    if (strcmp(kind, "names.repeat(2).flat_map") == 0)
        return sheaf_dataset_flat_map(sheaf_dataset_repeat(names_of(files), 2), open, NULL);
    assert_string_equal(kind, "names.shuffle(8, seed 3, no reshuffle).flat_map");
    return sheaf_dataset_flat_map(sheaf_dataset_shuffle(names_of(files), 8, &three), open, NULL);
}

static sheaf_autoshard policy_of(const char *name)
{
    static const char *const names[] = {"OFF", "AUTO", "FILE", "DATA", "HINT"};
    for (int i = 0; i < 5; i++)
        if (strcmp(name, names[i]) == 0)
            return (sheaf_autoshard)(i - 1);
    fail_msg("policy %s", name);
    return SHEAF_AUTOSHARD_OFF;
}

/* The pipeline before it is distributed. */
static sheaf_dataset *pipeline(const json_t *c, sheaf_open_fn open)
{
    const char *tail = text_at(c, "after");
    bool files = strcmp(text_at(c, "source"), "range") != 0;
    bool late = json_is_true(json_object_get(c, "map_after_batch"));
    sheaf_dataset *d = source(c, open);
    if (files && !late)
        d = mapped(d, number, SHEAF_SCALAR);
    if (strcmp(tail, "repeat(2) before batch") == 0)
        d = sheaf_dataset_repeat(d, 2);
    const sheaf_batch_options o = {.drop_remainder = strcmp(tail, "drop_remainder") == 0};
    if (number_at(c, "batch", 0) > 0)
        d = sheaf_dataset_batch(d, number_at(c, "batch", 0), &o);
    if (late)
        d = mapped(d, files ? number : same, SHEAF_SHAPE(-1));
    if (strcmp(tail, "enumerate, first of pair") == 0)
        d = mapped(sheaf_dataset_enumerate(d, 0), second, SHEAF_SHAPE(-1));
    const sheaf_dataset_options options = {.autoshard = policy_of(text_at(c, "policy"))};
    return sheaf_dataset_with_options(d, &options);
}

/* Where TensorFlow fails on one worker because there are too few files, we do on all (S128). */
static bool too_few(const json_t *c)
{
    const json_t *all = json_object_get(c, "elements");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strstr(text_at(json_array_get(all, i), "text"), "Could not apply FILE"))
            return true;
    return false;
}

static json_t *worker_elements(const json_t *c, int worker, sheaf_open_fn open)
{
    struct sheaf__split split = {.workers = (int)number_at(c, "workers", 1),
                                 .worker = worker,
                                 .replicas = (int)number_at(c, "replicas_per_worker", 1)};
    struct sheaf__split_dataset out;
    sheaf_error err = {0};
    sheaf_set_seed(1);
    sheaf_dataset *d = pipeline(c, open);
    sheaf_status status = sheaf__split_make(d, &split, &out, &err);
    sheaf_dataset_free(d);
    rig_log_take(); /* fallbacks are logged; see test_fallback_is_logged */
    if (status < 0)
        return status_json(status);
    json_t *found = elements(out.dataset);
    sheaf__split_free(&out);
    return found;
}

static void check_case(json_t *c, size_t number_of_case, sheaf_open_fn open)
{
    json_t *all = json_object_get(c, "elements"), *expected;
    size_t w;
    bool few = too_few(c);
    json_array_foreach(all, w, expected)
    {
        char what[160];
        snprintf(what, sizeof(what), "case %zu (%s, %s), worker %zu", number_of_case,
                 text_at(c, "source"), text_at(c, "policy"), w);
        if (few)
            expected = json_array_get(all, 0);
        json_t *found = worker_elements(c, (int)w, open);
        if (json_is_object(expected)) {
            assert_string_equal(
                text_at(json_is_array(found) ? json_array_get(found, 0) : found, "status"),
                text_at(expected, "status"));
            json_decref(found);
            continue;
        }
        assert_json(found, expected, what);
    }
}

/* T1.31-T1.41, T2.1 and all else that TensorFlow was asked; S46, S50, S130-S134. */
static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("autoshard.json"), *c;
    size_t i, skipped = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        /* auto-shard alone, without rebatching, is not what a strategy does */
        if (!json_is_integer(json_object_get(c, "batch")) && number_at(c, "workers", 1) > 1) {
            skipped++;
            continue;
        }
        check_case(c, i, sheaf_open_tfrecord);
    }
    assert_true(skipped < 20);
    json_decref(root);
}

/* S46: a reader inside a function of the program is found, too. */
static void test_reader_in_a_function_of_the_program(void **state)
{
    (void)state;
    json_t *root = golden_load("autoshard.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i,
                       c) if (strncmp(text_at(c, "source"), "names.", 6) == 0 &&
                              json_is_integer(json_object_get(c, "batch")))
        check_case(c, i, open_own);
    json_decref(root);
}

/* R2.24, R2.25. */
static void test_golden_hint(void **state)
{
    (void)state;
    json_t *root = golden_load("autoshard.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "hint"), i, c)
    {
        for (int w = 0; w < number_at(c, "workers", 1); w++) {
            struct sheaf__split split = {.workers = (int)number_at(c, "workers", 1), .worker = w};
            struct sheaf__split_dataset out;
            sheaf_error err = {0};
            sheaf_dataset *d = sheaf_dataset_range(0, number_at(c, "n", 0), 1);
            d = sheaf_dataset_shard(d, SHEAF_SHARD_HINT, SHEAF_SHARD_HINT);
            d = sheaf_dataset_batch(d, 1, NULL);
            const sheaf_dataset_options o = {.autoshard = SHEAF_AUTOSHARD_HINT,
                                             .rebatch = SHEAF_REBATCH_LEGACY};
            d = sheaf_dataset_with_options(d, &o);
            rig_ok(sheaf__split_make(d, &split, &out, &err), &err);
            sheaf_dataset_free(d);
            /* Batches of one are cut into as many parts as there are replicas; the first has it. */
            d = sheaf_dataset_unbatch(sheaf_dataset_ref(out.dataset));
            const json_t *all = json_object_get(c, "elements");
            json_t *found = elements(d);
            if (too_few(c))
                assert_string_equal(text_at(json_array_get(found, 0), "status"), "InvalidArgument");
            else
                assert_true(same_json(found, json_array_get(all, (size_t)w)));
            json_decref(found);
            sheaf_dataset_free(d);
            sheaf__split_free(&out);
        }
    }
    json_decref(root);
    assert_first_fails(
        sheaf_dataset_shard(sheaf_dataset_range(0, 3, 1), SHEAF_SHARD_HINT, SHEAF_SHARD_HINT),
        SHEAF_ERR_FAILED_PRECONDITION, "the shard hint was not replaced");
}

/* R2.27. */
static void test_golden_shard(void **state)
{
    (void)state;
    json_t *root = golden_load("autoshard.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "shard"), i, c)
    {
        sheaf_dataset *d =
            sheaf_dataset_shard(sheaf_dataset_range(0, number_at(c, "n", 0), 1),
                                number_at(c, "num_shards", 0), number_at(c, "index", 0));
        if (json_object_get(c, "error")) {
            assert_first_fails(d, SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (shard)");
            continue;
        }
        assert_json(elements(d), json_object_get(c, "elements"), "shard");
        sheaf_dataset_free(d);
    }
    json_decref(root);
}

/* ---- what the rewriting says and does ---- */

static struct sheaf__split_dataset make(sheaf_dataset *d, int workers, int worker, int replicas)
{
    const struct sheaf__split split = {.workers = workers, .worker = worker, .replicas = replicas};
    struct sheaf__split_dataset out;
    sheaf_error err = {0};
    rig_ok(sheaf__split_make(d, &split, &out, &err), &err);
    sheaf_dataset_free(d);
    return out;
}

static void assert_pipeline(const sheaf_dataset *d, const char *expected)
{
    char *text = sheaf__dataset_explain(d);
    assert_string_equal(text, expected);
    sheaf__free(text);
}

/* R1.2, R2.19, R2.20, S127, S135. */
static void test_order_of_stages(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 4, NULL);
    struct sheaf__split_dataset out = make(sheaf_dataset_ref(d), 2, 1, 3);
    assert_pipeline(out.dataset, "range(0, 12, 1)\nbatch(4)\nsplit_batch(6)\nshard(2, 1)\n"
                                 "prefetch(3)\n");
    assert_int_equal(out.policy, SHEAF_AUTOSHARD_DATA);
    assert_int_equal(out.rebatch, SHEAF_REBATCH_LEGACY);
    assert_int_equal(out.batch_size, 4);
    assert_string_equal(
        out.why,
        "autoshard policy DATA (no file source): stage 1 (range) cannot be divided by files");
    sheaf__split_free(&out);
    const sheaf_dataset_options off = {.autoshard = SHEAF_AUTOSHARD_OFF};
    out = make(sheaf_dataset_with_options(sheaf_dataset_ref(d), &off), 2, 1, 3);
    assert_pipeline(out.dataset, "range(0, 12, 1)\nbatch(4)\nwith_options\n"
                                 "rebatch(1, 0, 0, 1, 1, 1)\nprefetch(3)\n");
    assert_string_equal(out.why, "autoshard policy OFF: as asked for");
    sheaf__split_free(&out);
    /* One replica: nothing is done. */
    out = make(d, 1, 0, 1);
    assert_pipeline(out.dataset, "range(0, 12, 1)\nbatch(4)\n");
    assert_int_equal(out.rebatch, SHEAF_REBATCH_AUTO);
    sheaf__split_free(&out);
    rig_log_take();
}

/* R2.7, S46: which sources are files to share among workers. */
static void test_readers(void **state)
{
    (void)state;
    const char *path = rig_golden("input/text/one.txt");
    const sheaf_fixed_records_options one = {.record_bytes = 1};
    sheaf_dataset *const readers[] = {sheaf_tfrecord(path), sheaf_text_lines(path, NULL),
                                      sheaf_fixed_records(path, &one)};
    static const sheaf_open_fn open[] = {sheaf_open_tfrecord, sheaf_open_text_lines,
                                         sheaf_open_fixed_records};
    for (size_t i = 0; i < 3; i++) {
        struct sheaf__split_dataset out = make(sheaf_dataset_batch(readers[i], 2, NULL), 2, 1, 1);
        assert_int_equal(out.policy, SHEAF_AUTOSHARD_FILE);
        sheaf__split_free(&out);
        sheaf_dataset *d = sheaf_dataset_flat_map(sheaf_list_files(path, NULL), open[i],
                                                  (void *)(uintptr_t)(i == 2 ? &one : NULL));
        out = make(sheaf_dataset_batch(d, 2, NULL), 2, 1, 1);
        assert_int_equal(out.policy, SHEAF_AUTOSHARD_FILE);
        sheaf__split_free(&out);
    }
}

/* R2.7: rows of CSV files are shared, not the files, as in TensorFlow. */
static void test_csv_is_no_reader(void **state)
{
    (void)state;
    const char *path = rig_golden("input/text/one.txt");
    const sheaf_csv_column column = {.dtype = SHEAF_STRING};
    const sheaf_csv_options options = {.columns = &column, .column_count = 1};
    struct sheaf__split_dataset out =
        make(sheaf_dataset_batch(sheaf_csv(path, &options), 2, NULL), 2, 1, 1);
    assert_string_equal(
        out.why,
        "autoshard policy DATA (no file source): stage 1 (csv) cannot be divided by files");
    sheaf__split_free(&out);
    sheaf_dataset *d = sheaf_dataset_flat_map(sheaf_list_files(path, NULL), sheaf_open_csv,
                                              (void *)(uintptr_t)&options);
    out = make(sheaf_dataset_batch(d, 2, NULL), 2, 1, 1);
    assert_int_equal(out.policy, SHEAF_AUTOSHARD_DATA);
    sheaf__split_free(&out);
    rig_log_take(); /* AUTO says that it fell back */
}

/* R2.16: file names are shared unshuffled, each worker shuffles its own. */
static void test_shuffle_moves_behind_the_shard(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_list_files(rig_golden("input/tfrecord/a*.tfrecord"), NULL);
    const sheaf_interleave_options two = {.cycle_length = 2};
    d = sheaf_dataset_interleave(sheaf_dataset_repeat(d, 2), sheaf_open_tfrecord, NULL, &two);
    struct sheaf__split_dataset out = make(sheaf_dataset_batch(d, 4, NULL), 2, 1, 1);
    assert_pipeline(out.dataset,
                    "list_files(8 from a0.tfrecord, 7a5cb978)\nrepeat(2)\nshard(2, 1)\nshuffle(8)\n"
                    "interleave(cycle 2, block 1) of tfrecord\nbatch(4)\n"
                    "rebatch(2, 2)\nprefetch(1)\n");
    assert_string_equal(out.why, "autoshard policy FILE: the source reads files");
    sheaf__split_free(&out);
}

/* Each worker says which files are its own, a few of them by name, and nothing where no file is read. */
static void test_files_of_a_worker(void **state)
{
    (void)state;
    json_t *five = literal("[\"a0\", \"a1\", \"a2\", \"a3\", \"a4\"]");
    for (int workers = 1; workers <= 2; workers++)
        for (int w = 0; w < workers; w++) {
            char expected[2600];
            size_t size = (size_t)snprintf(expected, sizeof(expected),
                                           "; %d files: ", workers == 1 ? 5 : 3 - w);
            for (int i = w, n = 0; i < 5 && n < 4; i += workers, n++) {
                char name[64];
                snprintf(name, sizeof(name), "input/tfrecord/a%d.tfrecord", i);
                size += (size_t)snprintf(expected + size, sizeof(expected) - size, "%s%s",
                                         n > 0 ? ", " : "", rig_golden(name));
            }
            if (workers == 1)
                snprintf(expected + size, sizeof(expected) - size, ", …");
            sheaf_dataset *d = sheaf_dataset_shuffle(listed(five), 9, NULL);
            struct sheaf__split_dataset out = make(sheaf_dataset_batch(d, 4, NULL), workers, w, 1);
            char *files = sheaf__autoshard_files(out.dataset, 4);
            assert_string_equal(files, expected);
            sheaf__free(files);
            sheaf__split_free(&out);
        }
    json_decref(five);
    sheaf_dataset *none = sheaf_dataset_range(0, 3, 1);
    char *files = sheaf__autoshard_files(none, 4);
    assert_string_equal(files, "");
    sheaf__free(files);
    sheaf_dataset_free(none);
}

/* S130 and R11.1: the guide's list with the rule forced; D4. */
static void test_forced_rules(void **state)
{
    (void)state;
    json_t *files = literal("[\"b0\", \"b1\"]");
    const char *const expected[] = {"[[0, 1], [2, 3], [4, 5]]", "[[0, 1], [2, 3], [4], [5]]",
                                    "[[0, 1], [2, 3], [4, 5]]"};
    for (int rule = SHEAF_REBATCH_AUTO; rule <= SHEAF_REBATCH_BALANCED; rule++) {
        const sheaf_dataset_options o = {.rebatch = (sheaf_rebatch)rule};
        sheaf_dataset *d = mapped(listed(files), number, SHEAF_SCALAR);
        d = sheaf_dataset_with_options(sheaf_dataset_batch(d, 4, NULL), &o);
        struct sheaf__split_dataset out = make(d, 2, 0, 1);
        assert_elements(out.dataset, expected[rule]);
        sheaf__split_free(&out);
    }
    json_decref(files);
    /* Balanced by force, dealt out by DATA: every row once. */
    const sheaf_dataset_options o = {.rebatch = SHEAF_REBATCH_BALANCED};
    const char *const parts[] = {"[[0, 1], [4, 5], [8, 9]]", "[[2], [6], [10]]",
                                 "[[3], [7], [11]]"};
    for (int w = 0; w < 3; w++) {
        sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 4, NULL);
        struct sheaf__split_dataset out = make(sheaf_dataset_with_options(d, &o), 3, w, 1);
        assert_elements(out.dataset, parts[w]);
        assert_int_equal(out.rebatch, SHEAF_REBATCH_BALANCED);
        sheaf__split_free(&out);
    }
    rig_log_take();
}

/* One row of the tables of tf-semantics 1.5, 1.6 and R11.1 over range(n).batch(batch). */
struct row {
    const char *id;
    int64_t n, batch;
    int workers, worker, replicas;
    sheaf_autoshard policy;
    const char *parts;
};

static const struct row rows[] = {
    {"S119 T1.18", 6, 4, 1, 0, 2, SHEAF_AUTOSHARD_AUTO, "[[0, 1], [2, 3], [4], [5]]"},
    {"T1.18 V2", 6, 4, 1, 0, 2, SHEAF_AUTOSHARD_FILE, "[[0, 1], [2, 3], [4, 5]]"},
    {"S120 T1.19", 4, 4, 1, 0, 5, SHEAF_AUTOSHARD_AUTO, "[[0], [1], [2], [3], []]"},
    {"T1.19 V2", 4, 4, 1, 0, 5, SHEAF_AUTOSHARD_OFF, "[[0], [1], [2], [3], []]"},
    {"S121 T1.20", 8, 4, 1, 0, 3, SHEAF_AUTOSHARD_AUTO, "[[0, 1], [2, 3], [], [4, 5], [6, 7], []]"},
    {"T1.20 V2", 8, 4, 1, 0, 3, SHEAF_AUTOSHARD_OFF, "[[0, 1], [2], [3], [4, 5], [6], [7]]"},
    {"T1.21", 9, 4, 1, 0, 2, SHEAF_AUTOSHARD_DATA, "[[0, 1], [2, 3], [4, 5], [6, 7], [8], []]"},
    {"T1.21 V2", 9, 4, 1, 0, 2, SHEAF_AUTOSHARD_OFF, "[[0, 1], [2, 3], [4, 5], [6, 7], [8]]"},
    {"T1.22", 9, 4, 1, 0, 4, SHEAF_AUTOSHARD_AUTO,
     "[[0], [1], [2], [3], [4], [5], [6], [7], [8], [], [], []]"},
    {"T1.23", 10, 10, 1, 0, 4, SHEAF_AUTOSHARD_AUTO, "[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]"},
    {"T1.23 V2", 10, 10, 1, 0, 4, SHEAF_AUTOSHARD_OFF, "[[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]"},
    {"T1.25", 5, 5, 1, 0, 4, SHEAF_AUTOSHARD_AUTO, "[[0, 1], [2, 3], [4], []]"},
    {"T1.25 V2", 5, 5, 1, 0, 4, SHEAF_AUTOSHARD_OFF, "[[0, 1], [2], [3], [4]]"},
    {"T1.29", 12, 8, 2, 1, 1, SHEAF_AUTOSHARD_OFF, "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"},
    {"T1.31 w0", 8, 3, 2, 0, 1, SHEAF_AUTOSHARD_DATA, "[[0, 1], [3, 4], [6]]"},
    {"T1.31 w1", 8, 3, 2, 1, 1, SHEAF_AUTOSHARD_DATA, "[[2], [5], [7]]"},
    {"T1.32 w0", 9, 2, 2, 0, 1, SHEAF_AUTOSHARD_AUTO, "[[0], [2], [4], [6], [8]]"},
    {"T1.32 w1", 9, 2, 2, 1, 1, SHEAF_AUTOSHARD_AUTO, "[[1], [3], [5], [7], []]"},
    {"T1.34 w0", 15, 4, 2, 0, 2, SHEAF_AUTOSHARD_AUTO,
     "[[0], [2], [4], [6], [8], [10], [12], [14]]"},
    {"T1.34 w1", 15, 4, 2, 1, 2, SHEAF_AUTOSHARD_AUTO, "[[1], [3], [5], [7], [9], [11], [13], []]"},
    {"S132 T1.37 w0", 12, 4, 2, 0, 1, SHEAF_AUTOSHARD_DATA, "[[0, 1], [4, 5], [8, 9]]"},
    {"S132 T1.37 w1", 12, 4, 2, 1, 1, SHEAF_AUTOSHARD_DATA, "[[2, 3], [6, 7], [10, 11]]"},
    {"S134 T1.38", 12, 4, 2, 0, 1, SHEAF_AUTOSHARD_OFF,
     "[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]"},
    {"T2.1 w0", 8, 8, 2, 0, 2, SHEAF_AUTOSHARD_DATA, "[[0, 1], [4, 5]]"},
    {"T2.1 w1", 8, 8, 2, 1, 2, SHEAF_AUTOSHARD_DATA, "[[2, 3], [6, 7]]"},
};

static void test_examples_of_the_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, r->n, 1), r->batch, NULL);
        d = sheaf_dataset_with_options(d, &(sheaf_dataset_options){.autoshard = r->policy});
        struct sheaf__split_dataset out = make(d, r->workers, r->worker, r->replicas);
        json_t *expected = literal(r->parts);
        assert_json(elements(out.dataset), expected, r->id);
        json_decref(expected);
        sheaf__split_free(&out);
    }
    rig_log_take();
}

/* T2.6, otherwise than TensorFlow (11.2): names are shared also where a function follows a reader. */
static sheaf_dataset *open_record(const sheaf_element *in, void *user)
{
    (void)user;
    return sheaf_dataset_from_tensors(sheaf_element_of(sheaf_element_get(in, NULL)));
}

static void test_names_are_shared_behind_a_function(void **state)
{
    (void)state;
    json_t *files = literal("[\"b0\", \"b1\"]");
    for (int w = 0; w < 2; w++) {
        sheaf_dataset *d = sheaf_dataset_flat_map(listed(files), open_record, NULL);
        d = sheaf_dataset_batch(mapped(d, number, SHEAF_SCALAR), 4, NULL);
        struct sheaf__split_dataset out = make(d, 2, w, 1);
        assert_elements(out.dataset, w ? "[[6, 7], [8, 9], [10, 11]]" : "[[0, 1], [2, 3], [4, 5]]");
        sheaf__split_free(&out);
    }
    json_decref(files);
}

/* S47, S128: the same error on every worker, with both numbers and the ways out. */
static void test_too_few_files(void **state)
{
    (void)state;
    json_t *files = literal("[\"c0\"]");
    for (int w = 0; w < 3; w++) {
        sheaf_dataset *d = sheaf_dataset_batch(listed(files), 4, NULL);
        struct sheaf__split_dataset out = make(d, 3, w, 1);
        assert_first_fails(sheaf_dataset_ref(out.dataset), SHEAF_ERR_INVALID_ARGUMENT,
                           "only 1 file for 3 workers; use more files, or the autoshard "
                           "policy DATA or OFF");
        assert_int_equal(out.policy, SHEAF_AUTOSHARD_FILE);
        sheaf__split_free(&out);
    }
    json_decref(files);
}

/* Where nothing takes the hint nothing is divided, and one worker says so. */
static void test_hint_that_nothing_takes(void **state)
{
    (void)state;
    const sheaf_dataset_options o = {.autoshard = SHEAF_AUTOSHARD_HINT};
    for (int hints = 0; hints < 2; hints++) {
        sheaf_dataset *d = sheaf_dataset_range(0, 12, 1);
        if (hints)
            d = sheaf_dataset_shard(d, SHEAF_SHARD_HINT, SHEAF_SHARD_HINT);
        d = sheaf_dataset_with_options(sheaf_dataset_batch(d, 4, NULL), &o);
        for (int workers = 1; workers <= 2; workers++)
            for (int w = 0; w < workers; w++) {
                struct sheaf__split_dataset out = make(sheaf_dataset_ref(d), workers, w, 1);
                assert_string_equal(rig_log_take(),
                                    hints || workers == 1 || w > 0
                                        ? ""
                                        : "autoshard policy HINT, but no stage is a shard of "
                                          "SHEAF_SHARD_HINT: every worker reads the whole "
                                          "dataset\n");
                sheaf__split_free(&out);
            }
        sheaf_dataset_free(d);
    }
}

/* S49: one line that gives the reason; none when that is no loss. */
static void test_fallback_is_logged(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 4, NULL);
    struct sheaf__split_dataset out = make(sheaf_dataset_ref(d), 2, 0, 1);
    assert_string_equal(rig_log_take(),
                        "autoshard policy DATA (no file source): stage 1 (range) cannot be divided "
                        "by files: every worker makes all elements and keeps its "
                        "share of them\n");
    sheaf__split_free(&out);
    /* one worker speaks for all */
    out = make(sheaf_dataset_ref(d), 2, 1, 1);
    assert_string_equal(rig_log_take(), "");
    sheaf__split_free(&out);
    out = make(sheaf_dataset_ref(d), 1, 0, 2);
    assert_string_equal(rig_log_take(), "");
    sheaf__split_free(&out);
    /* R2.31, S189: an order that the workers cannot share. */
    out = make(sheaf_dataset_shuffle(d, 3, NULL), 2, 0, 1);
    assert_non_null(strstr(rig_log_take(), "stage 3 (shuffle) has no seed"));
    sheaf__split_free(&out);
}

/* R2.35, R1.7, and a pipeline that holds an error. */
static void test_refused(void **state)
{
    (void)state;
    const struct sheaf__split two = {.workers = 2, .replicas = 1};
    struct sheaf__split_dataset out;
    sheaf_error err = {0};
    const sheaf_dataset_options file = {.autoshard = SHEAF_AUTOSHARD_FILE};
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 4, NULL);
    d = sheaf_dataset_with_options(d, &file);
    rig_fails(sheaf__split_make(d, &two, &out, &err), &err, SHEAF_ERR_NOT_FOUND,
              "autoshard policy FILE: stage 1 (range) cannot be divided by files");
    sheaf_dataset_free(d);
    d = sheaf_dataset_range(0, 12, 1);
    rig_fails(sheaf__split_make(d, &two, &out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "must be batched");
    sheaf_dataset_free(d);
    d = sheaf_dataset_take(sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 0, NULL), 1);
    rig_fails(sheaf__split_make(d, &two, &out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "stage 2 (batch): the batch size is 0");
    const struct sheaf__split bad = {.workers = 2, .worker = 2};
    sheaf_dataset_free(d);
    d = sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 1, NULL);
    rig_fails(sheaf__split_make(d, &bad, &out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "worker 2 of 2");
    sheaf_dataset_free(d);
}

/* R9.11: workers of one process do not take each other's seeds. */
static void test_workers_shuffle_alike(void **state)
{
    (void)state;
    const sheaf_shuffle_options seven = {.seed = 7};
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 8, 1), 8, &seven);
    d = sheaf_dataset_batch(d, 4, NULL);
    struct sheaf__split_dataset a = make(sheaf_dataset_ref(d), 2, 0, 1);
    struct sheaf__split_dataset b = make(d, 2, 1, 1);
    int seen[8] = {0};
    for (int epoch = 0; epoch < 3; epoch++) {
        sheaf_dataset *all = sheaf_dataset_unbatch(
            sheaf_dataset_concatenate(sheaf_dataset_ref(a.dataset), sheaf_dataset_ref(b.dataset)));
        json_t *found = elements(all), *value;
        size_t i;
        json_array_foreach(found, i, value) seen[json_integer_value(value)]++;
        json_decref(found);
        sheaf_dataset_free(all);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(seen[i], 3);
    sheaf__split_free(&a);
    sheaf__split_free(&b);
    rig_log_take();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden),
        rig_test(test_reader_in_a_function_of_the_program),
        rig_test(test_golden_hint),
        rig_test(test_golden_shard),
        rig_test(test_order_of_stages),
        rig_test(test_readers),
        rig_test(test_csv_is_no_reader),
        rig_test(test_shuffle_moves_behind_the_shard),
        rig_test(test_forced_rules),
        rig_test(test_examples_of_the_text),
        rig_test(test_names_are_shared_behind_a_function),
        rig_test(test_too_few_files),
        rig_test(test_fallback_is_logged),
        rig_test(test_files_of_a_worker),
        rig_test(test_hint_that_nothing_takes),
        rig_test(test_refused),
        rig_test(test_workers_shuffle_alike),
    };
    return rig_run(tests);
}
