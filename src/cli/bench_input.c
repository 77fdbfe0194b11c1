/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/sheaf.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Input pipelines over the files that bench/peers/make_data.py writes: the best of three passes,
 * in records a second, counted as the peers count: elements times the size of a batch. */

enum { TIMES = 3, FILES = 4 };

static struct {
    char names[2][FILES][4200];
    const char *paths[2][FILES];
} files;

static const sheaf_feature CTR[] = {
    {.key = "label", .dtype = SHEAF_INT64},
    {.key = "dense", .dtype = SHEAF_FLOAT32, .rank = 1, .dims = {13}},
    {.key = "cat", .dtype = SHEAF_INT64, .rank = 1, .dims = {26}},
};

static sheaf_dataset *parse(sheaf_dataset *d)
{
    return sheaf_dataset_prefetch(sheaf_dataset_parse_example(d, CTR, 3), SHEAF_AUTOTUNE);
}

static sheaf_dataset *raw_ctr(void)
{
    return sheaf_dataset_batch(sheaf_tfrecord_files(files.paths[0], FILES), 4096, NULL);
}

static sheaf_dataset *raw_img(void)
{
    return sheaf_dataset_batch(sheaf_tfrecord_files(files.paths[1], FILES), 512, NULL);
}

static sheaf_dataset *parse_ctr(void)
{
    return parse(sheaf_dataset_batch(sheaf_tfrecord_files(files.paths[0], FILES), 512, NULL));
}

static sheaf_dataset *parse_single_ctr(void)
{
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[0], FILES);
    d = sheaf_dataset_batch(sheaf_dataset_parse_example(d, CTR, 3), 512, NULL);
    return sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE);
}

static sheaf_dataset *shuffle_ctr(void)
{
    const sheaf_shuffle_options seed = {.seed = 1};
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[0], FILES);
    return parse(sheaf_dataset_batch(sheaf_dataset_shuffle(d, 10000, &seed), 512, NULL));
}

static sheaf_dataset *interleave_ctr(void)
{
    const sheaf_interleave_options four = {
        .cycle_length = FILES, .parallel = SHEAF_AUTOTUNE, .unordered = true};
    sheaf_bytes names[FILES];
    for (int i = 0; i < FILES; i++)
        names[i] = (sheaf_bytes){files.paths[0][i], strlen(files.paths[0][i])};
    sheaf_tensor *paths = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(FILES), names);
    sheaf_dataset *d = sheaf_dataset_from_slices(sheaf_element_of(paths));
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &four);
    return parse(sheaf_dataset_batch(d, 512, NULL));
}

static sheaf_status twice(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_scale(sheaf_element_get(in, NULL), 2, 0));
}

static sheaf_dataset *range_map_batch(void)
{
    const sheaf_map_options parallel = {.parallel = SHEAF_AUTOTUNE};
    sheaf_dataset *d = sheaf_dataset_range(0, 2000000, 1);
    return sheaf_dataset_batch(sheaf_dataset_map(d, twice, NULL, &parallel), 128, NULL);
}

/* ---- measuring ---- */

static const struct {
    const char *work;
    sheaf_dataset *(*make)(void);
    int64_t unit; /* records of an element */
} WORKS[] = {
    {"raw read ctr", raw_ctr, 4096},
    {"raw read img", raw_img, 512},
    {"read+batch+parse ctr (vectorised)", parse_ctr, 512},
    {"interleave+batch+parse ctr", interleave_ctr, 512},
    {"read+parse_single+batch ctr", parse_single_ctr, 512},
    {"read+shuffle10k+batch+parse ctr", shuffle_ctr, 512},
    {"range map batch", range_map_batch, 128},
};

/* One pass over the dataset; returns its elements. */
static int64_t pass(sheaf_dataset *d, sheaf_error *err)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    int64_t elements = 0;
    SHEAF_EACH_ELEMENT(e, it, err)
    {
        elements++;
    }
    sheaf_iterator_free(it);
    return elements;
}

int sheaf__bench_input(const struct sheaf__bench_options *options)
{
    static const char *const KINDS[] = {"ctr", "img"};
    sheaf_error err = {0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < FILES; i++) {
            snprintf(files.names[k][i], sizeof(files.names[k][i]),
                     "%.4000s/%s-%05d-of-%05d.tfrecord", options->data, KINDS[k], i, FILES);
            files.paths[k][i] = files.names[k][i];
        }
    for (size_t w = 0; w < sizeof(WORKS) / sizeof(WORKS[0]); w++) {
        double best = 0;
        for (int i = 0; i < TIMES && err.status >= 0; i++)
            SHEAF_FRAME
            {
                sheaf_dataset *d = WORKS[w].make();
                double begin = sheaf__bench_now();
                int64_t elements = pass(d, &err);
                best =
                    fmax(best, (double)(elements * WORKS[w].unit) / (sheaf__bench_now() - begin));
                sheaf_dataset_free(d);
            }
        if (err.status < 0)
            return sheaf__bench_failed(&err);
        sheaf__bench_print(best, "records/s", "%s", WORKS[w].work);
    }
    return 0;
}
