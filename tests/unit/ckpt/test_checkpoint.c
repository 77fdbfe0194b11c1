/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "format/object_graph.h"
#include "tensor/heap.h"

/* The public object: names, counter, restore all or nothing, errors. */

static sheaf_checkpoint *checkpoint_of(const char *name, struct fake *f)
{
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add(c, name, &f->trackable);
    return c;
}

static void compare_files(const char *ours, const char *golden)
{
    char *x = NULL, *y = NULL;
    size_t x_size = 0, y_size = 0;
    sheaf_error err;
    rig_ok(sheaf__file_read_all(ours, 1 << 20, &x, &x_size, &err), &err);
    rig_ok(sheaf__file_read_all(golden, 1 << 20, &y, &y_size, &err), &err);
    assert_int_equal(x_size, y_size);
    assert_memory_equal(x, y, x_size);
    sheaf__free(x);
    sheaf__free(y);
}

/* formats.md 5.5, vector C: TensorFlow's bytes out of nothing but w = [1, 2]; write() has a counter
 * only after a save (5.2). */
static void vector_c(void **state)
{
    (void)state;
    struct fake *w = fake_floats(SHEAF_SHAPE(2), 1);
    w->saveables[0].full_name = "w";
    sheaf_checkpoint *c = checkpoint_of("w", w);
    sheaf_error err;
    const char *path = NULL;
    rig_ok(sheaf_checkpoint_write(c, rig_path("nocounter"), NULL, &err), &err);
    compare_files(rig_path("nocounter.index"), rig_golden("checkpoint/object/nocounter.index"));
    compare_files(rig_path("nocounter.data-00000-of-00001"),
                  rig_golden("checkpoint/object/nocounter.data-00000-of-00001"));
    rig_ok(sheaf_checkpoint_save(c, rig_path("a/b/simple"), NULL, &path, &err), &err);
    assert_string_equal(path, rig_path("a/b/simple-1"));
    compare_files(rig_path("a/b/simple-1.index"), rig_golden("checkpoint/object/simple-1.index"));
    compare_files(rig_path("a/b/simple-1.data-00000-of-00001"),
                  rig_golden("checkpoint/object/simple-1.data-00000-of-00001"));
    rig_ok(sheaf_checkpoint_write(c, rig_path("written"), NULL, &err), &err);
    compare_files(rig_path("written.index"), rig_golden("checkpoint/object/written.index"));
    assert_string_equal(sheaf_checkpoint_latest(rig_path("a/b")), rig_path("a/b/simple-1"));
    assert_null(sheaf_checkpoint_latest(rig_folder()));
    sheaf_checkpoint_free(c);
    fake_free(w);
    sheaf_frame_clear();
}

/* Names with "/" are paths of objects; others are escaped; keywords are sorted (5.1, 5.2). */
static void names_are_paths(void **state)
{
    (void)state;
    struct fake *w[6];
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    static const char *const names[] = {"z", "model/dense/kernel", "model/a.b",
                                        "a", "model/a\\/b",        "model/\\\\/c\\d"};
    for (int i = 0; i < 6; i++) {
        w[i] = fake_floats(SHEAF_SHAPE(1), (float)i);
        sheaf_checkpoint_add(c, names[i], &w[i]->trackable);
    }
    sheaf_error err;
    const char *path;
    rig_ok(sheaf_checkpoint_save(c, rig_path("x"), NULL, &path, &err), &err);
    sheaf_bundle *b = NULL;
    sheaf_tensor *t = NULL;
    struct sheaf__object_graph graph;
    rig_ok(sheaf_bundle_open(path, &b, &err), &err);
    static const char *const keys[] = {"z", "model/dense/kernel", "model/a..b",
                                       "a", "model/a.Sb",         "model/\\/c\\d"};
    for (int i = 0; i < 6; i++) {
        char key[80];
        snprintf(key, sizeof(key), "%s/.ATTRIBUTES/VARIABLE_VALUE", keys[i]);
        rig_ok(sheaf_bundle_read(b, key, &t, &err), &err);
        assert_true(sheaf_tensor_number(t, 0) == i);
    }
    rig_ok(sheaf_bundle_read(b, SHEAF__OBJECT_GRAPH_KEY, &t, &err), &err);
    sheaf_bytes text = sheaf_tensor_bytes(t, 0);
    rig_ok(sheaf__object_graph_read(&graph, text.data, text.size, &err), &err);
    static const char *const edges[] = {"a", "model", "z", "save_counter"};
    assert_int_equal(graph.nodes[0].child_count, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(graph.nodes[0].children[i].name, edges[i]);
    sheaf__object_graph_free(&graph);
    sheaf_bundle_free(b);
    sheaf_checkpoint_free(c);
    for (int i = 0; i < 6; i++)
        fake_free(w[i]);
}

/* formats.md 5.2: keys of a Python dict with a "/" or a "." in them, of TensorFlow's file, before the restore and after it. */
static void odd_names_of_tensorflow(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double value;
    } odd[] = {
        {"names/a\\/b", 1}, {"names/a.b", 2}, {"names/\\/", 6}, {"names/.", 5}, {"names/x/y/z", 7}};
    enum { COUNT = sizeof(odd) / sizeof(odd[0]) };
    for (int later = 0; later < 2; later++) {
        struct fake *w[COUNT];
        sheaf_checkpoint *c = sheaf_checkpoint_new();
        sheaf_error err;
        sheaf_checkpoint_expect_partial(c);
        if (later)
            rig_ok(sheaf_checkpoint_restore(c, rig_golden("checkpoint/object/nested-1"), &err),
                   &err);
        for (int i = 0; i < COUNT; i++) {
            w[i] = fake_floats(SHEAF_SCALAR, 0);
            sheaf_checkpoint_add(c, odd[i].name, &w[i]->trackable);
        }
        if (!later)
            rig_ok(sheaf_checkpoint_restore(c, rig_golden("checkpoint/object/nested-1"), &err),
                   &err);
        rig_ok(sheaf_checkpoint_assert_existing_objects_matched(c, &err), &err);
        for (int i = 0; i < COUNT; i++)
            assert_true(sheaf_tensor_number(w[i]->values[0], 0) == odd[i].value);
        sheaf_checkpoint_free(c);
        for (int i = 0; i < COUNT; i++)
            fake_free(w[i]);
    }
}

static void bad_names_are_latched(void **state)
{
    (void)state;
    static const struct {
        const char *first, *name, *message;
    } cases[] = {
        {"w", "w", "the name is taken"},
        {"w", "w/x", "a name before it is that of an object"},
        {"w/x", "w", "the name is taken"},
        {"w", "", "it has no name"},
        {"w", "a//b", "a part of the name is empty"},
        {"w", "a/", "a part of the name is empty"},
        {"w", "save_counter", "the name is that of the checkpoint's own counter of saves"},
        {"w", "caf\xe9", "checkpoint object 'caf?': its name is not UTF-8"},
        {"w", "a/\xc0\xaf/b", "its name is not UTF-8"}, /* formats.md 3 */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *w = fake_floats(SHEAF_SHAPE(1), 0);
        sheaf_checkpoint *c = checkpoint_of(cases[i].first, w);
        sheaf_error err;
        sheaf_checkpoint_add(c, cases[i].name, &w->trackable);
        sheaf_checkpoint_add(c, "later", &w->trackable);
        rig_fails(sheaf_checkpoint_save(c, rig_path("x"), NULL, NULL, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, cases[i].message);
        rig_fails(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, cases[i].message);
        sheaf_checkpoint_free(c);
        fake_free(w);
    }
    struct fake *w = fake_floats(SHEAF_SHAPE(1), 0);
    sheaf_checkpoint *c = checkpoint_of("w", w);
    sheaf_error err;
    rig_fails(sheaf_checkpoint_write(c, rig_path("checkpoint"), NULL, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "conflicts with the path of the checkpoint state");
    rig_fails(sheaf_checkpoint_write(c, "", NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "");
    rig_fails(sheaf_checkpoint_save(c, rig_path("x"),
                                    &(sheaf_checkpoint_options){.reserved = {0, 1}}, NULL, &err),
              &err, SHEAF_ERR_INVALID_ARGUMENT, "reserved[1]");
    sheaf_checkpoint_add(c, "none", NULL);
    rig_fails(sheaf_checkpoint_write(c, rig_path("x"), NULL, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "there is none");
    sheaf_checkpoint_free(c);
    fake_free(w);
}

/* The counter counts saves that succeeded, and comes back with a restore (R8.23). */
static void counter_counts(void **state)
{
    (void)state;
    struct fake *w = fake_floats(SHEAF_SHAPE(2), 1);
    sheaf_checkpoint *c = checkpoint_of("w", w);
    sheaf_error err;
    const char *path = NULL;
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf_checkpoint_save(c, rig_path("x"), NULL, &path, &err), &err);
    assert_string_equal(path, rig_path("x-3"));
    rig_fails(sheaf_checkpoint_save(c, "/proc/none/x", NULL, &path, &err), &err,
              SHEAF_ERR_NOT_FOUND, "cannot make the directory");
    sheaf_checkpoint_free(c);

    c = checkpoint_of("w", w);
    rig_ok(sheaf_checkpoint_restore(c, rig_path("x-2"), &err), &err);
    rig_ok(sheaf_checkpoint_save(c, rig_path("x"), NULL, &path, &err), &err);
    assert_string_equal(path, rig_path("x-3"));
    assert_string_equal(sheaf_checkpoint_latest(rig_folder()), rig_path("x-3"));
    sheaf_checkpoint_free(c);

    c = checkpoint_of("w", w);
    rig_ok(sheaf_checkpoint_write(c, rig_path("plain"), NULL, &err), &err);
    rig_ok(sheaf_checkpoint_restore(c, rig_path("plain"), &err), &err);
    rig_ok(sheaf_checkpoint_save(c, rig_path("y"), NULL, &path, &err), &err);
    assert_string_equal(path, rig_path("y-1"));
    sheaf_checkpoint_free(c);
    fake_free(w);
}

/* Nothing is changed unless everything was read: another shape, another dtype, an object that is not
 * there, a damaged byte, a missing file. */
static void all_or_nothing(void **state)
{
    (void)state;
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 1), *z = fake_floats(SHEAF_SHAPE(2, 3), 7);
    sheaf_checkpoint *c = checkpoint_of("a", a);
    sheaf_error err;
    sheaf_checkpoint_add(c, "z", &z->trackable);
    rig_ok(sheaf_checkpoint_write(c, rig_path("x"), NULL, &err), &err);
    sheaf_checkpoint_free(c);

    struct {
        struct fake *z;
        const char *name, *message;
        sheaf_status status;
    } cases[] = {
        {fake_floats(SHEAF_SHAPE(3, 2), 0), "z",
         "tensor 'z/.ATTRIBUTES/VARIABLE_VALUE': it is of shape (2, 3), expected (3, 2)",
         SHEAF_ERR_INVALID_ARGUMENT},
        {fake_new(), "z",
         "tensor 'z/.ATTRIBUTES/VARIABLE_VALUE' is of dtype float32, expected float64",
         SHEAF_ERR_INVALID_ARGUMENT},
        {fake_floats(SHEAF_SHAPE(2, 3), 0), "y", "no value for object 'y' (VARIABLE_VALUE)",
         SHEAF_ERR_NOT_FOUND},
        {fake_floats(SHEAF_SHAPE(2, 3), 0), "z", "checksum mismatch", SHEAF_ERR_DATA_LOSS},
        {fake_floats(SHEAF_SHAPE(2, 3), 0), "z", "no such file", SHEAF_ERR_NOT_FOUND},
    };
    fake_add(cases[1].z, sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SHAPE(2, 3), NULL));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *first = fake_floats(SHEAF_SHAPE(2), 100);
        c = checkpoint_of("a", first);
        sheaf_checkpoint_add(c, cases[i].name, &cases[i].z->trackable);
        if (i == 3) {
            struct sheaf__file *file = NULL;
            rig_ok(sheaf__file_open(rig_path("x.data-00000-of-00001"), SHEAF__FILE_UPDATE, &file,
                                    &err),
                   &err);
            rig_ok(sheaf__file_write_at(file, 9, "x", 1, &err), &err);
            rig_ok(sheaf__file_close(file, &err), &err);
        }
        if (i == 4)
            rig_ok(sheaf__file_unlink(rig_path("x.data-00000-of-00001"), &err), &err);
        rig_fails(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err, cases[i].status,
                  cases[i].message);
        assert_true(sheaf_tensor_number(first->values[0], 0) == 100);
        sheaf_checkpoint_free(c);
        fake_free(first);
        fake_free(cases[i].z);
    }
    fake_free(a);
    fake_free(z);
}

/* An object that TensorFlow has no place for. */
struct other {
    sheaf_trackable trackable;
    const char *text; /* with all its zeros */
    size_t size;
    char accepted[16];
    size_t accepted_size;
    bool refuses;
    int found, missing, taken, forgotten;
};

static sheaf_status other_save(sheaf_trackable *t, sheaf_bytes *bytes, sheaf_error *err)
{
    const struct other *o = t->object;
    if (o->refuses)
        return sheaf_error_set(err, SHEAF_ERR_FAILED_PRECONDITION, "no position to save");
    *bytes = (sheaf_bytes){o->text, o->size};
    return SHEAF_OK;
}
static sheaf_status other_accept(sheaf_trackable *t, const sheaf_bytes *bytes, sheaf_error *err)
{
    struct other *o = t->object;
    o->found += bytes != NULL;
    o->missing += bytes == NULL;
    o->accepted_size = bytes ? bytes->size : 0;
    assert_true(o->accepted_size <= sizeof(o->accepted));
    if (bytes)
        memcpy(o->accepted, bytes->data, bytes->size);
    return o->refuses ? sheaf_error_set(err, SHEAF_ERR_FAILED_PRECONDITION, "another pipeline")
                      : SHEAF_OK;
}
static void other_settle(sheaf_trackable *t, bool take)
{
    struct other *o = t->object;
    o->taken += take;
    o->forgotten += !take;
}
static const struct sheaf__trackable_class other_class = {
    .save = other_save, .accept = other_accept, .settle = other_settle};

/* Its bytes are kept beside the checkpoint, whose own files are the same with and without it; they are
 * taken together with the variables or not at all. */
static void other_objects(void **state)
{
    (void)state;
    struct fake *w = fake_floats(SHEAF_SHAPE(2), 1);
    struct other o = {.text = "a\0\xff\"b", .size = 5};
    sheaf_checkpoint *c = checkpoint_of("w", w);
    sheaf_error err;
    o.trackable = (sheaf_trackable){&other_class, &o};
    rig_ok(sheaf_checkpoint_write(c, rig_path("without"), NULL, &err), &err);
    sheaf_checkpoint_add(c, "input", &o.trackable);
    rig_ok(sheaf_checkpoint_write(c, rig_path("with"), NULL, &err), &err);
    static const char *const ends[] = {"index", "data-00000-of-00001"};
    for (int i = 0; i < 2; i++) {
        char name[64], *bytes[2];
        size_t sizes[2];
        for (int k = 0; k < 2; k++) {
            snprintf(name, sizeof(name), "%s.%s", k ? "with" : "without", ends[i]);
            rig_ok(sheaf__file_read_all(rig_path(name), 1 << 20, &bytes[k], &sizes[k], &err), &err);
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(bytes[0], bytes[1], sizes[0]);
        sheaf__free(bytes[0]);
        sheaf__free(bytes[1]);
    }

    rig_ok(sheaf_checkpoint_restore(c, rig_path("with"), &err), &err);
    assert_int_equal(o.accepted_size, 5);
    assert_memory_equal(o.accepted, o.text, 5);
    assert_int_equal(o.taken, 1);
    rig_ok(sheaf_checkpoint_restore(c, rig_path("without"), &err), &err);
    assert_non_null(strstr(rig_log_take(), "without has nothing for object 'input'"));
    assert_true(o.missing == 1 && o.taken == 2);

    o.refuses = true;
    sheaf_tensor_free(w->values[0]);
    w->values[0] = sheaf_tensor_keep(sheaf_float(100));
    rig_fails(sheaf_checkpoint_restore(c, rig_path("with"), &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "object 'input' of checkpoint '");
    assert_true(o.forgotten == 1 && sheaf_tensor_number(w->values[0], 0) == 100);
    rig_fails(sheaf_checkpoint_write(c, rig_path("never"), NULL, &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "checkpoint object 'input': no position to save");
    assert_false(sheaf__file_exists(rig_path("never.index")));
    sheaf_checkpoint_free(c);
    fake_free(w);
}

/* Other tasks hold back what they read until all have read: a failure elsewhere drops it. */
static void other_tasks_hold_back(void **state)
{
    (void)state;
    struct fake_group *g = fake_group_new(FAKE_DEVICE("chief", "0"));
    struct fake *remote = fake_new(), *own = fake_floats(SHEAF_SHAPE(2), 5);
    fake_hold(g, remote, FAKE_DEVICE("ps", "0"), sheaf_float(1), 0, 0);
    sheaf_checkpoint *c = checkpoint_of("remote", remote);
    sheaf_checkpoint_add(c, "own", &own->trackable);
    sheaf_error err;
    rig_ok(sheaf_checkpoint_write(c, rig_path("x"), NULL, &err), &err);
    sheaf_tensor_free(g->held[0].value);
    g->held[0].value = sheaf_tensor_keep(sheaf_float(2));
    own->refuse = 1;
    rig_fails(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err, SHEAF_ERR_INTERNAL,
              "refused");
    assert_int_equal(g->settles, 1);
    assert_true(sheaf_tensor_number(g->held[0].value, 0) == 2);
    own->refuse = 0;
    rig_ok(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err);
    assert_true(sheaf_tensor_number(g->held[0].value, 0) == 1);

    /* Who does not write does nothing for the others' tensors, and saves nothing. */
    g->not_writer = true;
    g->reads = 0;
    rig_ok(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err);
    assert_int_equal(g->reads, 0);
    const char *path = "old";
    rig_ok(sheaf_checkpoint_save(c, rig_path("y"), NULL, &path, &err), &err);
    assert_null(path);
    assert_false(sheaf__file_exists(rig_path("y-1.index")));
    sheaf_checkpoint_free(c);
    fake_free(remote);
    fake_free(own);
    fake_group_free(g);
}

static void two_groups_are_refused(void **state)
{
    (void)state;
    struct fake_group *g = fake_group_new(NULL), *h = fake_group_new(NULL);
    struct fake *a = fake_new(), *b = fake_new();
    fake_hold(g, a, FAKE_DEVICE("ps", "0"), sheaf_float(1), 0, 0);
    fake_hold(h, b, FAKE_DEVICE("ps", "0"), sheaf_float(1), 0, 0);
    sheaf_checkpoint *c = checkpoint_of("a", a);
    sheaf_checkpoint_add(c, "b", &b->trackable);
    sheaf_error err;
    rig_fails(sheaf_checkpoint_write(c, rig_path("x"), NULL, &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "object 'b' belongs to another strategy");
    sheaf_checkpoint_free(c);
    fake_free(a);
    fake_free(b);
    fake_group_free(g);
    fake_group_free(h);
}

/* A state file that lost its newest checkpoint leads to the one before (formats.md 4.8). */
static void latest_walks_back(void **state)
{
    (void)state;
    struct fake *w = fake_floats(SHEAF_SHAPE(2), 1);
    sheaf_checkpoint *c = checkpoint_of("w", w);
    sheaf_error err;
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf_checkpoint_save(c, rig_path("x"), NULL, NULL, &err), &err);
    rig_ok(sheaf__bundle_delete(rig_path("x-3"), &err), &err);
    assert_string_equal(sheaf_checkpoint_latest(rig_folder()), rig_path("x-2"));
    rig_ok(sheaf__bundle_delete(rig_path("x-2"), &err), &err);
    rig_ok(sheaf__bundle_delete(rig_path("x-1"), &err), &err);
    assert_null(sheaf_checkpoint_latest(rig_folder()));
    assert_non_null(strstr(rig_log_take(), "its newest checkpoint 'x-3' is not there"));
    sheaf_checkpoint_free(c);
    fake_free(w);
    sheaf_frame_clear();
}

struct attempt {
    struct fake *w;
    const char *prefix, *index, *path;
};

static sheaf_status save_and_restore(void *user, sheaf_error *err)
{
    struct attempt *a = user;
    (void)remove(a->index);
    sheaf_checkpoint *c = checkpoint_of("model/w", a->w);
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_status status = sheaf_checkpoint_save(c, a->prefix, NULL, NULL, err);
    if (status >= 0)
        status = sheaf_checkpoint_restore(c, a->path, err);
    sheaf_frame_close(&frame);
    sheaf_checkpoint_free(c);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0); /* pooled memory is no leak */
    return status;
}

static void without_memory(void **state)
{
    (void)state;
    struct attempt a = {fake_floats(SHEAF_SHAPE(2), 1), rig_path("x"), rig_path("x-1.index"),
                        rig_path("x-1")};
    sheaf_error err;
    rig_ok(save_and_restore(&a, &err), &err);
    assert_true(rig_fail_allocations(save_and_restore, &a) > 50);
    fake_free(a.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(vector_c),
        rig_test(names_are_paths),
        rig_test(odd_names_of_tensorflow),
        rig_test(bad_names_are_latched),
        rig_test(counter_counts),
        rig_test(all_or_nothing),
        rig_test(other_objects),
        rig_test(other_tasks_hold_back),
        rig_test(two_groups_are_refused),
        rig_test(latest_walks_back),
        rig_test(without_memory),
    };
    return rig_run(tests);
}
