/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"

/* Restores before there is anything to restore into, and of parts (formats.md 5.3, S96); what they say of what was not found. */

/* A checkpoint of a = [1, 2], b = [10, 20], and model/c = [5]. */
static const char *saved(void)
{
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 1), *b = fake_floats(SHEAF_SHAPE(2), 10);
    struct fake *d = fake_floats(SHEAF_SHAPE(1), 5);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    const char *path = NULL;
    sheaf_error err;
    sheaf_checkpoint_add(c, "a", &a->trackable);
    sheaf_checkpoint_add(c, "b", &b->trackable);
    sheaf_checkpoint_add(c, "model/c.d", &d->trackable);
    rig_ok(sheaf_checkpoint_save(c, rig_path("x"), NULL, &path, &err), &err);
    sheaf_checkpoint_free(c);
    fake_free(a);
    fake_free(b);
    fake_free(d);
    return path;
}

static void assert_first(const struct fake *f, double expected)
{
    assert_true(sheaf_tensor_number(f->values[0], 0) == expected);
}

/* S96: what is added after the restore has its value at that moment. */
static void s96_added_later(void **state)
{
    (void)state;
    sheaf_error err;
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 0), *b = fake_floats(SHEAF_SHAPE(2), 0);
    struct fake *d = fake_floats(SHEAF_SHAPE(1), 0), *new = fake_floats(SHEAF_SHAPE(3), 7);
    const char *path = saved();
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    sheaf_checkpoint_add(c, "a", &a->trackable);
    assert_first(a, 1);
    rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "nothing that took objects of the checkpoint: 'b', 'model/c..d'");
    rig_ok(sheaf_checkpoint_assert_existing_objects_matched(c, &err), &err);
    sheaf_checkpoint_add(c, "model/c.d", &d->trackable);
    sheaf_checkpoint_add(c, "b", &b->trackable);
    assert_first(b, 10);
    assert_first(d, 5);
    rig_ok(sheaf_checkpoint_assert_consumed(c, &err), &err);
    /* What the file does not have stays as it is; it is found when asked for. */
    sheaf_checkpoint_add(c, "model/new", &new->trackable);
    rig_ok(sheaf_checkpoint_status(c, &err), &err);
    assert_first(new, 7);
    rig_fails(sheaf_checkpoint_assert_existing_objects_matched(c, &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "no value for objects of the program: 'model/new'");
    rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "'model/new'");
    /* The counter goes on. */
    rig_ok(sheaf_checkpoint_save(c, rig_path("x"), NULL, &path, &err), &err);
    assert_string_equal(path, rig_path("x-2"));
    sheaf_checkpoint_free(c);
    fake_free(a);
    fake_free(b);
    fake_free(d);
    fake_free(new);
}

/* A second name of an object is no reason to lose what it has learnt since. */
static void second_name(void **state)
{
    (void)state;
    sheaf_error err;
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 0);
    const float learnt[] = {8, 9};
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    rig_ok(sheaf_checkpoint_restore(c, saved(), &err), &err);
    sheaf_checkpoint_expect_partial(c);
    sheaf_checkpoint_add(c, "a", &a->trackable);
    assert_first(a, 1);
    rig_ok(
        fake_write(&a->trackable, 0, sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), learnt), &err),
        &err);
    sheaf_checkpoint_add(c, "b", &a->trackable);
    rig_ok(sheaf_checkpoint_status(c, &err), &err);
    assert_first(a, 8);
    sheaf_checkpoint_free(c);
    fake_free(a);
}

static sheaf_checkpoint *restored_before(const char *path)
{
    sheaf_error err;
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_expect_partial(c);
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    return c;
}

/* The object keeps its value; the error comes out of saves, until another checkpoint is restored. */
static void assert_refused(sheaf_checkpoint *c, struct fake *f, sheaf_status expected,
                           const char *part)
{
    sheaf_error err;
    sheaf_checkpoint_add(c, "a", &f->trackable);
    assert_first(f, 0);
    rig_fails(sheaf_checkpoint_status(c, &err), &err, expected, part);
    assert_non_null(strstr(err.message, "object 'a', which came after the restore"));
    rig_fails(sheaf_checkpoint_write(c, rig_path("y"), NULL, &err), &err, expected, part);
    rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, expected, part);
    sheaf_checkpoint_free(c);
}

static void files_are_gone(void **state)
{
    (void)state;
    sheaf_error err;
    char *data = NULL;
    size_t size = 0;
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 0), *other = fake_floats(SHEAF_SHAPE(3), 0);
    const char *path = saved(), *file = rig_path("x-1.data-00000-of-00001");
    assert_refused(restored_before(path), other, SHEAF_ERR_INVALID_ARGUMENT, "tensor 'a/.ATTR");
    sheaf_checkpoint *c = restored_before(path), *d = restored_before(path);
    rig_ok(sheaf__file_read_all(file, 1 << 20, &data, &size, &err), &err);
    data[1] ^= 1;
    rig_ok(sheaf__file_replace(file, data, size, &err), &err);
    assert_refused(c, a, SHEAF_ERR_DATA_LOSS, "checksum");
    rig_ok(sheaf__file_unlink(file, &err), &err);
    assert_refused(d, a, SHEAF_ERR_NOT_FOUND, "'a'");
    sheaf__free(data);
    c = restored_before(saved());
    rig_ok(sheaf__file_unlink(file, &err), &err);
    sheaf_checkpoint_add(c, "a", &a->trackable);
    rig_fails(sheaf_checkpoint_status(c, &err), &err, SHEAF_ERR_NOT_FOUND, "'a'");
    rig_ok(sheaf_checkpoint_restore(c, saved(), &err), &err);
    rig_ok(sheaf_checkpoint_status(c, &err), &err);
    assert_first(a, 1);
    sheaf_checkpoint_free(c);
    fake_free(a);
    fake_free(other);
}

/* Without a word no object may be missing; with it all that are there are restored. */
static void parts_of_either(void **state)
{
    (void)state;
    sheaf_error err;
    const char *path = saved();
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 0), *new = fake_floats(SHEAF_SHAPE(2), 7);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "no checkpoint was restored");
    sheaf_checkpoint_add(c, "a", &a->trackable);
    sheaf_checkpoint_add(c, "new", &new->trackable);
    rig_fails(sheaf_checkpoint_restore(c, path, &err), &err, SHEAF_ERR_NOT_FOUND, "'new'");
    assert_first(a, 0);
    sheaf_checkpoint_expect_partial(c);
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    assert_first(a, 1);
    assert_first(new, 7);
    rig_fails(sheaf_checkpoint_assert_existing_objects_matched(c, &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "'new'");
    sheaf_checkpoint_free(c);
    assert_string_equal(rig_log_take(), "");
    c = sheaf_checkpoint_new();
    sheaf_checkpoint_add(c, "a", &a->trackable);
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    assert_string_equal(rig_log_take(), "");
    sheaf_checkpoint_free(c);
    assert_non_null(strstr(rig_log_take(), "nothing that took its objects 'b', 'model/c..d'"));
    fake_free(a);
    fake_free(new);
}

/* Objects whose children come later. */

struct late {
    struct fake *fake;
    sheaf_trackable trackable;
    struct sheaf__trackable_watch *watch;
    bool grown;
};

static bool late_child(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child)
{
    const struct late *l = t->object;
    return l->grown && fake_child(&l->fake->trackable, i, name, child);
}

static bool late_watch(sheaf_trackable *t, struct sheaf__trackable_watch *w)
{
    struct late *l = t->object;
    if (w && l->grown)
        return false;
    if (w && l->watch)
        l->watch->gone(l->watch);
    l->watch = w;
    return true;
}

static const struct sheaf__trackable_class late_class = {.child = late_child, .watch = late_watch};

static sheaf_status grow(struct late *l, sheaf_error *err)
{
    l->grown = true;
    sheaf_status status = l->watch ? l->watch->grown(l->watch, err) : SHEAF_OK;
    l->grown = status >= 0;
    if (l->watch && l->grown) {
        l->watch->gone(l->watch);
        l->watch = NULL;
    }
    return status;
}

/* The slots of an optimizer that is built after the restore, which must all be there. */
static void s96_slots_come_later(void **state)
{
    (void)state;
    sheaf_error err;
    const float zeros[] = {0, 0};
    struct fake *o = fake_new(), *list = fake_new(), *slots[2];
    struct late late = {.fake = o, .trackable = {&late_class, &late}};
    fake_add_child(o, "_variables", list);
    for (int i = 0; i < 2; i++) {
        slots[i] = fake_floats(SHEAF_SHAPE(2), (float)i + 1);
        fake_add_child(list, i ? "1" : "0", slots[i]);
    }
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add(c, "optimizer", &o->trackable);
    rig_ok(sheaf_checkpoint_write(c, rig_path("x"), NULL, &err), &err);
    sheaf_checkpoint_free(c);
    for (int added_first = 0; added_first < 2; added_first++) {
        c = sheaf_checkpoint_new();
        late.grown = false;
        for (int i = 0; i < 2; i++)
            rig_ok(fake_write(&slots[i]->trackable, 0,
                              sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), zeros), &err),
                   &err);
        if (added_first)
            sheaf_checkpoint_add(c, "optimizer", &late.trackable);
        rig_ok(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err);
        if (!added_first)
            sheaf_checkpoint_add(c, "optimizer", &late.trackable);
        rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                  "'optimizer/_variables/0', 'optimizer/_variables/1'");
        rig_ok(grow(&late, &err), &err);
        assert_first(slots[0], 1);
        assert_first(slots[1], 2);
        rig_ok(sheaf_checkpoint_assert_consumed(c, &err), &err);
        assert_null(late.watch);
        sheaf_checkpoint_free(c);
    }
    /* Another checkpoint takes over; one that is freed lets go; another object has more than the file. */
    c = sheaf_checkpoint_new();
    sheaf_checkpoint *d = sheaf_checkpoint_new();
    late.grown = false;
    sheaf_checkpoint_add(c, "optimizer", &late.trackable);
    sheaf_checkpoint_add(d, "optimizer", &late.trackable);
    rig_ok(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err);
    rig_ok(sheaf_checkpoint_restore(d, rig_path("x"), &err), &err);
    sheaf_checkpoint_free(c);
    assert_non_null(strstr(rig_log_take(), "'optimizer/_variables/0'"));
    assert_non_null(late.watch);
    struct fake *third = fake_floats(SHEAF_SHAPE(2), 0);
    fake_add_child(list, "2", third);
    rig_fails(grow(&late, &err), &err, SHEAF_ERR_NOT_FOUND, "'optimizer/_variables/2'");
    assert_false(late.grown);
    assert_non_null(late.watch);
    sheaf_checkpoint_free(d);
    assert_null(late.watch);
    assert_non_null(strstr(rig_log_take(), "'optimizer/_variables/1'"));
    fake_free(third);
    fake_free(slots[0]);
    fake_free(slots[1]);
    fake_free(list);
    fake_free(o);
}

/* A file of TF1's Saver: names of variables, now and later (5.3). */
static void by_name(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_bundle *b = NULL;
    sheaf_bundle_entry e;
    struct fake *all[8];
    size_t count = 0;
    const char *path = rig_golden("checkpoint/saver/plain-7");
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    rig_ok(sheaf_bundle_open(path, &b, &err), &err);
    for (; sheaf_bundle_get(b, count, &e) == SHEAF_OK; count++) {
        char name[8];
        sheaf_tensor *expected = NULL;
        all[count] = fake_new();
        fake_add(all[count], sheaf_tensor_new(e.dtype, e.shape, NULL))->full_name = e.key;
        snprintf(name, sizeof(name), "v%zu", count);
        rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                  e.key);
        sheaf_checkpoint_add(c, name, &all[count]->trackable);
        rig_ok(sheaf_bundle_read(b, e.key, &expected, &err), &err);
        assert_true(fake_equal(all[count]->values[0], expected));
    }
    assert_int_equal(count, 4);
    rig_ok(sheaf_checkpoint_assert_consumed(c, &err), &err);
    /* All at once the same, and another name is missing. */
    struct fake *other = fake_floats(SHEAF_SHAPE(1), 7);
    other->saveables[0].full_name = "other";
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    sheaf_checkpoint_add(c, "other", &other->trackable);
    assert_first(other, 7);
    rig_fails(sheaf_checkpoint_restore(c, path, &err), &err, SHEAF_ERR_NOT_FOUND, "'other'");
    sheaf_checkpoint_expect_partial(c);
    rig_ok(sheaf_checkpoint_restore(c, path, &err), &err);
    rig_fails(sheaf_checkpoint_assert_consumed(c, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "no value for objects of the program: 'other'");
    sheaf_checkpoint_free(c);
    sheaf_bundle_free(b);
    for (size_t i = 0; i < count; i++)
        fake_free(all[i]);
    fake_free(other);
}

static sheaf_status add_late(void *user, sheaf_error *err)
{
    struct fake *a = fake_floats(SHEAF_SHAPE(2), 0);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_status status = SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_checkpoint_expect_partial(c);
    if (c)
        status = sheaf_checkpoint_restore(c, user, err);
    sheaf_checkpoint_add(c, "a", &a->trackable);
    if (status >= 0)
        status = sheaf_checkpoint_status(c, err);
    if (status >= 0)
        assert_first(a, 1);
    sheaf_checkpoint_free(c);
    fake_free(a);
    sheaf_frame_clear();
    return status;
}

static void without_memory(void **state)
{
    (void)state;
    char *path = strdup(saved());
    assert_true(rig_fail_allocations(add_late, path) > 10);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(s96_added_later),      rig_test(second_name), rig_test(files_are_gone),
        rig_test(parts_of_either),      rig_test(by_name),     rig_test(without_memory),
        rig_test(s96_slots_come_later),
    };
    return rig_run(tests);
}
