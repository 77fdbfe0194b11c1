/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_DATA_RANDOM_PIPELINE_H
#define SHEAF_TEST_DATA_RANDOM_PIPELINE_H

/* Pipelines of all stages, drawn by a number: the same number makes the same pipeline again. Their
 * elements are numbers or lists of numbers, and nothing fails in them unless it is asked for. */

#include "help.h"

#include "base/random.h"
#include "data/split_batch.h"

#include <sheaf/ops.h>

struct pipeline {
    struct sheaf__philox dice;
    bool lists;
    bool unseeded;  /* shuffles without a seed, too */
    bool faulty;    /* functions that fail now and then, too */
    bool ahead;     /* threads read more than is asked for, how much is chance */
    char text[512]; /* the stages, for messages */
};

/* A number below `bound`. */
static inline int64_t below(struct pipeline *p, int64_t bound)
{
    return (int64_t)sheaf__philox_below(&p->dice, (uint64_t)bound);
}

static inline void say(struct pipeline *p, const char *stage, int64_t a, int64_t b)
{
    const size_t used = strlen(p->text);
    snprintf(p->text + used, sizeof(p->text) - used, " %s(%d, %d)", stage, (int)a, (int)b);
}

/* ---- functions ---- */

static inline int64_t first_of(const sheaf_element *e)
{
    const sheaf_tensor *t = sheaf_element_at(e, 0);
    return sheaf_tensor_elements(t) > 0 ? sheaf_tensor_integer(t, 0) : 7;
}
static inline sheaf_status add_one(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_add(sheaf_element_at(in, 0), sheaf_long(1)));
}
static inline sheaf_status fail_some(const sheaf_element *in, sheaf_element *out, void *user)
{
    return first_of(in) % 5 == 3 ? SHEAF_ERR_IO : add_one(in, out, user);
}
/* Pairs and longer tuples of numbers. */
static inline sheaf_status join_numbers(const sheaf_element *in, sheaf_element *out, void *user)
{
    int64_t all = 0;
    (void)user;
    for (size_t i = 0; i < sheaf_element_size(in); i++)
        all = all * 1000 + sheaf_tensor_integer(sheaf_element_at(in, i), 0);
    return sheaf_element_put(out, "", sheaf_long(all));
}
static inline sheaf_status keep_some(const sheaf_element *in, void *user)
{
    (void)user;
    return first_of(in) % 3 != 1 ? SHEAF_OK : SHEAF_END;
}
static inline sheaf_status number_of_text(const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_at(in, 0), 0);
    char text[32];
    (void)user;
    snprintf(text, sizeof(text), "%.*s", (int)b.size, b.data);
    return sheaf_element_put(out, "", sheaf_long(atoll(text)));
}
/* x % 4 numbers, in an order of their own. */
static inline sheaf_dataset *open_few(const sheaf_element *in, void *user)
{
    const sheaf_shuffle_options order = {.seed = 3};
    const int64_t x = first_of(in), n = x < 0 ? 1 : x % 4;
    (void)user;
    return sheaf_dataset_shuffle(sheaf_dataset_range(10 * x, 10 * x + n, 1), 2, &order);
}
static inline sheaf_status next_number(void *state, sheaf_element *out, sheaf_error *err)
{
    int64_t *at = state;
    (void)err;
    return *at == 17 ? SHEAF_END : sheaf_element_put(out, "", sheaf_long((*at)++));
}
static inline sheaf_status start_numbers(void *user, void **state, sheaf_error *err)
{
    (void)user;
    (void)err;
    *state = calloc(1, sizeof(int64_t));
    return SHEAF_OK;
}

/* ---- sources ---- */

static const char *files_pattern; /* set by write_files() */

/* Files 0 … 6 of 0 … 6 records each, in the folder of the test. */
static inline void write_files(void)
{
    files_pattern = rig_path("*.tfrecord");
    for (int i = 0; i < 7; i++) {
        char name[32], text[32];
        sheaf_record_writer *w = NULL;
        sheaf_error err = {0};
        snprintf(name, sizeof(name), "%d.tfrecord", i);
        rig_ok(sheaf_record_writer_open(rig_path(name), SHEAF_COMPRESSION_NONE, &w, &err), &err);
        for (int k = 0; k < i; k++) {
            int size = snprintf(text, sizeof(text), "%d", 10 * i + k);
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){text, (size_t)size}, &err), &err);
        }
        rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    }
}

static inline sheaf_dataset *file_source(struct pipeline *p)
{
    const sheaf_list_files_options order = {.seed = 1 + below(p, 9),
                                            .no_shuffle = below(p, 3) == 0};
    const sheaf_interleave_options cycle = {.cycle_length = 1 + (int)below(p, 4),
                                            .block_length = 1 + (int)below(p, 3),
                                            .parallel = below(p, 3) == 0};
    sheaf_dataset *d = sheaf_list_files(files_pattern, &order);
    if (below(p, 3) == 0)
        d = sheaf_dataset_flat_map(d, sheaf_open_tfrecord, NULL);
    else
        d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &cycle);
    p->ahead = p->ahead || cycle.parallel > 0;
    say(p, "files", cycle.cycle_length, cycle.block_length);
    return sheaf_dataset_map(d, number_of_text, NULL, NULL);
}

static inline sheaf_dataset *source(struct pipeline *p)
{
    static const sheaf_generator numbers = {start_numbers, next_number, free, NULL};
    const int64_t n = below(p, 30);
    sheaf_dataset *d = NULL;
    switch (below(p, 8)) {
    case 0:
        say(p, "slices", 0, 0);
        return slices_of("[5, 3, 8, 1, 9, 2]");
    case 1:
        say(p, "generator", 0, 0);
        SHEAF_FRAME
        d = sheaf_dataset_from_generator(&numbers, spec_of(SHEAF_INT64, SHEAF_SCALAR));
        return d;
    case 2:
    case 3:
        return file_source(p);
    case 4:
        say(p, "tensors", 0, 0);
        SHEAF_FRAME
        d = sheaf_dataset_from_tensors(sheaf_element_of(sheaf_long(n)));
        return d;
    default:
        say(p, "range", n, 0);
        return sheaf_dataset_range(0, n, 1);
    }
}

/* ---- stages ---- */

static inline sheaf_dataset *shuffle_stage(struct pipeline *p, sheaf_dataset *d)
{
    const int64_t size = below(p, 9);
    const sheaf_shuffle_options o = {.seed = p->unseeded && below(p, 2) ? 0 : 1 + below(p, 100),
                                     .no_reshuffle = below(p, 3) == 0};
    say(p, "shuffle", size, o.no_reshuffle);
    return sheaf_dataset_shuffle(d, size ? size : SHEAF_UNKNOWN, &o);
}

/* Stages that numbers and lists both go through. */
static inline sheaf_dataset *common_stage(struct pipeline *p, sheaf_dataset *d)
{
    const sheaf_map_options threads = {.parallel = (int)below(p, 3)};
    const int64_t a = below(p, 7), b = 1 + below(p, 3);
    switch (below(p, 11)) {
    case 0:
        p->ahead = p->ahead || threads.parallel > 0;
        say(p, "map", threads.parallel, p->faulty);
        return sheaf_dataset_map(d, p->faulty ? fail_some : add_one, NULL, &threads);
    case 1:
        say(p, "filter", 0, 0);
        return sheaf_dataset_filter(d, keep_some, NULL);
    case 2:
        say(p, "repeat", b, 0);
        return sheaf_dataset_repeat(d, b);
    case 3:
        say(p, "take", 4 * a, 0);
        return sheaf_dataset_take(d, 4 * a);
    case 4:
        say(p, "skip", a, 0);
        return sheaf_dataset_skip(d, a);
    case 5:
        say(p, "shard", b, b / 2);
        return sheaf_dataset_shard(d, b, b / 2);
    case 6:
        say(p, "cache", 0, 0);
        return sheaf_dataset_cache(d, NULL);
    case 7:
        p->ahead = true;
        say(p, "prefetch", a, 0);
        return sheaf_dataset_prefetch(d, a ? a : SHEAF_AUTOTUNE);
    default:
        return shuffle_stage(p, d);
    }
}

static inline sheaf_dataset *pipeline_of_numbers(struct pipeline *p, int stages);

static inline sheaf_dataset *number_stage(struct pipeline *p, sheaf_dataset *d)
{
    const sheaf_interleave_options cycle = {.cycle_length = 2 + (int)below(p, 2),
                                            .block_length = 1 + (int)below(p, 2),
                                            .parallel = 2 * (int)below(p, 2)};
    const int64_t size = 1 + below(p, 5);
    const sheaf_batch_options drop = {.drop_remainder = below(p, 3) == 0};
    switch (below(p, 6)) {
    case 0:
        p->ahead = p->ahead || cycle.parallel > 0;
        say(p, "interleave", cycle.cycle_length, cycle.block_length);
        return sheaf_dataset_interleave(d, open_few, NULL, &cycle);
    case 1:
        say(p, "enumerate", 0, 0);
        return sheaf_dataset_map(sheaf_dataset_enumerate(d, 5), join_numbers, NULL, NULL);
    case 2:
        say(p, "zip", 0, 0);
        d = sheaf_dataset_zip((sheaf_dataset *[]){d, pipeline_of_numbers(p, 1)}, 2);
        return sheaf_dataset_map(d, join_numbers, NULL, NULL);
    case 3:
        say(p, "concatenate", 0, 0);
        return sheaf_dataset_concatenate(d, pipeline_of_numbers(p, 1));
    default:
        say(p, "batch", size, drop.drop_remainder);
        p->lists = true;
        return sheaf_dataset_batch(d, size, &drop);
    }
}

static inline sheaf_dataset *list_stage(struct pipeline *p, sheaf_dataset *d)
{
    const int64_t sizes[] = {1 + below(p, 4), below(p, 3), below(p, 4)};
    const size_t count = 1 + (size_t)below(p, 3);
    switch (below(p, 3)) {
    case 0:
        say(p, "unbatch", 0, 0);
        p->lists = false;
        return sheaf_dataset_unbatch(d);
    case 1:
        say(p, "split_batch", sizes[0], 0);
        return sheaf__split_batch(d, sizes[0]);
    default:
        say(p, "rebatch", sizes[0], (int64_t)count);
        return sheaf_dataset_rebatch(d, sizes, count, below(p, 4) == 0);
    }
}

static inline sheaf_dataset *pipeline_of_numbers(struct pipeline *p, int stages)
{
    sheaf_dataset *d = source(p);
    while (stages-- > 0)
        d = common_stage(p, d);
    return d;
}

/* How many are drawn. The thread sanitizer finds in a few what it finds in many. */
#if defined(__SANITIZE_THREAD__)
#define PIPELINES 1000
#else
#define PIPELINES 4000
#endif

/* Draws a pipeline; `text` of it is set. `wild`: unseeded and faulty, too. */
static inline sheaf_dataset *random_pipeline(uint64_t seed, bool wild, struct pipeline *p)
{
    *p = (struct pipeline){.unseeded = wild, .faulty = wild && seed % 4 == 0};
    sheaf__philox_init(&p->dice, seed, 0);
    snprintf(p->text, sizeof(p->text), "seed %d:", (int)seed);
    sheaf_dataset *d = source(p);
    for (int64_t n = below(p, 7); n > 0; n--) {
        if (below(p, 2) == 0)
            d = common_stage(p, d);
        else
            d = p->lists ? list_stage(p, d) : number_stage(p, d);
    }
    return sheaf_dataset_take(d, 300);
}

#endif
