/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the pipelines that pipelines.py draws, and prints what they give. Standard input is a JSON list of pipelines, each
 * {"source": [name, number…], "stages": [[name, number…]…]}, with "workers", "replicas", "policy" also what each worker gets
 * of it; standard output a list of what they give: the lists of the elements of two passes, or of one for each worker. An
 * error is {"status": name} in place of an element, and the end; there is no second pass after one. */

#include "data/rewrite.h"

#include <sheaf/sheaf.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 16 };

/* How numbers lie in files. */
enum kind { TFRECORD, GZIP, ZLIB, SNAPPY, LINES, FIXED, RAW, CSV, EXAMPLE };
static const char *const endings[] = {"tfrecord", "gzip", "zlib", "snappy", "lines",
                                      "fixed",    "raw",  "csv",  "example"};

static const char *folder;

static int64_t arg(const json_t *stage, size_t i)
{
    return json_integer_value(json_array_get(stage, i));
}

static bool is(const json_t *stage, const char *name)
{
    return strcmp(json_string_value(json_array_get(stage, 0)), name) == 0;
}

/* ---- functions ---- */

static int64_t first_of(const sheaf_element *e)
{
    const sheaf_tensor *t = sheaf_element_at(e, 0);
    return sheaf_tensor_elements(t) > 0 ? sheaf_tensor_integer(t, 0) : 7;
}

static sheaf_status add_one(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_add(sheaf_element_at(in, 0), sheaf_long(1)));
}

/* The first of a pair and a thousand times the second. */
static sheaf_status join(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    sheaf_tensor *thousands = sheaf_mul(sheaf_element_at(in, 0), sheaf_long(1000));
    return sheaf_element_put(out, "", sheaf_add(thousands, sheaf_element_at(in, 1)));
}

static sheaf_status keep(const sheaf_element *in, void *user)
{
    (void)user;
    return first_of(in) % 3 != 1 ? SHEAF_OK : SHEAF_END;
}

static sheaf_status number(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_at(in, 0), 0);
    char text[32];
    (void)user;
    snprintf(text, sizeof(text), "%.*s", (int)b.size, b.data);
    return sheaf_element_put(out, "", sheaf_long(atoll(text)));
}

static sheaf_status number_in_csv(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_at(in, 0));
}

static sheaf_status number_in_bytes(const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_tensor *numbers = sheaf_decode_raw(sheaf_element_at(in, 0), SHEAF_INT64, NULL);
    (void)user;
    return sheaf_element_put(out, "", sheaf_reshape(numbers, SHEAF_SCALAR));
}

/* x, x + 1, … of which there are 1 + x % 4. */
static sheaf_status some(const sheaf_element *in, sheaf_element *out, void *user)
{
    const int64_t x = first_of(in);
    (void)user;
    return sheaf_element_put(out, "", sheaf_range(x, x + 1 + x % 4, 1));
}

static sheaf_dataset *open_few(const sheaf_element *in, void *user)
{
    const int64_t x = first_of(in);
    (void)user;
    return sheaf_dataset_range(10 * x, 10 * x + x % 4, 1);
}

/* ---- pipelines ---- */

/* As a list, or as a pattern finds them: sorted, or shuffled by a seed. */
static sheaf_dataset *names_of_files(enum kind kind, int64_t count, int64_t listed)
{
    const sheaf_list_files_options order = {.no_shuffle = listed == 1, .seed = 3};
    char paths[MOST_FILES][512];
    sheaf_bytes names[MOST_FILES];
    sheaf_dataset *d = NULL;
    if (listed) {
        snprintf(paths[0], sizeof(paths[0]), "%s/[0-%d].%s", folder, (int)count - 1, endings[kind]);
        return sheaf_list_files(paths[0], &order);
    }
    for (int64_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%d.%s", folder, (int)i, endings[kind]);
        names[i] = (sheaf_bytes){paths[i], strlen(paths[i])};
    }
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(count), names)));
    return d;
}

/* [name, how many, cycle, block, parallel]: cycle 0 is flat_map. */
static sheaf_dataset *read_files(sheaf_dataset *names, enum kind kind, const json_t *s)
{
    static const sheaf_csv_column column = {.dtype = SHEAF_INT64};
    static const int64_t second = 1;
    static sheaf_fixed_records_options fixed = {8, .header_bytes = 3, .footer_bytes = 2},
                                       raw = {.record_bytes = 8};
    static sheaf_csv_options csv = {.columns = &column, .column_count = 1, .select = &second};
    static const struct {
        sheaf_open_fn open;
        void *options;
    } sources[] = {
        [LINES] = {sheaf_open_text_lines}, [FIXED] = {sheaf_open_fixed_records, &fixed},
        [CSV] = {sheaf_open_csv, &csv},    [RAW] = {sheaf_open_fixed_records, &raw},
        [EXAMPLE] = {sheaf_open_tfrecord},
    };
    const sheaf_interleave_options o = {
        .cycle_length = (int)arg(s, 2), .block_length = (int)arg(s, 3), .parallel = (int)arg(s, 4)};
    const sheaf_open_fn open = sources[kind].open ? sources[kind].open : sheaf_open_tfrecord;
    return arg(s, 2) ? sheaf_dataset_interleave(names, open, sources[kind].options, &o)
                     : sheaf_dataset_flat_map(names, open, sources[kind].options);
}

/* ["slices", n]: 5, 6, … */
static sheaf_dataset *slices(int64_t count)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(sheaf_element_of(sheaf_range(5, 5 + count, 1)));
    return d;
}

/* ["range", n], ["files", …, kind, listed], ["examples", …]. */
static sheaf_dataset *source(const json_t *s)
{
    const sheaf_tensor_spec one = {.dtype = SHEAF_INT64, .shape = SHEAF_SCALAR};
    if (is(s, "range"))
        return sheaf_dataset_range(0, arg(s, 1), 1);
    if (is(s, "slices"))
        return slices(arg(s, 1));
    if (is(s, "examples"))
        return read_files(names_of_files(EXAMPLE, arg(s, 1), 0), EXAMPLE, s);
    const enum kind kind = (enum kind)arg(s, 5);
    sheaf_dataset *d = read_files(names_of_files(kind, arg(s, 1), arg(s, 6)), kind, s);
    SHEAF_FRAME
    {
        const sheaf_map_options spec = {.spec = sheaf_element_spec_new(&one, 1)};
        d = sheaf_dataset_map(d,
                              kind == CSV   ? number_in_csv
                              : kind == RAW ? number_in_bytes
                                            : number,
                              NULL, &spec);
    }
    return d;
}

static sheaf_dataset *mapped(sheaf_dataset *d, sheaf_map_fn fn, int parallel)
{
    const sheaf_map_options o = {.parallel = parallel, .spec = sheaf_dataset_element_spec(d)};
    return sheaf_dataset_map(d, fn, NULL, &o);
}

static sheaf_dataset *pipeline(const json_t *p);

static sheaf_dataset *numbered(sheaf_dataset *d, int64_t start)
{
    SHEAF_FRAME
    {
        const sheaf_map_options o = {.spec = sheaf_dataset_element_spec(d)};
        d = sheaf_dataset_map(sheaf_dataset_enumerate(d, start), join, NULL, &o);
    }
    return d;
}

static sheaf_dataset *zipped(sheaf_dataset *d, sheaf_dataset *other)
{
    const sheaf_map_options o = {.spec = sheaf_dataset_element_spec(d)};
    return sheaf_dataset_map(sheaf_dataset_zip((sheaf_dataset *[]){d, other}, 2), join, NULL, &o);
}

static sheaf_dataset *shuffled(sheaf_dataset *d, const json_t *s)
{
    const sheaf_shuffle_options o = {.seed = arg(s, 2), .no_reshuffle = !arg(s, 3)};
    return sheaf_dataset_shuffle(d, arg(s, 1), &o);
}

static sheaf_dataset *interleaved(sheaf_dataset *d, int cycle, int block, int parallel)
{
    const sheaf_interleave_options o = {.cycle_length = cycle,
                                        .block_length = block,
                                        .parallel = parallel,
                                        .spec = sheaf_dataset_element_spec(d)};
    return sheaf_dataset_interleave(d, open_few, NULL, &o);
}

/* ["padded", size, drop, width, value]. */
static sheaf_dataset *padded(sheaf_dataset *d, const json_t *s)
{
    const sheaf_shape width = SHEAF_SHAPE(arg(s, 3));
    const sheaf_tensor_spec list = {.dtype = SHEAF_INT64, .shape = SHEAF_SHAPE(SHEAF_UNKNOWN_DIM)};
    SHEAF_FRAME
    {
        const sheaf_map_options lists = {.spec = sheaf_element_spec_new(&list, 1)};
        const sheaf_padded_batch_options o = {.drop_remainder = arg(s, 2),
                                              .shapes = &width,
                                              .shape_count = 1,
                                              .values = sheaf_element_of(sheaf_long(arg(s, 4)))};
        d = sheaf_dataset_padded_batch(sheaf_dataset_map(d, some, NULL, &lists), arg(s, 1), &o);
    }
    return d;
}

static sheaf_dataset *parsed(sheaf_dataset *d)
{
    static const int64_t none = -1;
    static const sheaf_feature features[] = {
        {.key = "list", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_VAR},
        {.key = "number", .dtype = SHEAF_INT64, .default_value = &none},
        {.key = "list", .name = "ragged", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_RAGGED},
    };
    return sheaf_dataset_parse_example(d, features, 3);
}

static sheaf_dataset *rebatched(sheaf_dataset *d, const json_t *s)
{
    int64_t sizes[8];
    const size_t count = json_array_size(s) - 2;
    for (size_t i = 0; i < count; i++)
        sizes[i] = arg(s, 2 + i);
    return sheaf_dataset_rebatch(d, sizes, count, arg(s, 1));
}

static sheaf_dataset *stage(sheaf_dataset *d, const json_t *s)
{
    const sheaf_batch_options batch = {.drop_remainder = arg(s, 2), .parallel = (int)arg(s, 3)};
    if (is(s, "map"))
        return mapped(d, add_one, (int)arg(s, 1));
    if (is(s, "filter"))
        return sheaf_dataset_filter(d, keep, NULL);
    if (is(s, "interleave"))
        return interleaved(d, (int)arg(s, 1), (int)arg(s, 2), (int)arg(s, 3));
    if (is(s, "flat_map")) /* which takes no spec */
        return interleaved(d, 1, 1, 0);
    if (is(s, "batch"))
        return sheaf_dataset_batch(d, arg(s, 1), &batch);
    if (is(s, "padded"))
        return padded(d, s);
    if (is(s, "parse"))
        return parsed(d);
    if (is(s, "rebatch"))
        return rebatched(d, s);
    if (is(s, "unbatch"))
        return sheaf_dataset_unbatch(d);
    if (is(s, "shuffle"))
        return shuffled(d, s);
    if (is(s, "repeat"))
        return sheaf_dataset_repeat(d, arg(s, 1));
    if (is(s, "take"))
        return sheaf_dataset_take(d, arg(s, 1));
    if (is(s, "skip"))
        return sheaf_dataset_skip(d, arg(s, 1));
    if (is(s, "shard"))
        return sheaf_dataset_shard(d, arg(s, 1), arg(s, 2));
    if (is(s, "enumerate"))
        return numbered(d, arg(s, 1));
    if (is(s, "zip"))
        return zipped(d, pipeline(json_array_get(s, 1)));
    if (is(s, "concatenate"))
        return sheaf_dataset_concatenate(d, pipeline(json_array_get(s, 1)));
    if (is(s, "cache"))
        return sheaf_dataset_cache(d, NULL);
    if (is(s, "prefetch"))
        return sheaf_dataset_prefetch(d, arg(s, 1));
    fprintf(stderr, "no stage %s\n", json_string_value(json_array_get(s, 0)));
    exit(2);
}

static sheaf_dataset *pipeline(const json_t *p)
{
    const json_t *stages = json_object_get(p, "stages");
    sheaf_dataset *d = source(json_object_get(p, "source"));
    for (size_t i = 0; i < json_array_size(stages); i++)
        d = stage(d, json_array_get(stages, i));
    return d;
}

/* ---- elements ---- */

static json_t *axis(const sheaf_tensor *t, sheaf_shape shape, int number_of_axis, int64_t *at)
{
    if (number_of_axis == shape.rank)
        return json_integer(sheaf_tensor_integer(t, (*at)++));
    json_t *list = json_array();
    for (int64_t i = 0; i < shape.dims[number_of_axis]; i++)
        json_array_append_new(list, axis(t, shape, number_of_axis + 1, at));
    return list;
}

static json_t *of_tensor(sheaf_tensor *t)
{
    int64_t at = 0;
    const sheaf_shape shape = sheaf_tensor_shape(t);
    if (sheaf_tensor_layout(t) == SHEAF_LAYOUT_DENSE)
        return axis(t, shape, 0, &at);
    if (sheaf_tensor_layout(t) == SHEAF_LAYOUT_RAGGED)
        return json_pack("[o, o]", of_tensor(sheaf_tensor_row_splits(t)),
                         of_tensor(sheaf_tensor_values(t)));
    json_t *sizes = json_array();
    for (int i = 0; i < shape.rank; i++)
        json_array_append_new(sizes, json_integer(shape.dims[i]));
    return json_pack("[o, o, o]", of_tensor(sheaf_tensor_indices(t)),
                     of_tensor(sheaf_tensor_values(t)), sizes);
}

/* Components by name, a nameless one alone. */
static json_t *of_element(const sheaf_element *e)
{
    if (!*sheaf_element_name(e, 0))
        return of_tensor(sheaf_element_at(e, 0));
    json_t *all = json_object();
    for (size_t i = 0; i < sheaf_element_size(e); i++)
        json_object_set_new(all, sheaf_element_name(e, i), of_tensor(sheaf_element_at(e, i)));
    return all;
}

/* Up to the end or the first error. */
static json_t *elements(sheaf_dataset *d)
{
    json_t *list = json_array();
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_status status = SHEAF_OK;
    while (status == SHEAF_OK)
        SHEAF_FRAME
        {
            sheaf_element *e = NULL;
            sheaf_error err = {0};
            status = sheaf_iterator_next(it, &e, &err);
            if (status < 0)
                json_array_append_new(list,
                                      json_pack("{s:s}", "status", sheaf_status_name(status)));
            else if (status == SHEAF_OK)
                json_array_append_new(list, of_element(e));
        }
    sheaf_iterator_free(it);
    return list;
}

static json_t *passes(sheaf_dataset *d)
{
    json_t *both = json_pack("[o]", elements(d));
    const json_t *first = json_array_get(both, 0);
    const json_t *last = json_array_get(first, json_array_size(first) - 1);
    if (!json_object_get(last, "status"))
        json_array_append_new(both, elements(d));
    return both;
}

/* What one worker iterates. */
static json_t *part(sheaf_dataset *d, const json_t *p, int worker)
{
    const struct sheaf__split split = {
        .workers = (int)json_integer_value(json_object_get(p, "workers")),
        .worker = worker,
        .replicas = (int)json_integer_value(json_object_get(p, "replicas"))};
    struct sheaf__split_dataset out;
    sheaf_error err = {0};
    if (sheaf__split_make(d, &split, &out, &err) < 0)
        return json_pack("[{s:s}]", "status", sheaf_status_name(err.status));
    json_t *list = elements(out.dataset);
    sheaf__split_free(&out);
    return list;
}

static sheaf_autoshard policy_of(const char *name)
{
    static const char *const names[] = {"OFF", "AUTO", "FILE", "DATA"};
    int i = 0;
    while (strcmp(names[i], name) != 0)
        i++;
    return (sheaf_autoshard)(i - 1);
}

static json_t *parts(const json_t *p)
{
    const int workers = (int)json_integer_value(json_object_get(p, "workers"));
    if (workers == 0) {
        sheaf_dataset *d = pipeline(p);
        json_t *both = passes(d);
        sheaf_dataset_free(d);
        return both;
    }
    json_t *all = json_array();
    const sheaf_dataset_options o = {
        .autoshard = policy_of(json_string_value(json_object_get(p, "policy")))};
    for (int w = 0; w < workers; w++) {
        sheaf_dataset *d = sheaf_dataset_with_options(pipeline(p), &o);
        json_array_append_new(all, part(d, p, w));
        sheaf_dataset_free(d);
    }
    return all;
}

int main(int argc, char **argv)
{
    json_error_t fault;
    json_t *all = json_loadf(stdin, 0, &fault), *found = json_array();
    if (argc != 2 || !all) {
        fprintf(stderr, "usage: pipelines FOLDER <PIPELINES; %s\n", all ? "" : fault.text);
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < json_array_size(all); i++)
        json_array_append_new(found, parts(json_array_get(all, i)));
    json_dumpf(found, stdout, JSON_COMPACT);
    json_decref(found);
    json_decref(all);
    return 0;
}
