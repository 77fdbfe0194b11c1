/* SPDX-License-Identifier: Apache-2.0 */

/* A table of more than 2^31 elements over parameter servers: made where it lives, looked up in, saved, and restored into other
 * parts. Takes a minute or two, most of it for the disk, 6 GB of memory and 3 GB of files. */

#include "helpers.h"

enum { COLUMNS = 9, PLACES = 5 };
static const int64_t rows = (INT64_C(1) << 28) + 5, elements = ((INT64_C(1) << 28) + 5) * COLUMNS;

static uint8_t value_of(uint64_t element)
{
    return (uint8_t)((element * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static void fill(void *data, const sheaf_initial_part *part, uint64_t seed, const double *args)
{
    uint8_t *out = data;
    (void)seed;
    (void)args;
    for (uint64_t i = 0; i < part->count; i++)
        out[i] = value_of(part->first + i);
}

struct job {
    int parts;
    const char *path;
    bool saves; /* else it restores */
};

/* Rows at both ends, and where the number of an element outgrows 32 bits. */
static sheaf_status check_rows(struct rig_task *task, sheaf_variable *v)
{
    const int64_t edge = (INT64_C(1) << 31) / COLUMNS;
    const int64_t ids[PLACES] = {rows - 1, 0, edge, edge + 1, rows / 2};
    sheaf_tensor *found =
        sheaf_embedding_lookup(v, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(PLACES), ids));
    const uint8_t *data = sheaf_tensor_data(found);
    RIG_CHECK(task, data);
    for (int i = 0; i < PLACES; i++)
        for (int k = 0; k < COLUMNS; k++)
            RIG_CHECK(task,
                      data[i * COLUMNS + k] == value_of((uint64_t)ids[i] * COLUMNS + (uint64_t)k));
    return SHEAF_OK;
}

static sheaf_status check_all(struct rig_task *task, sheaf_variable *v)
{
    const uint8_t *data = sheaf_tensor_data(sheaf_value(v));
    RIG_CHECK(task, data);
    for (int64_t i = 0; i < elements; i++)
        RIG_CHECK(task, data[i] == value_of((uint64_t)i));
    return SHEAF_OK;
}

static sheaf_status work(struct rig_task *task, sheaf_strategy *s)
{
    const struct job *job = task->user;
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_init(
            "table", SHEAF_UINT8, SHEAF_SHAPE(rows, COLUMNS),
            job->saves ? (sheaf_initializer){.fill = fill, .seed = 1} : sheaf_init_zeros(), NULL);
    }
    RIG_CHECK(task, sheaf_variable_parts(v) == job->parts);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "table", v);
    sheaf_status status = job->saves ? sheaf_checkpoint_write(c, job->path, NULL, &task->err)
                                     : sheaf_checkpoint_restore(c, job->path, &task->err);
    sheaf_checkpoint_free(c);
    if (status >= 0)
        status = check_rows(task, v);
    if (status >= 0 && !job->saves)
        SHEAF_FRAME
        {
            status = check_all(task, v);
        }
    sheaf_variable_free(v);
    return status;
}

static sheaf_status worker(struct rig_task *task)
{
    const struct job *job = task->user;
    const sheaf_strategy_options options = {
        .deadline = 300, .variable_partitioner = sheaf_partitioner_fixed(job->parts)};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    if (status >= 0)
        status = work(task, s);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* T56's beyond the sizes of an int */
static void test_more_than_an_int(void **state)
{
    (void)state;
    struct job job = {.parts = 5, .path = rig_path("x"), .saves = true};
    assert_true(elements > INT64_C(1) << 31);
    run_cluster((struct jobs){.worker = 1, .ps = 2}, worker, &job, 600);
    job = (struct job){.parts = 3, .path = rig_path("x")};
    run_cluster((struct jobs){.worker = 1, .ps = 2}, worker, &job, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_more_than_an_int)};
    return rig_run(tests);
}
