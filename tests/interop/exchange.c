/* SPDX-License-Identifier: Apache-2.0 */

/* What check.py gives to TensorFlow and TensorBoard, and takes from them. `exchange write DIR` writes
 * TFRecords, event files and checkpoints; `exchange read DIR` reads what TensorFlow wrote there, trains
 * one step further, and writes the result. Uses the public headers only. */

#include <sheaf/sheaf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sheaf_error err;

static void must(sheaf_status status)
{
    if (status < 0)
        exit(sheaf_error_exit(&err));
}

static const char *in(const char *directory, const char *name)
{
    static char path[4][4096];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s", directory, name);
    return p;
}

/* Records. */

static void write_records(const char *path, sheaf_compression compression)
{
    sheaf_record_writer *w = NULL;
    sheaf_example *x = sheaf_example_new();
    must(sheaf_record_writer_open(path, compression, &w, &err));
    for (int64_t i = 0; i < 5; i++) {
        char name[32];
        const float values[] = {(float)i / 4, -1.5f};
        const int64_t numbers[] = {i, -i, INT64_MIN + i};
        snprintf(name, sizeof(name), "record %d", (int)i);
        const sheaf_bytes text[] = {{name, strlen(name)}, {"\0\xff", 2}};
        sheaf_bytes message;
        sheaf_example_clear(x);
        sheaf_example_int64(x, "numbers", numbers, 3);
        sheaf_example_float(x, "values", values, 2);
        sheaf_example_bytes(x, "text", text, 2);
        must(sheaf_example_serialize(x, &message, &err));
        must(sheaf_record_writer_put(w, message, &err));
    }
    must(sheaf_record_writer_close(w, false, &err));
    sheaf_example_free(x);
}

static void read_records(const char *name, const char *path)
{
    static const sheaf_feature features[] = {
        {.key = "numbers", .dtype = SHEAF_INT64, .rank = 1, .dims = {3}},
        {.key = "values", .dtype = SHEAF_FLOAT32, .rank = 1, .dims = {2}},
    };
    sheaf_record_reader *r = NULL;
    sheaf_bytes record;
    sheaf_status status;
    int64_t count = 0, numbers = 0;
    double values = 0;
    must(sheaf_record_reader_open(path, SHEAF_COMPRESSION_AUTO, &r, &err));
    while ((status = sheaf_record_reader_next(r, &record, &err)) == SHEAF_OK) {
        sheaf_element *e = NULL;
        must(sheaf_example_parse(&record, 1, features, 2, &e, &err));
        for (int i = 0; i < 3; i++)
            numbers += sheaf_tensor_integer(sheaf_element_get(e, "numbers"), i);
        for (int i = 0; i < 2; i++)
            values += sheaf_tensor_number(sheaf_element_get(e, "values"), i);
        count++;
    }
    must(status);
    sheaf_record_reader_free(r);
    printf("%s %lld %lld %g\n", name, (long long)count, (long long)numbers, values);
}

static void count_records(const char *name, const char *path)
{
    sheaf_record_reader *r = NULL;
    sheaf_bytes record;
    sheaf_status status;
    int count = 0;
    must(sheaf_record_reader_open(path, SHEAF_COMPRESSION_AUTO, &r, &err));
    while ((status = sheaf_record_reader_next(r, &record, &err)) == SHEAF_OK)
        count++;
    must(status);
    sheaf_record_reader_free(r);
    printf("%s %d\n", name, count);
}

/* Events. */

static void write_events(const char *directory)
{
    sheaf_event_writer *w = NULL;
    must(sheaf_event_writer_open(directory, &w, &err));
    for (int64_t step = 0; step < 10; step++) {
        must(sheaf_event_scalar(w, "loss", step, 1.0 / (double)(step + 1), &err));
        must(sheaf_event_scalar(w, "accuracy", step, (double)step / 10, &err));
    }
    must(sheaf_event_writer_close(w, &err));
}

/* Checkpoints. */

/* Sharded by `policy`; NULL: one shard. */
static void write_values(const char *prefix, const sheaf_sharding_callback *policy)
{
    static const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64,  SHEAF_INT32,
                                         SHEAF_INT64,   SHEAF_BFLOAT16, SHEAF_BOOL};
    enum { COUNT = sizeof(dtypes) / sizeof(dtypes[0]) };
    sheaf_variable *v[COUNT];
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    const float values[] = {0, 1, 2, 3, 4, 5};
    for (int i = 0; i < COUNT; i++) {
        char name[64];
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), values);
        v[i] = sheaf_variable_new(sheaf_dtype_name(dtypes[i]), sheaf_cast(t, dtypes[i]), NULL);
        must(sheaf_variable_status(v[i], &err));
        snprintf(name, sizeof(name), "model/layer_%d/%s", i, sheaf_dtype_name(dtypes[i]));
        sheaf_checkpoint_add_variable(c, name, v[i]);
    }
    must(sheaf_checkpoint_save(c, prefix, &(sheaf_checkpoint_options){.sharding = policy}, NULL,
                               &err));
    sheaf_checkpoint_free(c);
    for (int i = 0; i < COUNT; i++)
        sheaf_variable_free(v[i]);
}

/* Two variables and an optimizer; the gradients of step `n` are those of check.py. */
struct trained {
    sheaf_variable *v[2];
    sheaf_optimizer *optimizer;
    sheaf_checkpoint *checkpoint;
};

static struct trained make(const char *rule)
{
    const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {-1, 0, 1};
    struct trained t = {
        {sheaf_variable_new("w", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), w), NULL),
         sheaf_variable_new("b", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), b), NULL)},
        sheaf_optimizer_named(rule, &(sheaf_optimizer_options){.learning_rate = 0.125}),
        sheaf_checkpoint_new()};
    must(sheaf_optimizer_build(t.optimizer, t.v, 2, &err));
    sheaf_checkpoint_add_variables(t.checkpoint, t.v, 2);
    sheaf_checkpoint_add_optimizer(t.checkpoint, "optimizer", t.optimizer);
    return t;
}

static void step(struct trained *t, int n)
{
    float w[6], b[3];
    for (int i = 0; i < 6; i++)
        w[i] = (float)(i - 2) * 0.25f + (float)n;
    for (int i = 0; i < 3; i++)
        b[i] = (float)(i + 1) * 0.5f - (float)n;
    SHEAF_FRAME
    {
        sheaf_tensor *gradients[] = {sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), w),
                                     sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), b)};
        must(sheaf_optimizer_apply(t->optimizer, t->v, gradients, 2, &err));
    }
}

static void finish(struct trained *t)
{
    sheaf_checkpoint_free(t->checkpoint);
    sheaf_optimizer_free(t->optimizer);
    sheaf_variable_free(t->v[0]);
    sheaf_variable_free(t->v[1]);
}

static const char *const rules[] = {"sgd",  "momentum", "adam",   "adagrad", "rmsprop",
                                    "ftrl", "adadelta", "adamax", "nadam",   "lion"};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* Saved after three steps, and after one more. */
static void write_trained(const char *directory, const char *rule)
{
    struct trained t = make(rule);
    char name[64];
    for (int n = 0; n < 3; n++)
        step(&t, n);
    must(sheaf_checkpoint_save(t.checkpoint, in(directory, rule), NULL, NULL, &err));
    const sheaf_sharding_callback split = sheaf_shard_max_size(8);
    snprintf(name, sizeof(name), "%s-split", rule);
    must(sheaf_checkpoint_write(t.checkpoint, in(directory, name),
                                &(sheaf_checkpoint_options){.sharding = &split}, &err));
    step(&t, 3);
    snprintf(name, sizeof(name), "%s-after", rule);
    must(sheaf_checkpoint_write(t.checkpoint, in(directory, name), NULL, &err));
    /* Over one that is there: its files have other names than those of the new one. */
    must(sheaf_checkpoint_write(t.checkpoint, in(directory, name), NULL, &err));
    finish(&t);
}

/* What TensorFlow saved after three steps in shards of some policy, and one more step of ours. */
static void read_trained(const char *directory, const char *rule, const char *policy)
{
    struct trained t = make(rule);
    char name[64];
    snprintf(name, sizeof(name), "tf-%s%s-1", rule, policy);
    must(sheaf_checkpoint_restore(t.checkpoint, in(directory, name), &err));
    printf("%s%s %lld\n", rule, policy, (long long)sheaf_optimizer_iterations(t.optimizer));
    step(&t, 3);
    snprintf(name, sizeof(name), "back-%s%s", rule, policy);
    must(sheaf_checkpoint_write(t.checkpoint, in(directory, name), NULL, &err));
    finish(&t);
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "write") != 0 && strcmp(argv[1], "read") != 0)) {
        fprintf(stderr, "usage: exchange write|read DIR\n");
        return 2;
    }
    const char *directory = argv[2];
    if (!strcmp(argv[1], "write")) {
        write_records(in(directory, "plain.tfrecord"), SHEAF_COMPRESSION_NONE);
        write_records(in(directory, "gzip.tfrecord"), SHEAF_COMPRESSION_GZIP);
        write_records(in(directory, "zlib.tfrecord"), SHEAF_COMPRESSION_ZLIB);
        write_records(in(directory, "snappy.tfrecord"), SHEAF_COMPRESSION_SNAPPY);
        write_events(in(directory, "events"));
        const sheaf_sharding_callback split = sheaf_shard_max_size(16),
                                      robin = sheaf_shard_round_robin(3);
        write_values(in(directory, "values"), NULL);
        write_values(in(directory, "split"), &split);
        write_values(in(directory, "robin"), &robin);
        for (int i = 0; i < RULES; i++)
            write_trained(directory, rules[i]);
    } else {
        read_records("plain", in(directory, "tf-plain.tfrecord"));
        read_records("gzip", in(directory, "tf-gzip.tfrecord"));
        read_records("zlib", in(directory, "tf-zlib.tfrecord"));
        read_records("snappy", in(directory, "tf-snappy.tfrecord"));
        count_records("events", in(directory, "tf-events.tfrecord"));
        for (int i = 0; i < RULES; i++) {
            read_trained(directory, rules[i], "");
            read_trained(directory, rules[i], "-task");
            read_trained(directory, rules[i], "-max");
        }
    }
    return 0;
}
