/* SPDX-License-Identifier: Apache-2.0 */

/* A program of somebody else's, built through pkg-config as C and as C++ (tools/check-install): writes records, reads
 * them as a dataset, fits a line to them and says how well. */

#include <sheaf/sheaf.h>

#include <stdio.h>
#include <string.h>

static int write_records(const char *path, sheaf_error *err)
{
    sheaf_record_writer *writer = NULL;
    sheaf_example *example = sheaf_example_new();
    int status = sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &writer, err);
    for (int i = 0; i < 64 && status >= 0; i++) {
        float x = (float)i / 64, y = 3 * x + 1;
        sheaf_bytes message;
        sheaf_example_clear(example);
        sheaf_example_float(example, "x", &x, 1);
        sheaf_example_float(example, "y", &y, 1);
        status = sheaf_example_serialize(example, &message, err);
        if (status >= 0)
            status = sheaf_record_writer_put(writer, message, err);
    }
    if (writer && sheaf_record_writer_close(writer, false, status < 0 ? NULL : err) < 0)
        status = -1;
    sheaf_example_free(example);
    return status;
}

static sheaf_dataset *read_records(const char *path)
{
    sheaf_feature features[2];
    memset(features, 0, sizeof(features));
    features[0].key = "x";
    features[1].key = "y";
    features[0].dtype = features[1].dtype = SHEAF_FLOAT32;
    return sheaf_dataset_parse_example(sheaf_dataset_batch(sheaf_tfrecord(path), 16, NULL),
                                       features, 2);
}

static int fit(const char *path, double *slope, double *offset, sheaf_error *err)
{
    sheaf_variable *v[2] = {sheaf_variable_new("slope", sheaf_float(0), NULL),
                            sheaf_variable_new("offset", sheaf_float(0), NULL)};
    sheaf_optimizer *descent = sheaf_optimizer_named("momentum", NULL);
    sheaf_dataset *d = sheaf_dataset_repeat(read_records(path), 200);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *batch;
    SHEAF_EACH_ELEMENT(batch, it, err)
    {
        sheaf_tape *tape = sheaf_tape_start();
        sheaf_tensor *x = sheaf_element_get(batch, "x"), *y = sheaf_element_get(batch, "y");
        sheaf_tensor *line = sheaf_add(sheaf_mul(x, sheaf_value(v[0])), sheaf_value(v[1]));
        sheaf_optimizer_minimize(descent, tape, sheaf_mean(sheaf_square(sheaf_sub(line, y))));
        if (sheaf_frame_status(err) < 0)
            break;
    }
    *slope = sheaf_tensor_number(sheaf_value(v[0]), 0);
    *offset = sheaf_tensor_number(sheaf_value(v[1]), 0);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    sheaf_optimizer_free(descent);
    sheaf_variable_free(v[0]);
    sheaf_variable_free(v[1]);
    return err->status;
}

int main(int argc, char **argv)
{
    sheaf_error err;
    double slope = 0, offset = 0;
    memset(&err, 0, sizeof(err));
    if (sheaf_shape_elements(SHEAF_SHAPE(4, 1)) != 4 || SHEAF_SHAPE(2, 3, 4).rank != 3)
        return 2;
    if (argc != 2 || strcmp(sheaf_version(), SHEAF_VERSION) != 0)
        return 2;
    if (write_records(argv[1], &err) < 0 || fit(argv[1], &slope, &offset, &err) < 0)
        return sheaf_error_exit(&err);
    printf("%s %.2f %.2f\n", sheaf_version(), slope, offset);
    return 0;
}
