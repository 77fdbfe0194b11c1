/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/function.h"

/* The tree of iterators inside of one (iterate.c). */

/* ---- what a tree shares ---- */

sheaf_status sheaf__flow_start(struct sheaf__flow *flow, const struct sheaf__flow *above,
                               sheaf_error *err)
{
    *flow = *above;
    flow->token = sheaf__token_new(above->token);
    return flow->token ? SHEAF_OK : sheaf__no_memory(err, "an iterator");
}

static sheaf_status pass_at_once(struct sheaf__gate *gate, sheaf_error *err)
{
    (void)gate;
    (void)err;
    return SHEAF_OK;
}

void sheaf__flow_branch(struct sheaf__flow *flow)
{
    static struct sheaf__gate first = {NULL, pass_at_once};
    if (!flow->gate && sheaf__account_limits(flow->account))
        flow->gate = &first;
}

sheaf_status sheaf__gates_pass(struct sheaf__gate *gate, sheaf_error *err)
{
    for (; gate; gate = gate->above)
        SHEAF__TRY(gate->wait(gate, err));
    return SHEAF_OK;
}

void sheaf__flow_cancel(struct sheaf__flow *flow)
{
    if (flow->token)
        sheaf__token_cancel_with(flow->token, SHEAF_ERR_CANCELLED, "the iterator was freed");
}

void sheaf__flow_free(struct sheaf__flow *flow)
{
    if (flow->token)
        sheaf__token_unref(flow->token);
    flow->token = NULL;
}

/* ---- the tree ---- */

static void start(struct sheaf__iter *it)
{
    const struct sheaf__stage_ops *ops = it->dataset->stage->ops;
    const size_t count = ops->lazy ? 0 : sheaf__dataset_opens(it->dataset);
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < count && status >= 0; i++)
        status = sheaf__iter_input(it, i, it->flow, &it->later);
    if (status >= 0 && ops->start)
        status = ops->start(it, &it->later);
    it->broken = status < 0;
}

static struct sheaf__iter *iter_new(sheaf_dataset *d, const struct sheaf__flow *flow,
                                    struct sheaf__note *note)
{
    struct sheaf__iter *it = sheaf__calloc(1, d->stage->ops->iter_size);
    struct sheaf__iter **inputs = it ? sheaf__calloc(d->input_count, sizeof(*inputs)) : NULL;
    struct sheaf__stretch stretch;
    if (!inputs) {
        sheaf__free(it);
        return NULL;
    }
    it->dataset = sheaf_dataset_ref(d);
    it->flow = flow;
    it->note = note;
    it->inputs = inputs;
    it->input_count = d->input_count;
    if (d->error.status < 0) {
        it->broken = true;
        it->later = d->error;
        return it;
    }
    sheaf__stretch_begin(&stretch, sheaf__note_work(note));
    start(it);
    sheaf__stretch_end(&stretch);
    return it;
}

sheaf_status sheaf__iter_make(struct sheaf__iter *above, sheaf_dataset *d,
                              const struct sheaf__flow *flow, struct sheaf__iter **it,
                              sheaf_error *err)
{
    struct sheaf__note *note =
        above ? sheaf__profile_below(flow->profile, above->note, d, above->input_count)
              : sheaf__profile_root(flow->profile);
    *it = iter_new(d, flow, note);
    return *it ? SHEAF_OK : sheaf__no_memory(err, "an iterator");
}

sheaf_status sheaf__iter_input(struct sheaf__iter *it, size_t i, const struct sheaf__flow *flow,
                               sheaf_error *err)
{
    sheaf_dataset *d = it->dataset->inputs[i];
    it->inputs[i] = iter_new(d, flow, sheaf__profile_below(flow->profile, it->note, d, i));
    return it->inputs[i] ? SHEAF_OK : sheaf__no_memory(err, "an iterator");
}

void sheaf__iter_free(struct sheaf__iter *it)
{
    if (!it)
        return;
    if (it->dataset->stage->ops->stop)
        it->dataset->stage->ops->stop(it);
    for (size_t i = 0; i < it->input_count; i++)
        sheaf__iter_free(it->inputs[i]);
    sheaf__free(it->inputs);
    sheaf_dataset_free(it->dataset);
    sheaf__free(it);
}

/* Puts the stage's name before an error that has none yet. */
static void name_error(const struct sheaf__iter *it, sheaf_error *err)
{
    char name[64];
    if (!err->reserved)
        sheaf__error_prefix(err, "%s", sheaf__dataset_name(it->dataset, name));
    err->reserved = 1;
}

sheaf_status sheaf__iter_pull(struct sheaf__iter *it, size_t want, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    if (it->later_end) {
        it->later_end = false;
        return SHEAF_END;
    }
    if (it->later.status < 0) {
        *err = it->later;
        if (!it->broken)
            it->later.status = SHEAF_OK;
        name_error(it, err);
        return err->status;
    }
    SHEAF__TRY(sheaf__token_check(it->flow->token, err));
    size_t before = rows->count;
    if (rows->reserve < before + want)
        rows->reserve = before + want;
    err->status = SHEAF_OK;
    err->reserved = 0;
    struct sheaf__function_watch watch;
    struct sheaf__stretch stretch;
    sheaf__function_watch(&watch, it);
    sheaf__stretch_begin(&stretch, sheaf__note_work(it->note));
    sheaf_status status = it->dataset->stage->ops->next(it, want, rows, err);
    sheaf__stretch_end(&stretch);
    sheaf__function_watch_end(&watch);
    sheaf__rows_trim(rows);
    if (it->note)
        sheaf__note_give(it->note, rows, rows->count - before);
    if (status < 0)
        name_error(it, err);
    if (status != SHEAF_OK && rows->count > before) { /* after these rows */
        if (status < 0)
            it->later = *err;
        it->later_end = status == SHEAF_END;
        status = SHEAF_OK;
    }
    if (status >= 0) { /* what it says is of no row: of a later one, or of one that was skipped */
        err->status = SHEAF_OK;
        err->reserved = 0;
    }
    return status;
}

size_t sheaf__iter_ahead(const struct sheaf__iter *it, size_t want)
{
    /* Records come before one that waits, whatever is asked. */
    const bool keeps = it->flow->gate && !(it->dataset->stage->traits & SHEAF__READER);
    return keeps && want > 1 ? 1 : want;
}

/* ---- stepping over ---- */

/* Rows that are dropped at a time. */
#define CHUNK 256

/* Rows of `count` batches of the block: their first tensor's first size. */
static uint64_t rows_of(const struct sheaf__block *b, uint64_t count)
{
    const sheaf_tensor *t = b->columns->count > 0 ? b->columns->items[0].tensor : NULL;
    const int axis = b->boxed ? 0 : 1;
    return t && t->shape.rank > axis ? count * (uint64_t)t->shape.dims[axis] : 0;
}

sheaf_status sheaf__iter_drop(struct sheaf__iter *it, uint64_t count, struct sheaf__passed *passed,
                              sheaf_error *err)
{
    struct sheaf__rows rows = {0};
    sheaf_status status = SHEAF_OK;
    while (status == SHEAF_OK && count > 0) {
        sheaf__rows_clear(&rows);
        status = sheaf__iter_pull(it, count < CHUNK ? (size_t)count : CHUNK, &rows, err);
        count -= rows.count;
        passed->count += rows.count;
        for (size_t i = rows.head; i < rows.used; i++)
            passed->rows += rows_of(rows.blocks[i], rows.blocks[i]->count);
    }
    sheaf__rows_free(&rows);
    return status;
}

sheaf_status sheaf__iter_pass(struct sheaf__iter *it, uint64_t count, struct sheaf__passed *passed,
                              sheaf_error *err)
{
    const struct sheaf__stage_ops *ops = it->dataset->stage->ops;
    if (count == 0)
        return SHEAF_OK;
    if (!ops->pass || it->later_end || it->later.status < 0)
        return sheaf__iter_drop(it, count, passed, err);
    SHEAF__TRY(sheaf__token_check(it->flow->token, err));
    err->status = SHEAF_OK;
    err->reserved = 0;
    sheaf_status status = ops->pass(it, count, passed, err);
    if (status < 0)
        name_error(it, err);
    return status;
}

sheaf_status sheaf__iter_break(struct sheaf__iter *it, const sheaf_error *err)
{
    it->broken = true;
    it->later = *err;
    return err->status;
}

uint64_t sheaf__iter_sure(const struct sheaf__iter *it)
{
    const struct sheaf__stage_ops *ops = it->dataset->stage->ops;
    return it->broken || !ops->sure ? 0 : ops->sure(it);
}

void sheaf__iter_join(struct sheaf__iter *it, struct sheaf__thread *thread)
{
    sheaf_error err;
    char name[64];
    while (sheaf__thread_join(thread, sheaf__clock_after(SHEAF__S), &err) == SHEAF_ERR_DEADLINE)
        sheaf__log(
            SHEAF_LOG_WARN, "%s: still waiting for %s", sheaf__dataset_name(it->dataset, name),
            it->dataset->calls ? "a function of the program to return" : "its input to be read");
}

/* ---- feeds ---- */

sheaf_status sheaf__feed_fill(struct sheaf__feed *feed, size_t want, sheaf_error *err)
{
    while (sheaf__feed_left(feed) == 0) {
        sheaf__block_unref(feed->block);
        feed->at = 0;
        feed->block = sheaf__rows_pop(&feed->rows);
        if (feed->block)
            continue;
        sheaf__rows_clear(&feed->rows);
        sheaf_status status = sheaf__iter_pull(feed->from, want, &feed->rows, err);
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

/* Drops up to `count` rows that are at hand; returns how many. */
static uint64_t drop_at_hand(struct sheaf__feed *feed, uint64_t count, struct sheaf__passed *passed)
{
    uint64_t dropped = 0;
    while (dropped < count) {
        const uint64_t left = sheaf__feed_left(feed), want = count - dropped;
        const uint64_t n = left < want ? left : want;
        if (n > 0) {
            passed->rows += rows_of(feed->block, n);
            feed->at += (size_t)n;
            dropped += n;
            continue;
        }
        sheaf__block_unref(feed->block);
        feed->block = sheaf__rows_pop(&feed->rows);
        feed->at = 0;
        if (!feed->block)
            break;
    }
    passed->count += dropped;
    return dropped;
}

sheaf_status sheaf__feed_pass(struct sheaf__feed *feed, uint64_t count,
                              struct sheaf__passed *passed, sheaf_error *err)
{
    count -= drop_at_hand(feed, count, passed);
    return sheaf__iter_pass(feed->from, count, passed, err);
}

uint64_t sheaf__feed_sure(const struct sheaf__feed *feed)
{
    return sheaf__feed_left(feed) + feed->rows.count + sheaf__iter_sure(feed->from);
}

void sheaf__feed_free(struct sheaf__feed *feed)
{
    sheaf__block_unref(feed->block);
    sheaf__rows_free(&feed->rows);
}
