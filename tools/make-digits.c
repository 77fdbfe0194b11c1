/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the records of examples/data from the table of handwritten digits:
 *
 *     cc tools/make-digits.c -o make-digits $(pkg-config --cflags --libs sheaf)
 *     ./make-digits digits.csv examples/data
 *
 * A line of the table is 64 pixels and the label. Every fifth is for testing, the others go to the
 * training files in turns. */
#include <sheaf/sheaf.h>

#include <stdio.h>

#define PIXELS 64
#define SHARDS 4

/* One line of the table; false at its end. */
static bool read_line(FILE *table, int64_t pixels[PIXELS], int64_t *label)
{
    long v;
    for (int i = 0; i <= PIXELS; i++) {
        if (fscanf(table, i ? ",%ld" : "%ld", &v) != 1)
            return false;
        *(i < PIXELS ? &pixels[i] : label) = v;
    }
    return true;
}

static sheaf_status copy(FILE *table, sheaf_record_writer **shards, sheaf_record_writer *test,
                         sheaf_error *err)
{
    sheaf_example *x = sheaf_example_new();
    int64_t pixels[PIXELS], label;
    sheaf_status status = SHEAF_OK;
    for (int line = 0, trained = 0; status >= 0 && read_line(table, pixels, &label); line++) {
        sheaf_bytes message;
        sheaf_example_clear(x);
        sheaf_example_int64(x, "image", pixels, PIXELS);
        sheaf_example_int64(x, "label", &label, 1);
        status = sheaf_example_serialize(x, &message, err);
        sheaf_record_writer *to = line % 5 == 4 ? test : shards[trained++ % SHARDS];
        if (status >= 0)
            status = sheaf_record_writer_put(to, message, err);
    }
    sheaf_example_free(x);
    return status;
}

static sheaf_status close_all(sheaf_record_writer **writers, int count, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < count; i++) {
        sheaf_status closed = sheaf_record_writer_close(writers[i], false, err);
        status = status < 0 ? status : closed;
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: make-digits TABLE FOLDER\n");
        return 2;
    }
    FILE *table = fopen(argv[1], "r");
    if (!table) {
        perror(argv[1]);
        return 1;
    }
    sheaf_error err = {0};
    sheaf_record_writer *writers[SHARDS + 1] = {0};
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i <= SHARDS && status >= 0; i++) {
        char path[4096];
        if (i < SHARDS)
            snprintf(path, sizeof(path), "%s/digits-train-%05d-of-%05d.tfrecord", argv[2], i,
                     SHARDS);
        else
            snprintf(path, sizeof(path), "%s/digits-test.tfrecord", argv[2]);
        status = sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &writers[i], &err);
    }
    if (status >= 0)
        status = copy(table, writers, writers[SHARDS], &err);
    fclose(table);
    sheaf_error closing = {0};
    sheaf_status closed = close_all(writers, SHARDS + 1, &closing);
    if (status >= 0 && closed < 0)
        err = closing;
    return status < 0 || closed < 0 ? sheaf_error_exit(&err) : 0;
}
