/* SPDX-License-Identifier: Apache-2.0 */

/* Distributed input in one process, by rows of the requirements: S71, S72, S111-S113, S116, S122, S151, S156, S158, S195. */

#include "helpers.h"

#include "tensor/heap.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sheaf_dataset *range_batch(int64_t n, int64_t size)
{
    return sheaf_dataset_batch(sheaf_dataset_range(0, n, 1), size, NULL);
}

static int count_lines(const char *log, const char *part)
{
    int lines = 0;
    for (const char *at = log; (at = strstr(at, part)) != NULL; at++)
        lines++;
    return lines;
}

/* ---- arrays ---- */

/* S71: it is there, and that it is deprecated is said once */
static void test_S71_deprecated(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    for (int i = 0; i < 3; i++) {
        sheaf_element *ten = sheaf_element_of(sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(10)));
        sheaf_dataset *d = sheaf_make_numpy_dataset(s, ten);
        assert_int_equal(sheaf_dataset_cardinality(d), 10);
        sheaf_dataset_free(d);
    }
    assert_int_equal(count_lines(rig_log_take(), "deprecated"), 1);
    sheaf_strategy_free(s);
}

/* Bytes of the process that are in memory. */
static int64_t resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void release(void *data, void *user)
{
    munmap(data, *(size_t *)user);
}

/* S72: an array of 1 GiB goes to the replicas without a copy: what they get lies in it, and the process does not grow */
static void test_S72_no_copy_of_arrays(void **state)
{
    (void)state;
    enum { ROWS = 1024, FLOATS = 1 << 18 };
    sheaf_error err = {0};
    size_t size = (size_t)ROWS * FLOATS * sizeof(float);
    char *array = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(array != MAP_FAILED);
    sheaf_strategy *s = mirrored(2);
    const int64_t before = resident();
    sheaf_tensor *t =
        sheaf_tensor_wrap(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, FLOATS), array, release, &size);
    sheaf_dataset *d = sheaf_make_numpy_dataset(s, sheaf_element_of(t));
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, sheaf_dataset_batch(d, 64, NULL), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    sheaf_values *v;
    int64_t rows = 0;
    SHEAF_EACH(v, it, &err)
    {
        for (int r = 0; r < 2; r++) {
            const sheaf_tensor *part = sheaf_values_get(v, r, NULL);
            const char *row = array + (size_t)rows * FLOATS * sizeof(float);
            assert_ptr_equal(sheaf_tensor_data(part), row);
            rows += sheaf_tensor_shape(part).dims[0];
        }
    }
    rig_ok(err.status, &err);
    assert_int_equal(rows, ROWS);
    assert_true(resident() - before < (int64_t)size / 8);
    rig_log_take(); /* S71 */
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
    sheaf_frame_clear();
}

/* ---- steps ---- */

/* S111, S112: a step takes exactly one global batch, by the for-each loop and by an explicit iterator */
static void test_S112_both_forms(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(4);
    sheaf_dist_dataset *d = sheaf_distribute_dataset(s, range_batch(100, 16), NULL);
    sheaf_dist_iterator *each = sheaf_iterate(d), *one = sheaf_iterate(d);
    sheaf_values *v, *w;
    int64_t steps = 0;
    SHEAF_EACH(v, each, &err)
    {
        int64_t rows = 0;
        rig_ok(sheaf_next(one, &w, &err), &err);
        assert_string_equal(sheaf_values_str(v), sheaf_values_str(w));
        for (int r = 0; r < 4; r++)
            rows += sheaf_tensor_elements(sheaf_values_get(v, r, NULL));
        assert_int_equal(rows, steps < 6 ? 16 : 4);
        assert_int_equal(sheaf_values_examples(v), rows);
        assert_int_equal(sheaf_tensor_integer(sheaf_values_get(v, 0, NULL), 0), 16 * steps++);
    }
    rig_ok(err.status, &err);
    assert_int_equal(steps, 7);
    assert_int_equal(sheaf_next(one, &w, &err), SHEAF_END);
    sheaf_dist_iterator_free(one);
    sheaf_dist_iterator_free(each);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
}

/* S113: what is distributed is another type than a dataset: builders of stages and what looks into datasets do not take it */
static void test_S113_no_dataset(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *d = sheaf_distribute_dataset(s, range_batch(4, 2), NULL);
#define TAKES(function, x) _Generic((x), sheaf_dataset * : (function) != NULL, default : false)
    assert_true(TAKES(sheaf_dataset_batch, (sheaf_dataset *)NULL));
    assert_false(TAKES(sheaf_dataset_batch, d));
    assert_false(TAKES(sheaf_dataset_map, d));
    assert_false(TAKES(sheaf_dataset_get_options, d));
    assert_false(TAKES(sheaf_dataset_iterate, d));
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
}

static sheaf_status identity(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    (void)r;
    ++*(int *)user;
    return sheaf_element_put(out, "", only(in));
}

/* S151: several steps in one call: of 7 batches the second call of 5 gets its error at the eighth, after the steps 6 and 7
 * took effect; with optionals (S152) all 7 are made and there is no error */
static void test_S151_host_training_loop(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int calls = 0;
    sheaf_values *v;
    sheaf_optional *o;
    sheaf_strategy *s = mirrored(1);
    sheaf_dist_dataset *d = sheaf_distribute_dataset(s, range_batch(7, 1), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status found[2] = {SHEAF_OK, SHEAF_OK};
    for (int call = 0; call < 2; call++)
        for (int i = 0; i < 5 && found[call] >= 0; i++) {
            found[call] = sheaf_get_next(it, &v, &err);
            if (found[call] >= 0)
                rig_ok(sheaf_run(s, identity, &calls, v, NULL, &err), &err);
        }
    assert_int_equal(found[0], SHEAF_OK);
    assert_int_equal(found[1], SHEAF_ERR_OUT_OF_RANGE);
    assert_int_equal(calls, 7);
    sheaf_dist_iterator_free(it);
    it = sheaf_iterate(d);
    calls = 0;
    for (int i = 0; i < 10; i++) {
        rig_ok(sheaf_get_next_as_optional(it, &o, &err), &err);
        if (!sheaf_optional_has_value(o))
            break;
        rig_ok(sheaf_optional_value(o, &v, &err), &err);
        rig_ok(sheaf_run(s, identity, &calls, v, NULL, &err), &err);
    }
    assert_int_equal(calls, 7);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
}

/* ---- types ---- */

/* S156, S158: dataset and iterator have one spec, which stands for one replica or for many */
static void test_S156_specs(void **state)
{
    (void)state;
    static const char one[] = "TensorSpec(shape=(None,), dtype=tf.int64, name=None)";
    char expected[512];
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(3, &err), &err);
    for (int replicas = 1; replicas <= 3; replicas++) {
        const char *devices[] = {"CPU:0", "CPU:1", "CPU:2", NULL};
        const sheaf_strategy_options options = {.devices = devices};
        sheaf_strategy *s = NULL;
        devices[replicas] = NULL;
        rig_ok(sheaf_strategy_new("mirrored", NULL, &options, &s, &err), &err);
        sheaf_dist_dataset *d = sheaf_distribute_dataset(s, range_batch(8, 4), NULL);
        sheaf_dist_iterator *it = sheaf_iterate(d);
        assert_ptr_equal(sheaf_dist_iterator_element_spec(it), sheaf_dist_dataset_element_spec(d));
        int n = snprintf(expected, sizeof(expected), "%s", replicas > 1 ? "PerReplicaSpec(" : "");
        for (int r = 0; r < replicas; r++)
            n += snprintf(expected + n, sizeof(expected) - (size_t)n, "%s%s", r ? ", " : "", one);
        snprintf(expected + n, sizeof(expected) - (size_t)n, "%s", replicas > 1 ? ")" : "");
        assert_string_equal(sheaf_dist_dataset_element_spec_str(d), expected);
        assert_non_null(strstr(sheaf_dist_iterator_str(it), expected));
        sheaf_dist_iterator_free(it);
        sheaf_dist_dataset_free(d);
        sheaf_strategy_free(s);
    }
}

/* ---- what is said ---- */

/* S116, P6.7: which devices are used, at level INFO, and not at the level above */
static void test_S116_devices_in_the_log(void **state)
{
    (void)state;
    sheaf_strategy_free(mirrored(2));
    assert_string_equal(rig_log_take(), "");
    rig_log_from(SHEAF_LOG_INFO);
    sheaf_strategy_free(strategy("mirrored"));
    assert_non_null(strstr(rig_log_take(), "Using MirroredStrategy with devices "
                                           "('/job:localhost/replica:0/task:0/device:CPU:0', "
                                           "'/job:localhost/replica:0/task:0/device:CPU:1')\n"));
}

/* S195: nothing warns of calls that are not compiled: there is no other way of running them */
static void test_S195_eager_calls(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int calls = 0;
    sheaf_values *out = NULL;
    sheaf_strategy *s = mirrored(1);
    for (int i = 0; i < 10; i++)
        rig_ok(sheaf_run(s, identity, &calls, sheaf_values_tensor(sheaf_int(i)), &out, &err), &err);
    assert_int_equal(calls, 10);
    assert_string_equal(rig_log_take(), "");
    sheaf_strategy_free(s);
}

/* ---- memory ---- */

/* The most bytes of tensors at once in a pass over batches of 1 MiB in `replicas` parts. */
static int64_t peak(int replicas)
{
    enum { ROWS = 1 << 17 };
    sheaf_error err = {0};
    sheaf_values *v;
    const char *devices[] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4",
                             "CPU:5", "CPU:6", "CPU:7", NULL};
    const sheaf_strategy_options options = {.devices = devices};
    sheaf_strategy *s = NULL;
    devices[replicas] = NULL;
    rig_ok(sheaf_strategy_new("mirrored", NULL, &options, &s, &err), &err);
    sheaf_dist_dataset *d =
        sheaf_distribute_dataset(s, range_batch((int64_t)ROWS * 40, ROWS), NULL);
    const int64_t before = (int64_t)sheaf__heap_stats(sheaf__heap_current(&err)).live_bytes;
    int64_t most = 0;
    sheaf_dist_iterator *it = sheaf_iterate(d);
    SHEAF_EACH(v, it, &err)
    {
        const int64_t live = (int64_t)sheaf__heap_stats(sheaf__heap_current(&err)).live_bytes;
        most = live - before > most ? live - before : most;
    }
    rig_ok(err.status, &err);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return most;
}

/* S122: the parts of a batch are views of it, so that more replicas need no more memory: a few batches, whatever their number */
static void test_S122_memory_of_parts(void **state)
{
    (void)state;
    const int64_t batch = 1 << 20;
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(8, &err), &err);
    for (int replicas = 1; replicas <= 8; replicas *= 2) {
        const int64_t most = peak(replicas);
        print_message("%d replicas: at most %lld bytes at once\n", replicas, (long long)most);
        assert_true(most >= batch);
        assert_true(most <= 5 * batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S71_deprecated),          rig_test(test_S72_no_copy_of_arrays),
        rig_test(test_S112_both_forms),         rig_test(test_S113_no_dataset),
        rig_test(test_S151_host_training_loop), rig_test(test_S156_specs),
        rig_test(test_S116_devices_in_the_log), rig_test(test_S195_eager_calls),
        rig_test(test_S122_memory_of_parts),
    };
    return rig_run(tests);
}
