/* SPDX-License-Identifier: Apache-2.0 */

/* Iterating a distributed dataset: element j of the worker's dataset goes to replica j % R
 * (R3.5–R3.24). */

#include "base/counter.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/trace.h"
#include "data/iterator.h"
#include "data/rewrite.h"
#include "distribute/dist_dataset.h"
#include "distribute/forecast.h"
#include "distribute/values.h"
#include "tensor/frame.h"

/* The parts of one step, each with a count; NULL where a replica has none. */
struct parts {
    sheaf_element *of[SHEAF__MOST_REPLICAS];
    int count, with_data;
    uint64_t elements, errors; /* that the first iterator has given by then */
};

struct sheaf_dist_iterator {
    sheaf_dist_dataset *dataset; /* counted */
    sheaf_iterator **iterators;  /* one, or one a replica */
    sheaf_element *like;         /* some element of it, for the sizes of dummies; or NULL */
    sheaf_error latched;
    bool begun; /* a step was asked for */
    bool ended;
    bool fills; /* replicas without data get empty parts */

    /* The next step's, if it is pulled already: workers that agree on it do so one step ahead. */
    bool pulled;
    struct parts next;
    sheaf_error failed; /* status < 0: the pull did */
    struct sheaf__forecast forecast;

    struct sheaf__token_callback stops; /* the iterators, with the strategy's reading */
};

static void parts_clear(struct parts *p)
{
    for (int i = 0; i < p->count; i++)
        sheaf_element_free(p->of[i]);
    p->count = 0;
}

static bool is_shared(const sheaf_dist_iterator *it)
{
    return it->dataset && it->dataset->strategy->workers > 1;
}

static bool is_whole_pass(const sheaf_dist_iterator *it)
{
    const sheaf_iterator *first = it->iterators[0];
    return first->dataset == it->dataset->datasets[0] && !first->behind;
}

static struct sheaf__halt *halt_of(const sheaf_dist_iterator *it)
{
    return it->dataset->strategy->halt;
}

/* Nothing is read any more. Any thread. */
static void stop_reading(void *user)
{
    const sheaf_dist_iterator *it = user;
    for (int i = 0; i < it->dataset->dataset_count; i++)
        sheaf__flow_cancel(&it->iterators[i]->flow);
}

/* Stands for one there was no memory for. */
static sheaf_dist_iterator no_memory;

sheaf_dist_iterator *sheaf_iterate(sheaf_dist_dataset *d)
{
    sheaf_dist_iterator *it = sheaf__calloc(1, sizeof(*it));
    if (!it)
        return &no_memory;
    if (!d) {
        sheaf__error(&it->latched, SHEAF_ERR_INVALID_ARGUMENT, "the dataset is NULL");
        return it;
    }
    it->dataset = sheaf__ref(d);
    it->latched = d->latched;
    it->iterators = sheaf__calloc((size_t)d->dataset_count + 1, sizeof(*it->iterators));
    if (!it->iterators)
        sheaf__no_memory(&it->latched, "a distributed iterator");
    it->fills = d->fills;
    if (it->latched.status >= 0)
        sheaf__progress_begin(d, it, it->iterators, &it->fills, &it->latched);
    if (it->latched.status >= 0 && is_whole_pass(it))
        it->forecast.certain = &d->certain;
    if (it->latched.status >= 0) {
        it->stops = (struct sheaf__token_callback){.fn = stop_reading, .user = it};
        sheaf__token_on(sheaf__halt_reading(halt_of(it)), &it->stops);
    }
    return it;
}

void sheaf_dist_iterator_free(sheaf_dist_iterator *it)
{
    if (!it || it == &no_memory)
        return;
    if (it->stops.fn)
        sheaf__token_off(sheaf__halt_reading(halt_of(it)), &it->stops);
    if (it->dataset && sheaf__halt_is_over(halt_of(it)))
        sheaf__progress_halt(it->dataset, it);
    if (it->dataset)
        sheaf__progress_break(it->dataset, it);
    if (is_shared(it))
        sheaf__forecast_free(it->dataset->strategy, &it->forecast, it->ended);
    parts_clear(&it->next);
    for (int i = 0; it->iterators && i < it->dataset->dataset_count; i++)
        sheaf_iterator_free(it->iterators[i]);
    sheaf__free(it->iterators);
    sheaf_element_free(it->like);
    sheaf_dist_dataset_free(it->dataset);
    sheaf__free(it);
}

const sheaf_element_spec *sheaf_dist_iterator_element_spec(const sheaf_dist_iterator *it)
{
    return it ? sheaf_dist_dataset_element_spec(it->dataset) : NULL;
}

const char *sheaf_dist_iterator_str(const sheaf_dist_iterator *it)
{
    return sheaf__dist_str("DistributedIterator", it ? it->dataset : NULL);
}

/* One part for each replica, in order, until the data ends. */
static sheaf_status pull_parts(const sheaf_dist_iterator *it, struct parts *p, sheaf_error *err)
{
    const sheaf_dist_dataset *d = it->dataset;
    SHEAF_FRAME
    {
        for (int r = 0; r < p->count; r++) {
            sheaf_element *e = NULL;
            sheaf_status status =
                sheaf_iterator_next(it->iterators[d->dataset_count > 1 ? r : 0], &e, err);
            if (status < 0)
                return status;
            if (status == SHEAF_END && d->dataset_count == 1)
                break;
            p->of[r] = status == SHEAF_END ? NULL : sheaf_element_keep(e);
            p->with_data += p->of[r] != NULL;
        }
    }
    return SHEAF_OK;
}

static sheaf_status pull(sheaf_dist_iterator *it, struct parts *p, sheaf_error *err)
{
    p->count = it->dataset->strategy->local;
    p->with_data = 0;
    for (int r = 0; r < p->count; r++)
        p->of[r] = NULL;
    sheaf_status status = pull_parts(it, p, err);
    p->elements = it->iterators[0]->elements;
    p->errors = it->iterators[0]->errors;
    if (!it->like && p->with_data > 0)
        it->like = sheaf_element_keep(p->of[0]);
    return status;
}

/* Rows of a part: what its first tensor's first axis says. */
static int64_t examples_of(const sheaf_element *e)
{
    const sheaf_tensor *t = e && e->count ? e->items[0].tensor : NULL;
    return t && t->shape.rank > 0 ? t->shape.dims[0] : e ? 1 : 0;
}

/* Empty parts for replicas without data. A worker that has none at all while others go on is idle
 * (S129). */
static sheaf_status fill_empty(sheaf_dist_iterator *it, struct parts *p, sheaf_error *err)
{
    if (p->with_data == 0)
        sheaf__count("input.idle_steps", 1);
    for (int r = 0; r < p->count; r++) {
        if (p->of[r])
            continue;
        p->of[r] = sheaf__spec_dummy(it->dataset->spec, it->like);
        if (!p->of[r])
            return sheaf__error(
                err, SHEAF_ERR_FAILED_PRECONDITION,
                "replica %d has no data, and the type of the elements is not known before "
                "the first one; give the map or generator a spec",
                it->dataset->strategy->first + r);
    }
    return SHEAF_OK;
}

/* The parts of the next step, unless they are pulled already. */
static sheaf_status pull_next(sheaf_dist_iterator *it)
{
    if (!it->pulled)
        pull(it, &it->next, &it->failed);
    it->pulled = true;
    return it->failed.status;
}

static struct sheaf__step_facts own_facts(const sheaf_dist_iterator *it, const struct parts *p)
{
    struct sheaf__step_facts facts = {.with_data = p->with_data, .fills = it->fills};
    for (int r = 0; r < p->count; r++)
        facts.examples += examples_of(p->of[r]);
    return facts;
}

/* A failed pull is over once the program, and all workers, know of it. */
static sheaf_status give_failure(sheaf_dist_iterator *it, sheaf_error *err)
{
    const sheaf_error failed = it->failed;
    if (is_shared(it))
        sheaf__forecast_fail(it->dataset->strategy, &it->forecast, &failed);
    parts_clear(&it->next);
    it->pulled = false;
    it->failed.status = SHEAF_OK;
    return sheaf__error_copy(err, &failed);
}

static sheaf_status check_foreseen(const sheaf_dist_iterator *it,
                                   const struct sheaf__step_facts *facts, sheaf_error *err)
{
    const int expected = facts->with_data ? it->next.count : 0;
    if (it->next.with_data == expected)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INTERNAL,
                        "%d replicas have data in step %llu of a dataset of %lld, expected %d",
                        it->next.with_data, (unsigned long long)it->forecast.step,
                        (long long)it->forecast.certain->steps, expected);
}

/* What the step has, over all workers. */
static sheaf_status agree(sheaf_dist_iterator *it, struct sheaf__step_facts *facts,
                          sheaf_error *err)
{
    sheaf_strategy *s = it->dataset->strategy;
    if (pull_next(it) < 0)
        return give_failure(it, err);
    *facts = own_facts(it, &it->next);
    if (!is_shared(it))
        return SHEAF_OK;
    if (sheaf__forecast_foresees(&it->forecast)) {
        *facts = sheaf__forecast_foresee(&it->forecast);
        return check_foreseen(it, facts, err);
    }
    sheaf_status status = sheaf__forecast_say(s, &it->forecast, facts, err);
    if (status >= 0)
        status = sheaf__forecast_hear(s, &it->forecast, facts, err);
    if (status < 0)
        sheaf__forecast_fail(s, &it->forecast, NULL);
    return status;
}

/* The same, at a place where the job may stop (`ended`). Reading that came to nothing because it does is no error, and what
 * came is not used. */
static sheaf_status agree_or_stop(sheaf_dist_iterator *it, struct sheaf__step_facts *facts,
                                  sheaf_error *err)
{
    sheaf_error fault = {0};
    sheaf_status status = agree(it, facts, &fault);
    const sheaf_status passed = sheaf__halt_pass(halt_of(it), status < 0 ? NULL : &fault);
    it->ended = passed == SHEAF_END;
    if (it->ended)
        return SHEAF_OK;
    status = status < 0 ? status : passed;
    return status < 0 ? sheaf__error_copy(err, &fault) : SHEAF_OK;
}

/* Lets the others know of the step after this one. What fails now is the next call's affair. */
static void look_ahead(sheaf_dist_iterator *it)
{
    if (!is_shared(it) || sheaf__forecast_foresees(&it->forecast))
        return;
    sheaf__halt_read_ahead(halt_of(it), true);
    if (pull_next(it) >= 0) {
        const struct sheaf__step_facts facts = own_facts(it, &it->next);
        (void)!sheaf__forecast_say(it->dataset->strategy, &it->forecast, &facts, NULL);
    }
    sheaf__halt_read_ahead(halt_of(it), false);
}

static sheaf_status make_values(const sheaf_dist_iterator *it, const struct parts *p,
                                int64_t examples, sheaf_values **out, sheaf_error *err)
{
    const sheaf_strategy *s = it->dataset->strategy;
    const bool bare = s->local == 1 && s->workers == 1; /* R3.23 */
    SHEAF__TRY(sheaf__values_check(p->of, p->count, err));
    sheaf_values *v = sheaf__values_new(p->of, p->count, !bare, err);
    if (!v)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    v->examples = examples;
    *out = sheaf__frame_own(v);
    return *out ? SHEAF_OK : sheaf__no_memory(err, "distributed values");
}

/* A job without data ends as quietly as one that trained: it is told (T32). */
static void tell_if_empty(sheaf_dist_iterator *it, const struct sheaf__step_facts *facts)
{
    if (!it->begun && facts->with_data == 0 && it->iterators[0]->elements == 0)
        sheaf__log(SHEAF_LOG_WARN, "the distributed dataset has no elements: there is no step");
    it->begun = true;
}

/* One step's values: SHEAF_END when no replica has any data, or, without empty parts, when one has
 * none (R3.6). */
static sheaf_status advance(sheaf_dist_iterator *it, bool fills, sheaf_values **out,
                            sheaf_error *err)
{
    struct sheaf__step_facts facts;
    sheaf_values *made = NULL;
    sheaf_status status = agree_or_stop(it, &facts, err);
    if (it->ended)
        return SHEAF_END;
    if (status < 0) {
        sheaf__strategy_failed(it->dataset->strategy);
        sheaf__progress_step(it->dataset, it, status,
                             &(struct sheaf__handed_out){it->next.elements, it->next.errors, 0});
        return status;
    }
    tell_if_empty(it, &facts);
    struct parts p = it->next;
    it->next.count = 0;
    it->pulled = false;
    if (is_shared(it)) /* where one worker's data end, those whose own never do go on with it */
        fills = facts.fills > 0;
    it->ended = facts.with_data == 0 || (!fills && facts.with_data < it->dataset->strategy->total);
    if (it->ended)
        sheaf__progress_end(it->dataset, it, (uint64_t)own_facts(it, &p).examples);
    status = it->ended ? SHEAF_END : fill_empty(it, &p, err);
    if (status == SHEAF_OK)
        status = make_values(it, &p, facts.examples, &made, err);
    if (status != SHEAF_END)
        sheaf__progress_step(
            it->dataset, it, status,
            &(struct sheaf__handed_out){p.elements, p.errors, (uint64_t)facts.examples});
    if (status >= 0) {
        const sheaf_status told = sheaf__progress_tell(it->dataset, err);
        status = told < 0 ? told : status;
    }
    parts_clear(&p);
    if (status == SHEAF_OK) {
        *out = made;
        look_ahead(it);
    }
    return status;
}

static sheaf_status check_next(sheaf_dist_iterator *it, sheaf_error *err)
{
    if (!it)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the iterator is NULL");
    if (it == &no_memory)
        return sheaf__no_memory(err, "a distributed iterator");
    if (it->latched.status < 0)
        return sheaf__error_copy(err, &it->latched);
    if (sheaf__mode_current()->kind == SHEAF__MODE_REPLICA)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "the next element was asked for in a replica step, expected cross-replica context");
    return SHEAF_OK;
}

sheaf_status sheaf_next(sheaf_dist_iterator *it, sheaf_values **out, sheaf_error *err)
{
    SHEAF__TRACE("input.next");
    SHEAF__TRY(check_next(it, err));
    if (it->ended)
        return SHEAF_END;
    return advance(it, it->fills, out, err);
}

sheaf_status sheaf_get_next(sheaf_dist_iterator *it, sheaf_values **out, sheaf_error *err)
{
    sheaf_status status = sheaf_next(it, out, err);
    if (status == SHEAF_END)
        return sheaf__error(err, SHEAF_ERR_OUT_OF_RANGE, "the end of the data is reached");
    return status;
}

bool sheaf_each(sheaf_frame *frame, sheaf_dist_iterator *it, sheaf_values **out, sheaf_error *err)
{
    if (err && !frame->open)
        err->status = SHEAF_OK; /* of a loop before this one */
    const sheaf_status round = frame->open ? sheaf_frame_status(err) : SHEAF_OK;
    sheaf_frame_close(frame);
    if (round < 0)
        return false;
    sheaf_frame_open(frame);
    return sheaf_next(it, out, err) == SHEAF_OK;
}

/* Optionals. */

struct sheaf_optional {
    struct sheaf__object object;
    sheaf_values *value; /* counted; NULL: nothing */
};

static void optional_destroy(void *object)
{
    sheaf_optional *o = object;
    sheaf_values_free(o->value);
    sheaf__free(o);
}

static const struct sheaf__class optional_class = {"optional", optional_destroy};

/* Empty parts are handed out whatever the flag of the dataset says, unless the data never end
 * (R3.12). */
sheaf_status sheaf_get_next_as_optional(sheaf_dist_iterator *it, sheaf_optional **out,
                                        sheaf_error *err)
{
    SHEAF__TRY(check_next(it, err));
    sheaf_optional *o = sheaf__calloc(1, sizeof(*o));
    if (!o)
        return sheaf__no_memory(err, "an optional");
    sheaf__object_init(&o->object, &optional_class);
    sheaf_values *v = NULL;
    sheaf_status status = SHEAF_END;
    if (!it->ended)
        status = advance(it, it->dataset->cardinality != SHEAF_INFINITE, &v, err);
    if (status < 0) {
        sheaf__unref(o);
        return status;
    }
    o->value = status == SHEAF_OK ? sheaf_values_keep(v) : NULL;
    o = sheaf__frame_own(o);
    if (!o)
        return sheaf__no_memory(err, "an optional");
    *out = o;
    return SHEAF_OK;
}

bool sheaf_optional_has_value(const sheaf_optional *o)
{
    return o && o->value;
}

sheaf_status sheaf_optional_value(const sheaf_optional *o, sheaf_values **out, sheaf_error *err)
{
    if (!sheaf_optional_has_value(o))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the optional has no value");
    *out = o->value;
    return SHEAF_OK;
}
