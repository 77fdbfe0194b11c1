/* SPDX-License-Identifier: Apache-2.0 */
#include "data/autoshard.h"

#include "base/array.h"
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "data/interleave.h"
#include "data/shard.h"
#include "data/shuffle.h"
#include "data/split_batch.h"

/* A walk makes new nodes above what it changes and shares the others. Every function gives a count
 * that is the caller's; NULL and `err` where it cannot. */

static sheaf_dataset *shard_files(sheaf_dataset *d, const struct sheaf__autoshard *a,
                                  sheaf_error *err);

/* A stage that a rewriting puts in; it has no number of the user's. */
static sheaf_dataset *insert_shard(sheaf_dataset *input, const struct sheaf__autoshard *a,
                                   const char *what)
{
    sheaf_dataset *d = sheaf__shard_for_worker(input, a->workers, a->worker, what);
    d->number = 0;
    return d;
}

/* `d` with another first input, whose count is used up. */
static sheaf_dataset *over_input(const sheaf_dataset *d, sheaf_dataset *input)
{
    return input ? sheaf__dataset_over(d, &input) : NULL;
}

/* `d` with `rewrite` done to every input. */
static sheaf_dataset *over_inputs(const sheaf_dataset *d, const struct sheaf__autoshard *a,
                                  sheaf_dataset *(*rewrite)(sheaf_dataset *,
                                                            const struct sheaf__autoshard *,
                                                            sheaf_error *),
                                  sheaf_error *err)
{
    sheaf_dataset **inputs = sheaf__alloc_array(d->input_count, sizeof(*inputs));
    size_t done = 0;
    if (!inputs) {
        sheaf__no_memory(err, "a dataset");
        return NULL;
    }
    while (done < d->input_count && (inputs[done] = rewrite(d->inputs[done], a, err)) != NULL)
        done++;
    sheaf_dataset *out = NULL;
    if (done == d->input_count)
        out = sheaf__dataset_over(d, inputs);
    else
        while (done > 0)
            sheaf_dataset_free(inputs[--done]);
    sheaf__free(inputs);
    return out;
}

/* ---- FILE ---- */

/* Whether the datasets of a function stage read files: what the function gives for the first
 * element says so for all. An element that a generator would have to make is not asked for. */
static bool function_reads(sheaf_dataset *d);

static bool reads_files(sheaf_dataset *d)
{
    if (d->stage->traits & SHEAF__READER)
        return true;
    if ((d->stage->traits & SHEAF__FUNCTION) && function_reads(d))
        return true;
    for (size_t i = 0; i < d->input_count; i++)
        if (reads_files(d->inputs[i]))
            return true;
    return false;
}

static bool has_generator(const sheaf_dataset *d)
{
    bool found = sheaf__dataset_is(d, SHEAF__STAGE_FROM_GENERATOR);
    for (size_t i = 0; !found && i < d->input_count; i++)
        found = has_generator(d->inputs[i]);
    return found;
}

/* The library's own functions need no asking. */
static bool opens_files(sheaf_open_fn open)
{
    return open == sheaf_open_tfrecord || open == sheaf_open_text_lines ||
           open == sheaf_open_fixed_records;
}

static bool function_reads(sheaf_dataset *d)
{
    const struct sheaf__interleave *p = (const void *)d->params;
    if (opens_files(p->open))
        return true;
    if (has_generator(d->inputs[0]))
        return false;
    bool reads = false;
    sheaf_error ignored = {0};
    sheaf_dataset *input = sheaf__dataset_clone(d->inputs[0]), *made = NULL;
    sheaf_iterator *it = sheaf_dataset_iterate(input);
    SHEAF_FRAME
    {
        sheaf_element *e;
        if (sheaf_iterator_next(it, &e, &ignored) == SHEAF_OK &&
            sheaf__interleave_call(p, e, &made, &ignored) >= 0)
            reads = reads_files(made);
    }
    sheaf_dataset_free(made);
    sheaf_iterator_free(it);
    sheaf_dataset_free(input);
    return reads;
}

/* The names without shuffles; `*shuffle` is the one nearest to their source. */
static sheaf_dataset *unshuffled(sheaf_dataset *names, sheaf_dataset **shuffle)
{
    if (names->input_count != 1)
        return sheaf_dataset_ref(names);
    if (!sheaf__dataset_is(names, SHEAF__STAGE_SHUFFLE))
        return over_input(names, unshuffled(names->inputs[0], shuffle));
    *shuffle = names;
    return unshuffled(names->inputs[0], shuffle);
}

/* The names of one worker; shuffled after they are divided, so that workers need not agree on the
 * order (R2.16). */
static sheaf_dataset *shard_names(sheaf_dataset *names, const struct sheaf__autoshard *a)
{
    sheaf_dataset *shuffle = NULL;
    sheaf_dataset *d = insert_shard(unshuffled(names, &shuffle), a, "file");
    return shuffle ? over_input(shuffle, d) : d;
}

static sheaf_dataset *unshardable(const sheaf_dataset *d, sheaf_error *err)
{
    char name[64];
    sheaf__error(err, SHEAF_ERR_NOT_FOUND, "%s cannot be divided by files",
                 sheaf__dataset_name(d, name));
    return NULL;
}

/* R2.13. */
static sheaf_dataset *shard_files(sheaf_dataset *d, const struct sheaf__autoshard *a,
                                  sheaf_error *err)
{
    unsigned traits = d->stage->traits;
    if (traits & SHEAF__SOURCE)
        return unshardable(d, err);
    if ((traits & SHEAF__READER) || ((traits & SHEAF__FUNCTION) && function_reads(d)))
        return over_input(d, shard_names(d->inputs[0], a));
    if (traits & (SHEAF__MULTIPLE | SHEAF__FUNCTION | SHEAF__PASS))
        return over_inputs(d, a, shard_files, err);
    return unshardable(d, err);
}

/* ---- DATA, HINT ---- */

/* The shard goes to the end, before what only runs ahead (R2.19); a rebatch there becomes a legacy
 * one, whose parts all workers cut alike (R2.20). */
static sheaf_dataset *shard_data(sheaf_dataset *d, const struct sheaf__autoshard *a,
                                 sheaf_error *err)
{
    if (d->stage->traits & SHEAF__TRAILING)
        return over_inputs(d, a, shard_data, err);
    sheaf_dataset *parts;
    if (sheaf__dataset_is(d, SHEAF__STAGE_REBATCH) && !a->keep_balanced) {
        parts = sheaf__split_batch(sheaf_dataset_ref(d->inputs[0]), a->replicas);
    } else {
        parts = sheaf_dataset_ref(d);
    }
    return a->workers > 1 ? insert_shard(parts, a, "element") : parts;
}

/* R2.24. */
static sheaf_dataset *fill_hints(sheaf_dataset *d, const struct sheaf__autoshard *a,
                                 sheaf_error *err)
{
    if (!sheaf__shard_is_hint(d))
        return over_inputs(d, a, fill_hints, err);
    sheaf_dataset *input = fill_hints(d->inputs[0], a, err);
    if (!input)
        return NULL;
    sheaf_dataset *shard = sheaf__shard_for_worker(input, a->workers, a->worker, "element");
    shard->number = d->number;
    return shard;
}

/* ---- the choice ---- */

static sheaf_dataset *apply(sheaf_dataset *d, struct sheaf__autoshard *a, sheaf_error *err)
{
    sheaf_dataset *out = NULL;
    switch (a->policy) {
    case SHEAF_AUTOSHARD_OFF:
        return sheaf_dataset_ref(d);
    case SHEAF_AUTOSHARD_HINT:
        return fill_hints(d, a, err);
    case SHEAF_AUTOSHARD_DATA:
        return shard_data(d, a, err);
    case SHEAF_AUTOSHARD_FILE:
        if (a->workers == 1)
            return sheaf_dataset_ref(d); /* R2.6 */
        out = shard_files(d, a, err);
        if (!out)
            sheaf__error_prefix(err, "autoshard policy FILE");
        return out;
    case SHEAF_AUTOSHARD_AUTO:
        break;
    }
    out = shard_files(d, a, err);
    if (out) {
        a->policy = SHEAF_AUTOSHARD_FILE;
    } else if (err->status == SHEAF_ERR_NOT_FOUND) {
        a->policy = SHEAF_AUTOSHARD_DATA;
        sheaf__str_copy(a->why, sizeof(a->why), err->message);
        out = shard_data(d, a, err);
    }
    return out;
}

sheaf_status sheaf__autoshard(sheaf_dataset *d, struct sheaf__autoshard *a, sheaf_dataset **out,
                              sheaf_error *err)
{
    sheaf__str_copy(a->why, sizeof(a->why),
                    a->policy == SHEAF_AUTOSHARD_AUTO ? "the source reads files" : "as asked for");
    sheaf_dataset *made = apply(d, a, err);
    sheaf_dataset_free(d);
    if (!made)
        return err->status;
    *out = made;
    return SHEAF_OK;
}

/* ---- a worker's files ---- */

/* Longer lists of names are not read for a line of the log. */
enum { MOST_NAMES = 1 << 20 };

/* Names that were met, each once. */
struct names {
    struct sheaf__strmap seen;
    int64_t most; /* that are written out */
    struct sheaf__str text;
    bool by_order; /* a shuffle decides which ones there are */
};

static void add_name(struct names *names, sheaf_bytes name)
{
    const size_t before = names->seen.count;
    if (!sheaf__strmap_set_bytes(&names->seen, name.data, name.size, NULL, NULL) ||
        names->seen.count == before || names->seen.count > (size_t)names->most)
        return;
    sheaf__str_add(&names->text, before ? ", " : "");
    sheaf__str_bytes(&names->text, name.data, name.size);
}

/* What the first `count` elements of `list` say; without memory or with an error, which whoever reads them gets, what came
 * before it. */
static void add_list(sheaf_dataset *list, int64_t count, struct names *names)
{
    sheaf_error ignored = {0};
    sheaf_iterator *it = sheaf_dataset_iterate(list);
    for (bool more = true; more && count > 0; count--)
        SHEAF_FRAME
        {
            sheaf_element *e;
            more = sheaf_iterator_next(it, &e, &ignored) == SHEAF_OK;
            const sheaf_tensor *t = more ? sheaf_element_at(e, 0) : NULL;
            const bool named = t && sheaf_tensor_dtype(t) == SHEAF_STRING;
            for (int64_t i = 0; named && i < sheaf_tensor_elements(t); i++)
                add_name(names, sheaf_tensor_bytes(t, i));
        }
    sheaf_iterator_free(it);
}

/* How many elements of a list hold all that it ever gives: those of one round where it is repeated. SHEAF_UNKNOWN. */
static int64_t one_round(const sheaf_dataset *d)
{
    const bool one_by_one =
        (d->stage->traits & SHEAF__CERTAIN) && !sheaf__dataset_is(d, SHEAF__STAGE_CONCATENATE);
    if (d->cardinality == SHEAF_UNKNOWN || (d->cardinality < 0 && !one_by_one))
        return SHEAF_UNKNOWN;
    if (!one_by_one || d->input_count == 0)
        return d->cardinality;
    int64_t count = 0;
    for (size_t i = 0; i < d->input_count; i++) {
        const int64_t input = one_round(d->inputs[i]);
        if (input < 0 || input > MOST_NAMES)
            return SHEAF_UNKNOWN;
        count += input;
    }
    return count;
}

static bool has_repeat(const sheaf_dataset *d)
{
    bool found = sheaf__dataset_is(d, SHEAF__STAGE_REPEAT);
    for (size_t i = 0; !found && i < d->input_count; i++)
        found = has_repeat(d->inputs[i]);
    return found;
}

static bool gives_all(const sheaf_dataset *d)
{
    return (d->stage->traits & SHEAF__TRAILING) || sheaf__dataset_is(d, SHEAF__STAGE_SHUFFLE) ||
           sheaf__dataset_is(d, SHEAF__STAGE_REPEAT) || sheaf__dataset_is(d, SHEAF__STAGE_CACHE) ||
           sheaf__dataset_is(d, SHEAF__STAGE_CONCATENATE);
}

enum order {
    ANY,   /* the names are the same in every order */
    KNOWN, /* of a shuffle with a seed, above which some are left out: in each pass others */
    CHANCE /* of one without */
};

/* What the names depend on; `chosen`: some are left out above `d`. */
static enum order order_of(const sheaf_dataset *d, bool chosen)
{
    enum order order = ANY;
    if (chosen && sheaf__dataset_is(d, SHEAF__STAGE_SHUFFLE))
        order = sheaf__shuffle_is_seeded(d) ? KNOWN : CHANCE;
    for (size_t i = 0; i < d->input_count; i++) {
        const enum order below = order_of(d->inputs[i], chosen || !gives_all(d));
        order = below > order ? below : order;
    }
    return order;
}

/* The names of a list that no function of the program makes: nothing of it runs for a line of the log. */
static void add_names(const sheaf_dataset *list, struct names *names)
{
    const enum order order = order_of(list, false);
    const int64_t count = list->calls ? SHEAF_UNKNOWN : one_round(list);
    if (count < 0 || count > MOST_NAMES || order == CHANCE || (order == KNOWN && has_repeat(list)))
        return;
    sheaf_dataset *shuffle = NULL;
    sheaf_dataset *sorted = order == ANY ? unshuffled((sheaf_dataset *)(uintptr_t)list, &shuffle)
                                         : sheaf_dataset_ref((sheaf_dataset *)(uintptr_t)list);
    sheaf_dataset *copy = sheaf__dataset_clone(sorted);
    names->by_order = names->by_order || order == KNOWN;
    add_list(copy, count, names);
    sheaf_dataset_free(copy);
    sheaf_dataset_free(sorted);
}

static void add_files(const sheaf_dataset *d, struct names *names)
{
    const bool reads =
        (d->stage->traits & SHEAF__READER) ||
        ((d->stage->traits & SHEAF__FUNCTION) &&
         opens_files(((const struct sheaf__interleave *)(const void *)d->params)->open));
    if (reads)
        add_names(d->inputs[0], names);
    for (size_t i = 0; i < d->input_count; i++)
        add_files(d->inputs[i], names);
}

char *sheaf__autoshard_files(const sheaf_dataset *d, int64_t most)
{
    struct names names = {.most = most};
    struct sheaf__str text = {0};
    if (d->error.status >= 0)
        add_files(d, &names);
    const size_t count = names.seen.count;
    if (count > 0)
        sheaf__str_printf(&text, "; %zu file%s%s: %s%s", count, count == 1 ? "" : "s",
                          names.by_order ? " in the first pass" : "", sheaf__str_text(&names.text),
                          count > (size_t)most ? ", …" : "");
    sheaf__strmap_clear(&names.seen, NULL);
    sheaf__str_free(&names.text);
    return sheaf__str_take(&text);
}

/* ---- cloning ---- */

/* A node that was met, and its copy: a dataset used twice stays one. */
struct seen {
    const sheaf_dataset *original;
    sheaf_dataset *copy; /* counted */
};

struct cloner {
    struct seen *seen;
    size_t count, capacity;
};

static void remember(struct cloner *c, const sheaf_dataset *d, sheaf_dataset *copy)
{
    /* Without memory for it a dataset used twice becomes two. */
    if (sheaf__array_reserve((void **)&c->seen, &c->capacity, c->count + 1, sizeof(*c->seen)))
        c->seen[c->count++] = (struct seen){d, sheaf_dataset_ref(copy)};
}

static sheaf_dataset *clone(struct cloner *c, const sheaf_dataset *d)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->seen[i].original == d)
            return sheaf_dataset_ref(c->seen[i].copy);
    sheaf_dataset **inputs = sheaf__alloc_array(d->input_count, sizeof(*inputs));
    if (!inputs) {
        sheaf_error err;
        sheaf__no_memory(&err, "a dataset");
        return sheaf__dataset_failed(NULL, SHEAF__STAGE_OPTIONS, &err);
    }
    for (size_t i = 0; i < d->input_count; i++)
        inputs[i] = clone(c, d->inputs[i]);
    sheaf_dataset *copy = sheaf__dataset_over(d, inputs);
    sheaf__free(inputs);
    remember(c, d, copy);
    return copy;
}

sheaf_dataset *sheaf__dataset_clone(const sheaf_dataset *d)
{
    struct cloner c = {0};
    sheaf_dataset *copy = clone(&c, d);
    for (size_t i = 0; i < c.count; i++)
        sheaf_dataset_free(c.seen[i].copy);
    sheaf__free(c.seen);
    return copy;
}
