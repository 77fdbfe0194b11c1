/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"

static void expect_damage(const char *path, sheaf_checkpoint_manager *manager, const char *text)
{
    sheaf_error err;
    sheaf_bundle *b = NULL;
    const char *found = NULL;
    rig_ok(sheaf_bundle_open(path, &b, &err), &err); /* TensorFlow's part is whole */
    rig_fails(sheaf_bundle_verify(b, &err), &err, SHEAF_ERR_DATA_LOSS, text);
    assert_non_null(strstr(err.file, ".ckpt-2.sheaf"));
    sheaf_bundle_free(b);
    rig_ok(sheaf_manager_restore(manager, &found, &err), &err);
    assert_string_equal(sheaf__path_name(found), "ckpt-1");
    assert_non_null(strstr(rig_log_take(), "ckpt-2' cannot be read and is left out: "));
}

/* The file beside a checkpoint is a part of it: with any byte of it changed, or some missing, the one before is restored. */
static void damage_beside_it(void **state)
{
    (void)state;
    struct fake *w = fake_floats(SHEAF_SHAPE(2), 0);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_manager *manager = NULL;
    sheaf_error err;
    char *text = NULL;
    const char *path = rig_path("run/ckpt-2");
    size_t size = 0;
    sheaf_checkpoint_add(c, "w", &w->trackable);
    rig_ok(sheaf_checkpoint_manager_new(c, rig_path("run"), NULL, &manager, &err), &err);
    for (int i = 0; i < 2; i++)
        rig_ok(sheaf_manager_save(manager, false, NULL, &err), &err);
    char *file = sheaf__sidecar_path(path);
    rig_ok(sheaf__file_read_all(file, SIZE_MAX, &text, &size, &err), &err);
    for (size_t i = 0; i < size; i++) {
        text[i] ^= 0x10;
        rig_ok(sheaf__file_replace(file, text, size, &err), &err);
        expect_damage(path, manager, "is damaged");
        text[i] ^= 0x10;
        sheaf_frame_clear();
    }
    for (size_t i = 0; i < size; i++) {
        rig_ok(sheaf__file_replace(file, text, i, &err), &err);
        expect_damage(path, manager, "is damaged");
        sheaf_frame_clear();
    }
    rig_ok(sheaf__file_replace(file, text, size, &err), &err);
    rig_ok(sheaf_manager_restore(manager, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-2");
    assert_string_equal(rig_log_take(), "");
    sheaf__free(text);
    sheaf__free(file);
    sheaf_checkpoint_manager_free(manager);
    sheaf_checkpoint_free(c);
    fake_free(w);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(damage_beside_it)};
    return rig_run(tests);
}
