/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/iterator.h"
#include "tensor/frame.h"

/* The iterator that programs have. */

/* Stand for one there was no memory for, and for one of no dataset. */
static struct sheaf_iterator no_memory = {
    .trackable = {&sheaf__iterator_trackable_class, &no_memory}};
static struct sheaf_iterator no_dataset = {
    .trackable = {&sheaf__iterator_trackable_class, &no_dataset}};

sheaf_status sheaf__iterator_check(const sheaf_iterator *it, sheaf_error *err)
{
    if (it == &no_dataset)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the dataset is NULL");
    if (!it)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the iterator is NULL");
    if (it == &no_memory)
        return sheaf__no_memory(err, "an iterator");
    return it->root ? SHEAF_OK : sheaf__error_copy(err, &it->failure);
}

/* What it runs; the program's stages are among it, so that they go on with their seeds. A new count.
 * One with an error has none but that to give, and maybe no input. */
static sheaf_dataset *optimized(sheaf_dataset *d)
{
    const sheaf_dataset *last = d;
    if (d->error.status < 0)
        return sheaf_dataset_ref(d);
    while (sheaf__dataset_is(last, SHEAF__STAGE_OPTIONS) && last->input_count > 0)
        last = last->inputs[0];
    d = sheaf_dataset_ref(d);
    if (!d->options.optimizations.inject_prefetch || sheaf__dataset_is(last, SHEAF__STAGE_PREFETCH))
        return d;
    return sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE);
}

/* In the context of the iterator. */
static sheaf_status open_tree(sheaf_iterator *it, sheaf_context *context, sheaf_error *err)
{
    struct sheaf__flow above = {.context = context,
                                .tuner = &it->tuner,
                                .maps = &it->dataset->maps,
                                .unordered = it->dataset->options.unordered,
                                .parallel_maps = it->dataset->options.optimizations.parallel_maps,
                                .divided = it->dataset->divided};
    SHEAF__TRY(sheaf__context_check(err));
    sheaf__tuner_start(&it->tuner, &it->dataset->options, above.maps);
    sheaf__file_maps_begin(above.maps, it->tuner.bytes / 2);
    it->flow.maps = above.maps;
    SHEAF__TRY(sheaf__trail_new(it->dataset, &above.trail, err));
    it->flow.trail = above.trail;
    it->flow.account = above.account = sheaf__account_new(&it->dataset->options);
    it->runs = optimized(it->dataset);
    if (sheaf__dataset_is_measured(it->dataset))
        it->flow.profile = above.profile = sheaf__profile_new(it->runs);
    if (!above.account)
        return sheaf__no_memory(err, "an iterator");
    SHEAF__TRY(sheaf__flow_start(&it->flow, &above, err));
    return sheaf__iter_make(NULL, it->runs, &it->flow, &it->root, err);
}

void sheaf__iterator_open(sheaf_iterator *it)
{
    sheaf_context *context = it->dataset->context ? it->dataset->context : sheaf__context();
    sheaf_context *caller = sheaf_context_enter(context);
    if (open_tree(it, context, &it->failure) < 0)
        sheaf__iterator_close(it);
    sheaf_context_enter(caller);
}

void sheaf__iterator_end(sheaf_iterator *it)
{
    sheaf__flow_cancel(&it->flow);
    sheaf__iter_free(it->root);
    sheaf__rows_free(&it->rows);
    it->root = NULL;
    it->rows = (struct sheaf__rows){0};
}

void sheaf__iterator_close(sheaf_iterator *it)
{
    sheaf__iterator_end(it);
    if (it->flow.maps)
        sheaf__file_maps_end(it->flow.maps);
    sheaf__profile_end(it->flow.profile);
    sheaf__trail_free(it->flow.trail);
    sheaf__account_free(it->flow.account);
    sheaf__flow_free(&it->flow);
    sheaf_dataset_free(it->runs);
    it->runs = NULL;
    it->flow.maps = NULL;
    it->flow.trail = NULL;
    it->flow.account = NULL;
    it->flow.profile = NULL;
}

sheaf_iterator *sheaf_dataset_iterate(sheaf_dataset *d)
{
    if (!d)
        return &no_dataset;
    struct sheaf_iterator *it = sheaf__calloc(1, sizeof(*it));
    if (!it)
        return &no_memory;
    it->dataset = sheaf_dataset_ref(d);
    it->trackable = (sheaf_trackable){&sheaf__iterator_trackable_class, it};
    sheaf__iterator_open(it);
    return it;
}

static sheaf_status next(sheaf_iterator *it, sheaf_element **out, sheaf_error *err)
{
    struct sheaf__profile *profile = it->flow.profile;
    if (it->behind)
        SHEAF__TRY(sheaf__iterator_catch_up(it, err));
    if (profile)
        sheaf__profile_ask(profile);
    sheaf_status status = sheaf__iter_pull(it->root, 1, &it->rows, err);
    if (profile)
        sheaf__profile_answer(profile, status);
    if (status == SHEAF_OK) {
        sheaf_element *e = sheaf__block_element(sheaf__rows_front(&it->rows), 0, err);
        sheaf__rows_clear(&it->rows);
        e = sheaf__frame_own(e);
        if (e)
            *out = e;
        else
            status = sheaf__no_memory(err, "an element");
    }
    it->elements += status == SHEAF_OK;
    it->errors += status < 0 && status != SHEAF_ERR_CANCELLED;
    return status;
}

sheaf_status sheaf_iterator_next(sheaf_iterator *it, sheaf_element **out, sheaf_error *err)
{
    SHEAF__TRY(sheaf__iterator_check(it, err));
    sheaf_error mine;
    sheaf_context *caller = sheaf_context_enter(it->flow.context);
    sheaf_status status = next(it, out, &mine);
    sheaf_context_enter(caller);
    if (status < 0 && err) {
        *err = mine;
        err->reserved = 0;
    }
    return status;
}

sheaf_status sheaf__iterator_pass(sheaf_iterator *it, uint64_t count, struct sheaf__passed *passed,
                                  sheaf_error *err)
{
    sheaf_context *caller = sheaf_context_enter(it->flow.context);
    sheaf_status status = sheaf__iter_pass(it->root, count, passed, err);
    sheaf_context_enter(caller);
    return status;
}

sheaf_status sheaf_iterator_account(sheaf_iterator *it, sheaf_account *account, sheaf_error *err)
{
    SHEAF__TRY(sheaf__iterator_check(it, err));
    SHEAF__TRY(sheaf__account_get(it->flow.account, 0, account, err));
    account->examples = (int64_t)it->elements;
    return SHEAF_OK;
}

void sheaf_iterator_free(sheaf_iterator *it)
{
    if (!it || it == &no_memory || it == &no_dataset)
        return;
    sheaf_context *context = it->flow.context;
    sheaf_context *caller = context ? sheaf_context_enter(context) : NULL;
    sheaf__iterator_close(it);
    sheaf__position_free(&it->accepted);
    sheaf_dataset_free(it->dataset);
    sheaf__free(it);
    if (context)
        sheaf_context_enter(caller);
}

bool sheaf_each_element(sheaf_frame *frame, sheaf_iterator *it, sheaf_element **out,
                        sheaf_error *err)
{
    if (err && !frame->open)
        err->status = SHEAF_OK; /* of a loop before this one */
    const sheaf_status round = frame->open ? sheaf_frame_status(err) : SHEAF_OK;
    sheaf_frame_close(frame);
    if (round < 0)
        return false;
    sheaf_frame_open(frame);
    if (sheaf_iterator_next(it, out, err) == SHEAF_OK)
        return true;
    sheaf_frame_close(frame);
    return false;
}
