/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/sheaf.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Input pipelines over the files that bench/peers/make_data.py writes. A work is a job that may be
 * done in several forms, of which the best counts: passes over one dataset. The first pass, which is not
 * timed, adds up everything that comes out, so that the sides can be compared (bench/peers/tally.py has
 * the same rules). */

enum { FILES = 4, RANGE = 200000, SHUFFLE = 10000, MODULUS = 1009, FORMS = 3 };

/* A form runs again until so many seconds are over. */
#define LEAST_SECONDS 0.5

static struct {
    char names[2][FILES][4200];
    const char *paths[2][FILES];
} files;
enum { CTR, IMG };

static const sheaf_feature CTR_FEATURES[] = {
    {.key = "label", .dtype = SHEAF_INT64},
    {.key = "dense", .dtype = SHEAF_FLOAT32, .rank = 1, .dims = {13}},
    {.key = "cat", .dtype = SHEAF_INT64, .rank = 1, .dims = {26}},
};
static const sheaf_feature IMG_FEATURES[] = {
    {.key = "image", .dtype = SHEAF_STRING},
    {.key = "label", .dtype = SHEAF_INT64},
};

/* ---- pipelines ---- */

static sheaf_dataset *raw_ctr(void)
{
    return sheaf_dataset_batch(sheaf_tfrecord_files(files.paths[CTR], FILES), 4096, NULL);
}

static sheaf_dataset *raw_img(void)
{
    return sheaf_dataset_batch(sheaf_tfrecord_files(files.paths[IMG], FILES), 512, NULL);
}

/* Datasets of one file each, read at once. */
static sheaf_dataset *interleaved(int kind, sheaf_open_fn open)
{
    const sheaf_interleave_options four = {
        .cycle_length = FILES, .parallel = SHEAF_AUTOTUNE, .unordered = true};
    sheaf_bytes names[FILES];
    for (int i = 0; i < FILES; i++)
        names[i] = (sheaf_bytes){files.paths[kind][i], strlen(files.paths[kind][i])};
    sheaf_tensor *paths = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(FILES), names);
    sheaf_dataset *d = sheaf_dataset_from_slices(sheaf_element_of(paths));
    return sheaf_dataset_interleave(d, open, NULL, &four);
}

static sheaf_dataset *open_4096(const sheaf_element *in, void *user)
{
    return sheaf_dataset_batch(sheaf_open_tfrecord(in, user), 4096, NULL);
}

static sheaf_dataset *open_512(const sheaf_element *in, void *user)
{
    return sheaf_dataset_batch(sheaf_open_tfrecord(in, user), 512, NULL);
}

static sheaf_dataset *raw_ctr_at_once(void)
{
    return interleaved(CTR, open_4096);
}

static sheaf_dataset *raw_img_at_once(void)
{
    return interleaved(IMG, open_512);
}

/* Batches parsed, and made ahead. */
static sheaf_dataset *parsed(sheaf_dataset *d)
{
    d = sheaf_dataset_parse_example(d, CTR_FEATURES, 3);
    return sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE);
}

static sheaf_dataset *parse_ctr(void)
{
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[CTR], FILES);
    return parsed(sheaf_dataset_batch(d, 512, NULL));
}

static sheaf_dataset *parse_ctr_at_once(void)
{
    return parsed(sheaf_dataset_prefetch(interleaved(CTR, open_512), SHEAF_AUTOTUNE));
}

/* Each thread parses what it has read. */
static sheaf_dataset *open_parsed(const sheaf_element *in, void *user)
{
    return sheaf_dataset_parse_example(open_512(in, user), CTR_FEATURES, 3);
}

static sheaf_dataset *parse_ctr_inside(void)
{
    return interleaved(CTR, open_parsed);
}

static sheaf_dataset *shuffle_ctr(void)
{
    const sheaf_shuffle_options seed = {.seed = 1};
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[CTR], FILES);
    return parsed(sheaf_dataset_batch(sheaf_dataset_shuffle(d, SHUFFLE, &seed), 512, NULL));
}

/* The wrong way round: the buffer holds parsed elements (S190). */
static sheaf_dataset *shuffle_parsed_ctr(void)
{
    const sheaf_shuffle_options seed = {.seed = 1};
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[CTR], FILES);
    d = sheaf_dataset_shuffle(sheaf_dataset_parse_example(d, CTR_FEATURES, 3), SHUFFLE, &seed);
    return sheaf_dataset_prefetch(sheaf_dataset_batch(d, 512, NULL), SHEAF_AUTOTUNE);
}

/* One thread makes batches, another parses them. */
static sheaf_dataset *shuffle_ctr_in_two(void)
{
    const sheaf_shuffle_options seed = {.seed = 1};
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[CTR], FILES);
    d = sheaf_dataset_batch(sheaf_dataset_shuffle(d, SHUFFLE, &seed), 512, NULL);
    return parsed(sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE));
}

/* One reads, one makes batches, one parses them. */
static sheaf_dataset *shuffle_ctr_in_three(void)
{
    const sheaf_shuffle_options seed = {.seed = 1};
    sheaf_dataset *d = sheaf_dataset_prefetch(sheaf_tfrecord_files(files.paths[CTR], FILES), 4096);
    d = sheaf_dataset_batch(sheaf_dataset_shuffle(d, SHUFFLE, &seed), 512, NULL);
    return parsed(sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE));
}

static sheaf_status scale_image(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    sheaf_tensor *pixels = sheaf_cast(sheaf_element_get(in, "image"), SHEAF_FLOAT32);
    sheaf_element_put(out, "image", sheaf_scale(pixels, 1 / 255.0, 0));
    return sheaf_element_put(out, "label", sheaf_element_get(in, "label"));
}

static sheaf_dataset *decode_img(void)
{
    const sheaf_map_options parallel = {.parallel = SHEAF_AUTOTUNE};
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[IMG], FILES);
    d = sheaf_dataset_parse_example(sheaf_dataset_batch(d, 128, NULL), IMG_FEATURES, 2);
    d = sheaf_dataset_decode_raw(d, "image", SHEAF_UINT8, NULL);
    return sheaf_dataset_prefetch(sheaf_dataset_map(d, scale_image, NULL, &parallel),
                                  SHEAF_AUTOTUNE);
}

/* The plain program, and what the library's optimizations make of it (S188). */
static sheaf_dataset *plain_img(void)
{
    sheaf_dataset *d = sheaf_tfrecord_files(files.paths[IMG], FILES);
    d = sheaf_dataset_parse_example(sheaf_dataset_batch(d, 128, NULL), IMG_FEATURES, 2);
    d = sheaf_dataset_decode_raw(d, "image", SHEAF_UINT8, NULL);
    return sheaf_dataset_map(d, scale_image, NULL, NULL);
}

static sheaf_dataset *parallel_maps_img(void)
{
    const sheaf_dataset_options on = {.optimizations = {.parallel_maps = true}};
    return sheaf_dataset_with_options(plain_img(), &on);
}

static sheaf_dataset *inject_prefetch_img(void)
{
    const sheaf_dataset_options on = {.optimizations = {.inject_prefetch = true}};
    return sheaf_dataset_with_options(plain_img(), &on);
}

static sheaf_status twice(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_scale(sheaf_element_get(in, NULL), 2, 0));
}

static sheaf_dataset *range_map_batch(void)
{
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, RANGE, 1), twice, NULL, NULL);
    return sheaf_dataset_batch(d, 128, NULL);
}

static sheaf_dataset *range_parallel_map_batch(void)
{
    const sheaf_map_options parallel = {.parallel = SHEAF_AUTOTUNE};
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, RANGE, 1), twice, NULL, &parallel);
    return sheaf_dataset_batch(d, 128, NULL);
}

static const struct work {
    const char *name;
    sheaf_dataset *(*forms[FORMS])(void);
    bool first;    /* only how long the first element takes */
    bool resident; /* and what memory the process has at most */
} WORKS[] = {
    {"first element ctr", .forms = {parse_ctr}, .first = true},
    {"first element shuffled ctr", .forms = {shuffle_ctr}, .first = true},
    {"raw read ctr", .forms = {raw_ctr, raw_ctr_at_once}},
    {"raw read img", .forms = {raw_img, raw_img_at_once}},
    {"read+parse+batch ctr", .forms = {parse_ctr, parse_ctr_at_once, parse_ctr_inside}},
    {"read+shuffle10k+parse+batch ctr",
     .forms = {shuffle_ctr, shuffle_ctr_in_two, shuffle_ctr_in_three}, .resident = true},
    {"read+parse+shuffle10k+batch ctr", .forms = {shuffle_parsed_ctr}, .resident = true},
    {"read+parse+decode+scale img", .forms = {decode_img}},
    {"plain img", .forms = {plain_img}},
    {"plain img, parallel_maps", .forms = {parallel_maps_img}},
    {"plain img, inject_prefetch", .forms = {inject_prefetch_img}},
    {"range map batch", .forms = {range_map_batch, range_parallel_map_batch}},
};
enum { WORK_COUNT = sizeof(WORKS) / sizeof(WORKS[0]) };

/* ---- what comes out ---- */

/* Sums over everything that comes out: numbers themselves, integers modulo MODULUS so that none
 * outweighs the others, of strings the sizes. In `order` each element counts as often as its number
 * says. */
struct tally {
    int64_t rows, elements;
    double sum, order;
};

static double sum_of(const sheaf_tensor *t)
{
    const int64_t count = sheaf_tensor_elements(t);
    const void *data = sheaf_tensor_data(t);
    const sheaf_dtype dtype = sheaf_tensor_dtype(t);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += dtype == SHEAF_STRING    ? (double)((const sheaf_bytes *)data)[i].size
               : dtype == SHEAF_FLOAT32 ? (double)((const float *)data)[i]
                                        : (double)(((const int64_t *)data)[i] % MODULUS);
    return sum;
}

static void count_element(struct tally *tally, const sheaf_element *e)
{
    double sum = 0;
    for (size_t i = 0; i < sheaf_element_size(e); i++)
        sum += sum_of(sheaf_element_at(e, i));
    tally->rows += sheaf_tensor_shape(sheaf_element_at(e, 0)).dims[0];
    tally->elements++;
    tally->sum += sum;
    tally->order += sum * (double)tally->elements;
}

/* One pass over the dataset that adds up what comes, if `tally` is there. */
static sheaf_status pass(sheaf_dataset *d, struct tally *tally, sheaf_error *err)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    SHEAF_EACH_ELEMENT(e, it, err)
    {
        if (tally)
            count_element(tally, e);
    }
    sheaf_iterator_free(it);
    return err->status < 0 ? err->status : SHEAF_OK;
}

/* ---- measuring ---- */

/* A line of the process's status in MiB; most: the most since this was asked for. */
static double memory_of(const char *key)
{
    char line[200];
    double kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        if (strncmp(line, key, strlen(key)) == 0)
            sscanf(line + strlen(key), ": %lf", &kib);
    if (status)
        fclose(status);
    return kib / 1024;
}

static void forget_peak(void)
{
    FILE *refs = fopen("/proc/self/clear_refs", "w");
    if (refs) {
        fputs("5", refs);
        fclose(refs);
    }
}

/* Rows a second of passes over one dataset, as a training loop makes them epoch after epoch. */
static double measure_form(sheaf_dataset *d, struct tally *tally, sheaf_error *err)
{
    if (pass(d, tally, err) < 0)
        return 0;
    double begin = sheaf__bench_now(), seconds;
    int times = 0;
    do {
        SHEAF_FRAME
        {
            pass(d, NULL, err);
        }
        times++;
        seconds = sheaf__bench_now() - begin;
    } while (err->status >= 0 && seconds < LEAST_SECONDS);
    return times * (double)tally->rows / seconds;
}

/* All forms must come to the same. */
static void check_forms(const struct work *w, const struct tally *a, const struct tally *b,
                        sheaf_error *err)
{
    if (a->rows == b->rows && fabs(a->sum - b->sum) <= 1e-9 * fabs(a->sum))
        return;
    err->status = SHEAF_ERR_INTERNAL;
    snprintf(err->message, sizeof(err->message),
             "%s: one form has %lld rows, sum %.12g, one %lld, %.12g", w->name, (long long)a->rows,
             a->sum, (long long)b->rows, b->sum);
}

static void measure_rate(const struct work *w, sheaf_error *err)
{
    struct tally first = {0};
    double best = 0;
    forget_peak();
    for (int i = 0; i < FORMS && w->forms[i] && err->status >= 0; i++) {
        struct tally tally = {0};
        SHEAF_FRAME
        {
            sheaf_dataset *d = w->forms[i]();
            best = fmax(best, measure_form(d, &tally, err));
            sheaf_dataset_free(d);
        }
        if (i == 0)
            first = tally;
        if (err->status >= 0)
            check_forms(w, &first, &tally, err);
    }
    if (err->status < 0)
        return;
    sheaf__bench_print(best, "records/s", "%s", w->name);
    sheaf__bench_print(first.sum, "sum", "%s", w->name);
    sheaf__bench_print(first.order, "sum", "%s, in order", w->name);
    if (w->resident)
        sheaf__bench_print(memory_of("VmHWM"), "MiB", "%s, resident", w->name);
}

static void measure_first(const struct work *w, sheaf_error *err)
{
    SHEAF_FRAME
    {
        double begin = sheaf__bench_now();
        sheaf_dataset *d = w->forms[0]();
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_element *e;
        if (sheaf_iterator_next(it, &e, err) == SHEAF_OK)
            sheaf__bench_print(1e3 * (sheaf__bench_now() - begin), "ms", "%s", w->name);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

int sheaf__bench_input(const struct sheaf__bench_options *options)
{
    static const char *const KINDS[] = {"ctr", "img"};
    sheaf_error err = {0};
    bool known = !options->work;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < FILES; i++) {
            snprintf(files.names[k][i], sizeof(files.names[k][i]),
                     "%.4000s/%s-%05d-of-%05d.tfrecord", options->data, KINDS[k], i, FILES);
            files.paths[k][i] = files.names[k][i];
        }
    for (const struct work *w = WORKS; w < WORKS + WORK_COUNT && err.status >= 0; w++) {
        if (options->work && strcmp(options->work, w->name) != 0)
            continue;
        known = true;
        (w->first ? measure_first : measure_rate)(w, &err);
    }
    if (!known) {
        err.status = SHEAF_ERR_NOT_FOUND;
        snprintf(err.message, sizeof(err.message), "input has no work \"%.100s\"", options->work);
    }
    return err.status < 0 ? sheaf__bench_failed(&err) : 0;
}
