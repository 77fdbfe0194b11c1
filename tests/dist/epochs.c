/* SPDX-License-Identifier: Apache-2.0 */

/* A main job that keeps count of what it trained on, in a variable that is saved with the rest:
 *
 *     epochs DATA OUT EPOCHS NUMBERS REPLICAS
 *
 * The records in DATA hold the numbers below NUMBERS, each once. Every step adds the numbers of its batch to the row of its
 * worker (row 0, if all step together) of "counts", and says "step N", so many since the start. After every epoch each number
 * must have come as often as there were epochs, whatever happened to the job before. */

#include <sheaf/sheaf.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 8, ROWS = 4, EVERY = 7 };

static const sheaf_feature features[] = {{.key = "number", .dtype = SHEAF_INT64}};

struct job {
    const char *data, *out;
    int64_t epochs, numbers, row;
    sheaf_variable *counts, *step;
    sheaf_dist_dataset *input;
    sheaf_checkpoint *checkpoint;
};

static sheaf_dataset *input(const struct job *job)
{
    char pattern[4096];
    snprintf(pattern, sizeof(pattern), "%s/*.tfrecord", job->data);
    const sheaf_interleave_options four = {.cycle_length = 4};
    sheaf_dataset *d = sheaf_list_files(pattern, NULL);
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &four);
    d = sheaf_dataset_shuffle(d, 50, NULL);
    d = sheaf_dataset_batch(d, BATCH, NULL);
    d = sheaf_dataset_parse_example(d, features, 1);
    return sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE);
}

static sheaf_status count(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct job *job = user;
    const sheaf_tensor *batch = sheaf_element_get(in, "number");
    const sheaf_shape shape = SHEAF_SHAPE(ROWS, job->numbers);
    int64_t *ones = calloc((size_t)(ROWS * job->numbers), sizeof(*ones));
    sheaf_error err = {0};
    (void)r;
    (void)out;
    if (!ones)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    for (int64_t i = 0; i < sheaf_tensor_elements(batch); i++)
        ones[job->row * job->numbers + sheaf_tensor_integer(batch, i)]++;
    sheaf_status status =
        sheaf_assign_add(job->counts, sheaf_tensor_new(SHEAF_INT64, shape, ones), &err);
    free(ones);
    return status < 0 ? status : sheaf_assign_add(job->step, sheaf_long(1), &err);
}

static sheaf_status check(const struct job *job, sheaf_error *err)
{
    const int64_t epochs = sheaf_dist_dataset_passes(job->input);
    SHEAF_FRAME
    {
        const sheaf_tensor *counts = sheaf_value(job->counts);
        if (sheaf_tensor_status(counts, err) < 0)
            return err->status; /* whoever has it is gone */
        for (int64_t i = 0; i < job->numbers; i++) {
            const int64_t times = sheaf_tensor_integer(counts, job->row * job->numbers + i);
            if (times != epochs)
                return sheaf_error_set(err, SHEAF_ERR_INTERNAL,
                                       "number %lld came %lld times in %lld epochs", (long long)i,
                                       (long long)times, (long long)epochs);
        }
    }
    return SHEAF_OK;
}

static sheaf_status train(sheaf_strategy *s, struct job *job, sheaf_checkpoint_manager *manager,
                          sheaf_error *err)
{
    int64_t steps = 0;
    while (err->status >= 0 && sheaf_dist_dataset_passes(job->input) < job->epochs) {
        sheaf_dist_iterator *it = sheaf_iterate(job->input);
        sheaf_values *batch;
        SHEAF_EACH(batch, it, err)
        {
            if (sheaf_run(s, count, job, batch, NULL, err) < 0 ||
                sheaf_manager_step(manager, sheaf_tensor_integer(sheaf_value(job->step), 0), err) <
                    0)
                break;
            printf("step %lld\n", (long long)++steps);
            fflush(stdout);
        }
        sheaf_dist_iterator_free(it);
        if (err->status >= 0)
            check(job, err);
    }
    if (err->status < 0 || sheaf_strategy_join(s, 0, err) < 0)
        return err->status;
    return sheaf_manager_save(manager, true, NULL, err);
}

static sheaf_status run(sheaf_strategy *s, struct job *job, sheaf_error *err)
{
    static const sheaf_variable_options counter = {.not_trainable = true,
                                                   .aggregation = SHEAF_AGGREGATION_SUM};
    static const sheaf_variable_options one = {.not_trainable = true,
                                               .aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    const sheaf_manager_options keep = {.every_steps = EVERY, .max_to_keep = 3};
    sheaf_checkpoint_manager *manager = NULL;
    SHEAF_SCOPE(s)
    {
        job->counts = sheaf_variable_init("counts", SHEAF_INT64, SHEAF_SHAPE(ROWS, job->numbers),
                                          sheaf_init_zeros(), &counter);
        job->step = sheaf_variable_new("step", sheaf_long(0), &one);
    }
    job->input = sheaf_distribute_dataset(s, input(job), NULL);
    job->checkpoint = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(job->checkpoint, &job->counts, 1);
    sheaf_checkpoint_add_variables(job->checkpoint, &job->step, 1);
    sheaf_checkpoint_add(job->checkpoint, "input", sheaf_dist_dataset_trackable(job->input));
    if (sheaf_checkpoint_manager_new(job->checkpoint, job->out, &keep, &manager, err) >= 0 &&
        sheaf_manager_restore(manager, NULL, err) >= 0)
        train(s, job, manager, err);
    sheaf_checkpoint_manager_free(manager);
    sheaf_checkpoint_free(job->checkpoint);
    sheaf_dist_dataset_free(job->input);
    sheaf_variable_free(job->counts);
    sheaf_variable_free(job->step);
    return err->status;
}

int main(int argc, char **argv)
{
    sheaf_error err = {0};
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    if (argc != 6)
        return 2;
    struct job job = {
        .data = argv[1], .out = argv[2], .epochs = atoll(argv[3]), .numbers = atoll(argv[4])};
    if (sheaf_cluster_resolve(NULL, &cluster, &err) < 0)
        return sheaf_error_exit(&err);
    if (sheaf_cluster_is(cluster, "ps")) {
        (void)!sheaf_server_run(cluster, NULL, &err);
    } else if (sheaf_devices_configure(atoi(argv[5]), &err) >= 0 &&
               sheaf_strategy_new(NULL, cluster, NULL, &s, &err) >= 0) {
        if (sheaf_cluster_tasks(cluster, "ps") > 0)
            job.row = sheaf_cluster_worker_id(cluster);
        run(s, &job, &err);
    }
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return sheaf_error_exit(&err);
}
