/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/context.h"
#include "base/cpu.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

#include <sheaf/frame.h>

#include <string.h>

static void test_default_device(void **state)
{
    (void)state;
    sheaf_device device;
    assert_int_equal(sheaf_devices_count(), 1);
    assert_int_equal(sheaf_devices_get(0, &device), SHEAF_OK);
    assert_string_equal(device.name, "/device:CPU:0");
    assert_string_equal(device.type, "CPU");
    assert_int_equal(device.threads, sheaf__cpu_count());
    assert_int_equal(sheaf_devices_get(1, &device), SHEAF_ERR_OUT_OF_RANGE);
    assert_int_equal(sheaf_devices_get(-1, &device), SHEAF_ERR_OUT_OF_RANGE);
}

/* S108: as set_logical_device_configuration, before first use only; other types are listed after. */
static void test_configure(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_device device;
    rig_ok(sheaf_devices_configure(4, &err), &err);
    rig_ok(sheaf_devices_configure(2, &err), &err);
    rig_ok(sheaf_devices_simulate("GPU", 3, &err), &err);
    assert_int_equal(sheaf_devices_count(), 5);
    const char *names[] = {"/device:CPU:0", "/device:CPU:1", "/device:GPU:0", "/device:GPU:1",
                           "/device:GPU:2"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sheaf_devices_get(i, &device), SHEAF_OK);
        assert_string_equal(device.name, names[i]);
        assert_int_equal(device.index, i < 2 ? i : i - 2);
        assert_true(device.threads >= 1);
    }
    rig_fails(sheaf_devices_configure(3, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "cannot be changed any more");
}

static void test_configure_is_refused(void **state)
{
    (void)state;
    sheaf_error err;
    rig_fails(sheaf_devices_configure(0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "0 logical devices");
    rig_fails(sheaf_devices_simulate("CPU", 1, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "'CPU'");
    rig_fails(sheaf_devices_simulate("gpu", 1, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "'gpu'");
    rig_fails(sheaf_devices_simulate("LONGTYPE", 1, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "LONG");
    rig_fails(sheaf_devices_simulate(NULL, 1, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "");
    /* A tensor is a use. */
    sheaf_int(1);
    rig_fails(sheaf_devices_configure(2, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "its 1 already");
}

/* Cores are dealt evenly, each to one device. */
static void test_cores(void **state)
{
    (void)state;
    sheaf_error err;
    int all[1024];
    size_t cores = sheaf__cpu_list(all, 1024);
    rig_ok(sheaf_devices_configure(2, &err), &err);
    struct sheaf__device *a = sheaf__device_at(0), *b = sheaf__device_at(1);
    if (cores >= 2) {
        assert_int_equal(a->cpu_count + b->cpu_count, cores);
        assert_int_equal(a->cpus[0], all[0]);
        assert_int_equal(b->cpus[0], all[a->cpu_count]);
    } else {
        assert_int_equal(a->cpus[0], b->cpus[0]);
    }
    assert_null(sheaf__device_at(2));
}

static void test_names(void **state)
{
    (void)state;
    sheaf_error err;
    rig_ok(sheaf_devices_configure(2, &err), &err);
    struct sheaf__device *one = sheaf__device_at(1);
    const char *good[] = {"CPU:1",
                          "cpu:1",
                          "/CPU:1",
                          "/device:CPU:1",
                          "/job:localhost/replica:0/task:0/device:CPU:1",
                          "/job:localhost/task:0/cpu:1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_ptr_equal(sheaf__device_find(good[i], &err), one);
    assert_ptr_equal(sheaf__device_find("CPU", &err), sheaf__device_at(0));
    const char *unknown[] = {"CPU:2",   "GPU:0",       "CPU:x",  "",
                             "CPU:0:1", "CPU:0/CPU:1", "CPU:-1", NULL};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_null(sheaf__device_find(unknown[i], &err));
        assert_int_equal(err.status, SHEAF_ERR_NOT_FOUND);
        assert_non_null(strstr(err.message, "there are /device:CPU:0, /device:CPU:1"));
    }
    assert_null(sheaf__device_find("/job:worker/task:3/device:CPU:0", &err));
    assert_non_null(strstr(err.message, "another task"));
    assert_null(sheaf__device_find("/job:localhost/task:1/device:CPU:0", &err));
}

/* "localhost" stays this process when the context becomes a task of a cluster. */
static void test_localhost_in_a_task(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf__context_set_task(sheaf__context(), "worker", 1);
    const char *good[] = {"/job:localhost/replica:0/task:0/device:CPU:0",
                          "/job:worker/device:CPU:0", "/job:worker/task:1/device:CPU:0", "CPU:0"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_ptr_equal(sheaf__device_find(good[i], &err), sheaf__device_at(0));
    assert_null(sheaf__device_find("/job:worker/task:0/device:CPU:0", &err));
    sheaf__context_set_task(sheaf__context(), "", -1);
}

/* Full names follow the task that the context becomes; those handed out stay valid. */
static void test_full_names(void **state)
{
    (void)state;
    sheaf_tensor *t = sheaf_int(1);
    const char *before = sheaf_tensor_device(t);
    assert_string_equal(before, "/job:localhost/replica:0/task:0/device:CPU:0");
    sheaf__context_set_task(sheaf__context(), "worker", 1);
    const char *after = sheaf_tensor_device(t);
    assert_string_equal(after, "/job:worker/replica:0/task:1/device:CPU:0");
    assert_string_equal(before, "/job:localhost/replica:0/task:0/device:CPU:0");
    assert_ptr_equal(sheaf_tensor_device(sheaf_int(2)), after);
    sheaf__context_set_task(sheaf__context(), "", -1);
    assert_ptr_equal(sheaf_tensor_device(t), before);
}

static const char *leave_by(int how)
{
    SHEAF_DEVICE("CPU:1")
    {
        if (how == 0)
            break;
        if (how == 1)
            return sheaf_tensor_device(sheaf_int(1));
        if (how == 2)
            goto out;
    }
out:
    return sheaf_tensor_device(sheaf_int(1));
}

/* S13: the block decides where operations run, however it is left. */
static void test_device_block(void **state)
{
    (void)state;
    sheaf_error err;
    rig_ok(sheaf_devices_configure(2, &err), &err);
    for (int how = 0; how < 4; how++) {
        const char *name = leave_by(how);
        assert_int_equal(name[strlen(name) - 1], how == 1 ? '1' : '0');
        assert_ptr_equal(sheaf__device_current(&err), sheaf__device_at(0));
    }
    SHEAF_DEVICE("CPU:1")
    {
        assert_ptr_equal(sheaf__device_current(&err), sheaf__device_at(1));
        SHEAF_DEVICE("CPU:0")
        {
            assert_ptr_equal(sheaf__device_current(&err), sheaf__device_at(0));
            SHEAF_DEVICE(NULL)
            {
                struct sheaf__device *before = sheaf__device_set_own(sheaf__device_at(1));
                assert_null(before);
                assert_ptr_equal(sheaf__device_current(&err), sheaf__device_at(1));
                sheaf__device_set_own(before);
                assert_ptr_equal(sheaf__device_current(&err), sheaf__device_at(0));
            }
        }
        assert_ptr_equal(sheaf__device_current(&err), sheaf__device_at(1));
    }
}

/* An unknown name fails the first operation, and says so. */
static void test_unknown_device_block(void **state)
{
    (void)state;
    sheaf_error err;
    SHEAF_DEVICE("GPU:7")
    {
        sheaf_tensor *t = sheaf_int(1);
        rig_fails(sheaf_tensor_status(t, &err), &err, SHEAF_ERR_NOT_FOUND, "'GPU:7'");
    }
    assert_int_equal(sheaf_tensor_status(sheaf_int(1), NULL), SHEAF_OK);
    sheaf_frame_clear();
}

static void test_to_device(void **state)
{
    (void)state;
    sheaf_error err;
    rig_ok(sheaf_devices_configure(2, &err), &err);
    int32_t data[] = {1, 2, 3};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_INT32, SHEAF_SHAPE(3), data);
    sheaf_tensor *same = sheaf_tensor_to_device(t, "CPU:0");
    assert_ptr_equal(sheaf_tensor_data(same), sheaf_tensor_data(t));
    sheaf_tensor *moved = sheaf_tensor_to_device(t, "CPU:1");
    assert_ptr_not_equal(sheaf_tensor_data(moved), sheaf_tensor_data(t));
    assert_memory_equal(sheaf_tensor_data(moved), data, sizeof(data));
    assert_string_equal(sheaf_tensor_device(moved), "/job:localhost/replica:0/task:0/device:CPU:1");
    assert_string_equal(sheaf_tensor_device(sheaf_tensor_rows(moved, 0, 1)),
                        sheaf_tensor_device(moved));
    /* Strings and their bytes. */
    sheaf_tensor *text = NULL;
    SHEAF_FRAME
    {
        text = sheaf_tensor_keep(sheaf_tensor_to_device(sheaf_string("abc"), "CPU:1"));
    }
    assert_memory_equal(sheaf_tensor_bytes(text, 0).data, "abc", 3);
    sheaf_tensor_free(text);
    const int64_t splits[] = {0, 1, 3};
    sheaf_tensor *row_splits = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), splits);
    sheaf_tensor *ragged = sheaf__tensor_give(sheaf__tensor_ragged(t, row_splits, &err), &err);
    ragged = sheaf_tensor_to_device(ragged, "CPU:1");
    assert_string_equal(sheaf_tensor_device(ragged->parts[0]), sheaf_tensor_device(moved));
    assert_int_equal(sheaf_tensor_status(sheaf_tensor_to_device(t, "CPU:9"), NULL),
                     SHEAF_ERR_NOT_FOUND);
    sheaf_frame_clear();
}

static void count_one(size_t i, void *user)
{
    _Atomic int *hits = user;
    atomic_fetch_add(&hits[i], 1);
}

static void test_run(void **state)
{
    (void)state;
    _Atomic int hits[100] = {0};
    struct sheaf__device *device = sheaf__device_host(NULL);
    for (int round = 0; round < 3; round++)
        sheaf__device_run(device, 100, count_one, hits);
    for (int i = 0; i < 100; i++)
        assert_int_equal(atomic_load(&hits[i]), 3);
    struct sheaf__pool *pool = sheaf__device_pool(device);
    assert_true(device->info.threads > 1 ? pool != NULL : pool == NULL);
    assert_ptr_equal(sheaf__device_pool(device), pool);
}

/* A thread remembers the tables of the context it used last, not those of one that is gone. */
static void test_contexts(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_context *mine = sheaf_context_enter(NULL);
    sheaf_context_enter(mine);
    for (int i = 1; i < 5; i++) {
        sheaf_context *context = NULL;
        rig_ok(sheaf_context_new(NULL, &context, &err), &err);
        sheaf_context_enter(context);
        rig_ok(sheaf_devices_configure(i, &err), &err);
        assert_int_equal(sheaf_devices_count(), i);
        sheaf_context_enter(mine);
        assert_int_equal(sheaf_devices_count(), 1);
        sheaf_context_enter(context);
        assert_int_equal(sheaf_devices_count(), i);
        sheaf_context_enter(mine);
        sheaf_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_default_device),
        rig_test(test_configure),
        rig_test(test_configure_is_refused),
        rig_test(test_cores),
        rig_test(test_names),
        rig_test(test_localhost_in_a_task),
        rig_test(test_full_names),
        rig_test(test_device_block),
        rig_test(test_unknown_device_block),
        rig_test(test_to_device),
        rig_test(test_run),
        rig_test(test_contexts),
    };
    return rig_run(tests);
}
