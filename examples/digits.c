/* SPDX-License-Identifier: Apache-2.0 */

/* Handwritten digits: reads TFRecords, trains a small network under any strategy, saves sharded
 * checkpoints, evaluates. The same program is every task of a cluster, and trains alone. */

#include "digits_options.h" /* the command line `o`, in_data(), summary(), … */
#include <sheaf/sheaf.h>

enum { PIXELS = 64, HIDDEN = 128, CLASSES = 10, BATCH = 64 };

static const sheaf_feature features[] = {
    {.key = "image", .dtype = SHEAF_INT64, .rank = 1, .dims = {PIXELS}},
    {.key = "label", .dtype = SHEAF_INT64},
};

enum { W1, B1, W2, B2, STEP, VARIABLES };
struct model {
    sheaf_variable *v[VARIABLES];
    sheaf_optimizer *optimizer;
    sheaf_dist_dataset *data;
    sheaf_checkpoint *checkpoint;
};

static sheaf_status model_make(struct model *m, sheaf_error *err)
{
    const sheaf_variable_options count = {.not_trainable = true,
                                          .aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    sheaf_initializer init = sheaf_init_glorot_uniform((uint64_t)o.seed), zero = sheaf_init_zeros();
    m->v[W1] = sheaf_variable_init("w1", SHEAF_FLOAT32, SHEAF_SHAPE(PIXELS, HIDDEN), init, NULL);
    m->v[B1] = sheaf_variable_init("b1", SHEAF_FLOAT32, SHEAF_SHAPE(HIDDEN), zero, NULL);
    m->v[W2] = sheaf_variable_init("w2", SHEAF_FLOAT32, SHEAF_SHAPE(HIDDEN, CLASSES), init, NULL);
    m->v[B2] = sheaf_variable_init("b2", SHEAF_FLOAT32, SHEAF_SHAPE(CLASSES), zero, NULL);
    m->v[STEP] = sheaf_variable_new("step", sheaf_long(0), &count);
    const sheaf_optimizer_options rate = {.learning_rate = o.learning_rate};
    m->optimizer = sheaf_optimizer_named(o.optimizer, &rate);
    m->checkpoint = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(m->checkpoint, m->v, VARIABLES);
    sheaf_checkpoint_add_optimizer(m->checkpoint, "optimizer", m->optimizer);
    return sheaf_optimizer_build(m->optimizer, m->v, VARIABLES, err);
}

static void model_free(struct model *m)
{
    sheaf_checkpoint_free(m->checkpoint);
    sheaf_dist_dataset_free(m->data);
    sheaf_optimizer_free(m->optimizer);
    for (int i = 0; i < VARIABLES; i++)
        sheaf_variable_free(m->v[i]);
}

static sheaf_tensor *logits(const struct model *m, const sheaf_element *in)
{
    sheaf_tensor *x = sheaf_cast(sheaf_element_get(in, "image"), SHEAF_FLOAT32);
    x = sheaf_dense(sheaf_scale(x, 1. / 16, 0), sheaf_value(m->v[W1]), sheaf_value(m->v[B1]),
                    SHEAF_ACTIVATION_RELU);
    return sheaf_dense(x, sheaf_value(m->v[W2]), sheaf_value(m->v[B2]), SHEAF_ACTIVATION_NONE);
}

/* One step on one replica: its share of the loss, and the gradients, summed over all replicas. */
static sheaf_status train_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    const struct model *m = user;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *loss = sheaf_average_loss(
        r, sheaf_sparse_softmax_cross_entropy(sheaf_element_get(in, "label"), logits(m, in)));
    sheaf_element_put(out, "loss", loss);
    sheaf_element_put(out, "step", sheaf_scale(sheaf_value(m->v[STEP]), 1, 1));
    sheaf_optimizer_minimize(m->optimizer, tape, loss); /* its errors are the step's */
    return sheaf_assign_add(m->v[STEP], sheaf_long(1), NULL);
}

static sheaf_dataset *training_data(void)
{
    const sheaf_list_files_options files = {.directory = o.data, .seed = o.seed, .complete = true};
    sheaf_dataset *d = sheaf_list_files("digits-train-*.tfrecord", &files);
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL,
                                 &(sheaf_interleave_options){.cycle_length = 4});
    d = sheaf_dataset_shuffle(d, 2000, &(sheaf_shuffle_options){.seed = o.seed});
    d = sheaf_dataset_batch(d, BATCH, NULL); /* the global batch */
    d = sheaf_dataset_parse_example(d, features, 2);
    return sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE);
}

/* What share of the test file is classified rightly. */
static sheaf_status evaluate(const struct model *m, double *accuracy, sheaf_error *err)
{
    sheaf_dataset *d = sheaf_tfrecord(in_data(TEST_FILE));
    d = sheaf_dataset_parse_example(sheaf_dataset_batch(d, BATCH, NULL), features, 2);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    int64_t right = 0, all = 0;
    sheaf_element *batch;
    SHEAF_EACH_ELEMENT(batch, it, err)
    {
        sheaf_tensor *labels = sheaf_element_get(batch, "label");
        sheaf_tensor *answers = sheaf_argmax(logits(m, batch), 1);
        sheaf_tensor *hits = sheaf_cast(sheaf_equal(answers, labels), SHEAF_INT64);
        right += sheaf_tensor_integer(sheaf_sum(hits), 0);
        all += sheaf_tensor_elements(labels);
        if (o.predict)
            printf("%s\n", sheaf_list_str(answers));
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    *accuracy = (double)right / (double)all;
    return err->status < 0 || all > 0 ? err->status : nothing_to_evaluate(err);
}

static void train(sheaf_strategy *s, struct model *m, sheaf_error *err)
{
    const sheaf_manager_options keep = {.max_to_keep = 3, .every_steps = 50, .save_on_stop = true};
    sheaf_step *step = sheaf_step_new(train_step, m, NULL);
    sheaf_checkpoint_manager *manager = NULL;
    sheaf_event_writer *events = NULL;
    const char *path = "";
    double loss = 0, accuracy, begin = seconds();
    m->data = sheaf_distribute_dataset(s, training_data(), NULL);
    sheaf_checkpoint_add(m->checkpoint, "input", sheaf_dist_dataset_trackable(m->data));
    if (sheaf_checkpoint_manager_new(m->checkpoint, o.out, &keep, &manager, err) < 0 ||
        sheaf_manager_restore(manager, NULL, err) < 0)
        goto out;
    int64_t now = sheaf_tensor_integer(sheaf_value(m->v[STEP]), 0), first = now;
    for (int64_t before = now; goes_on(manager, m->data); before = now) {
        sheaf_dist_iterator *it = sheaf_iterate(m->data);
        sheaf_values *batch, *result;
        sheaf_element *sum;
        SHEAF_EACH(batch, it, err)
        {
            if (sheaf_run_step(s, step, batch, &result, err) < 0 ||
                sheaf_reduce(s, SHEAF_REDUCE_SUM, result, NULL, 0, &sum, err) < 0)
                break;
            now = sheaf_tensor_integer(sheaf_values_get(result, 0, "step"), 0);
            loss = sheaf_tensor_number(sheaf_element_get(sum, "loss"), 0);
            if (sheaf_manager_step(manager, now, err) != SHEAF_OK)
                break; /* SHEAF_END: the job was asked to stop, and does so here in every worker */
        }
        sheaf_dist_iterator_free(it);
        if (err->status < 0 || (now > before && !sheaf_manager_stopped(manager) &&
                                report(s, m->data, &events, now, loss, err) < 0))
            goto out;
    }
    double rate = BATCH * (double)(now - first) / (seconds() - begin); /* not of the wait */
    if (sheaf_strategy_join(s, 0, err) < 0)
        goto out;
    now = sheaf_tensor_integer(sheaf_value(m->v[STEP]), 0); /* with the other workers' last */
    if (check_steps(manager, now, err) < 0 ||
        sheaf_manager_end(manager, now > first, &path, err) < 0 ||
        tell_if_stopped(manager, s, now, path) || !sheaf_strategy_should_checkpoint(s))
        goto out;
    if (evaluate(m, &accuracy, err) >= 0 &&
        (now == first || point(&events, "accuracy", now, accuracy, err) >= 0))
        summary(now, rate, loss, path, accuracy);
out:
    sheaf_event_writer_close(events, err->status < 0 ? NULL : err);
    sheaf_checkpoint_manager_free(manager);
    sheaf_step_free(step);
}

/* The evaluator: every new checkpoint it has time for. --predict: the newest, with its answers. */
static void follow(struct model *m, sheaf_error *err)
{
    double accuracy, patience = o.predict ? 0.1 : 60;
    const char *path = NULL;
    while (sheaf_checkpoint_restore_next(m->checkpoint, o.out, path, patience, &path, err) == 0 &&
           evaluate(m, &accuracy, err) >= 0)
        if (evaluated(path, accuracy))
            break;
}

int main(int argc, char **argv)
{
    sheaf_error err = {0};
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    struct model m = {0};
    parse_options(argc, argv);
    stop_on_signals();
    sheaf_status status = o.predict ? SHEAF_OK : sheaf_cluster_resolve(NULL, &cluster, &err);
    const bool trains = cluster && !sheaf_cluster_is(cluster, "evaluator");
    if (trains && sheaf_cluster_is(cluster, "ps"))
        status = sheaf_server_run(cluster, NULL, &err);
    else if (status >= 0 && (o.replicas == 0 || sheaf_devices_configure(o.replicas, &err) >= 0) &&
             sheaf_strategy_new(trains ? o.strategy : "one", cluster, NULL, &s, &err) >= 0) {
        SHEAF_SCOPE(s)
        {
            model_make(&m, &err); /* the variables live where the strategy says */
        }
        if (err.status >= 0 && trains && look_for_test_file(s, &err) >= 0)
            train(s, &m, &err);
        else if (err.status >= 0)
            follow(&m, &err);
    }
    const int code = tell(&err, trains || o.predict); /* while the strategy can tell others */
    model_free(&m);
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return finish(code);
}
