/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/draws.h"
#include "data/iterator.h"
#include "data/rewrite.h"
#include "tensor/frame.h"

#include <string.h>

/* Saving where an iterator is, and going on there. */

/* ---- saving ---- */

sheaf_status sheaf__iterator_saves(const sheaf_iterator *it, sheaf_error *err)
{
    SHEAF__TRY(sheaf__iterator_check(it, err));
    const sheaf_dataset *d = it->dataset;
    if (it->root->broken)
        return sheaf__error_copy(err, &it->root->later);
    SHEAF__TRY(sheaf__trail_check(it->flow.trail, err));
    return sheaf__trail_check_stages(d, it->flow.unordered, err);
}

sheaf_status sheaf__iterator_put_files(const sheaf_iterator *it, struct sheaf__position *p,
                                       sheaf_error *err)
{
    uint64_t file, records;
    for (size_t at = 0; sheaf__trail_next_file(it->flow.trail, &at, &file, &records);) {
        struct sheaf__position_file *f = sheaf__position_add_file(p);
        if (!f)
            return sheaf__no_memory(err, "the position of an iterator");
        *f = (struct sheaf__position_file){file, records};
    }
    return SHEAF_OK;
}

static sheaf_status fill(const sheaf_iterator *it, struct sheaf__position *p, sheaf_error *err)
{
    const struct sheaf__marks *marks = sheaf__trail_marks(it->flow.trail);
    p->pipeline = sheaf__dataset_order(it->dataset);
    if (!p->pipeline)
        return sheaf__no_memory(err, "the position of an iterator");
    for (size_t i = 0; i < marks->count; i++) {
        struct sheaf__position_draws *d = sheaf__position_add_draws(p);
        if (!d)
            return sheaf__no_memory(err, "the position of an iterator");
        *d = (struct sheaf__position_draws){marks->items[i].seeds, marks->items[i].count};
    }
    p->elements = it->elements;
    p->errors = it->errors;
    p->forgives = sheaf__account_forgives(it->flow.account);
    return sheaf__iterator_put_files(it, p, err);
}

sheaf_status sheaf_iterator_save(sheaf_iterator *it, sheaf_bytes *position, sheaf_error *err)
{
    struct sheaf__position p = {0};
    struct sheaf__buf buf = {0};
    SHEAF__TRY(sheaf__iterator_saves(it, err));
    sheaf_status status = fill(it, &p, err);
    if (status >= 0)
        status = sheaf__position_write(&p, &buf, err);
    void *bytes = status >= 0 ? sheaf__frame_alloc(buf.size) : NULL;
    if (bytes)
        *position = (sheaf_bytes){memcpy(bytes, buf.data, buf.size), buf.size};
    else if (status >= 0)
        status = sheaf__no_memory(err, "the position of an iterator");
    sheaf__buf_free(&buf);
    sheaf__position_free(&p);
    return status;
}

/* ---- going on ---- */

void sheaf__iterator_seek(sheaf_iterator *it, uint64_t elements, uint64_t errors)
{
    if (!it->root)
        return;
    it->elements = elements;
    it->errors = errors;
    it->behind = elements + errors > 0;
    it->up_to = false;
}

void sheaf__iterator_seek_up_to(sheaf_iterator *it, uint64_t elements)
{
    sheaf__iterator_seek(it, elements, 0);
    it->up_to = it->behind;
}

void sheaf__iterator_take_files(sheaf_iterator *it, const struct sheaf__position *p)
{
    for (size_t i = 0; it->root && i < p->file_count; i++)
        sheaf__trail_learn(it->flow.trail, p->files[i].file, p->files[i].records);
}

static sheaf_status ends_early(const sheaf_iterator *it, uint64_t found, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                        "the data end after %llu elements, the saved position is behind %llu: they "
                        "have changed",
                        (unsigned long long)found, (unsigned long long)it->elements);
}

/* Makes everything again that the consumer was given: an error stands for what it used up. */
static sheaf_status replay(sheaf_iterator *it, sheaf_error *err)
{
    struct sheaf__rows row = {0};
    sheaf_status status = SHEAF_OK;
    uint64_t found = 0;
    for (uint64_t i = 0; status == SHEAF_OK && i < it->elements + it->errors; i++) {
        sheaf__rows_clear(&row);
        status = sheaf__iter_pull(it->root, 1, &row, err);
        found += status == SHEAF_OK;
        if (status < 0 && status != SHEAF_ERR_CANCELLED)
            status = SHEAF_OK;
    }
    sheaf__rows_free(&row);
    return status == SHEAF_END ? ends_early(it, found, err) : status;
}

sheaf_status sheaf__iterator_catch_up(sheaf_iterator *it, sheaf_error *err)
{
    struct sheaf__passed passed = {0};
    sheaf_status status;
    it->behind = false;
    if (it->errors > 0 || sheaf__trail_marks(it->flow.trail)->shared)
        status = replay(it, err);
    else
        status = sheaf__iter_pass(it->root, it->elements, &passed, err);
    if (status == SHEAF_END && !it->up_to)
        status = ends_early(it, passed.count, err);
    return status < 0 ? sheaf__iter_break(it->root, err) : SHEAF_OK;
}

/* Checks the bytes and keeps what they say. */
static sheaf_status accept(sheaf_iterator *it, sheaf_bytes position, sheaf_error *err)
{
    struct sheaf__position p;
    SHEAF__TRY(sheaf__iterator_saves(it, err));
    SHEAF__TRY(sheaf__position_read(&p, position.data, position.size, err));
    if (p.distributed) {
        sheaf__position_free(&p);
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "the position is of a distributed dataset, not of an iterator");
    }
    char *pipeline = sheaf__dataset_order(it->dataset);
    sheaf_status status = pipeline ? sheaf__position_fits(&p, pipeline, err)
                                   : sheaf__no_memory(err, "the position of an iterator");
    sheaf__free(pipeline);
    if (status >= 0)
        status = sheaf__position_forgives(&p, &it->dataset->options, err);
    const size_t draws = sheaf__trail_marks(it->flow.trail)->count;
    if (status >= 0 && p.draw_count != draws)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "the position has %zu random stages, the pipeline %zu", p.draw_count,
                              draws);
    if (status < 0) {
        sheaf__position_free(&p);
        return status;
    }
    sheaf__position_free(&it->accepted);
    it->accepted = p;
    return SHEAF_OK;
}

/* Begins anew as the iterator of the position began. */
static void take(sheaf_iterator *it)
{
    struct sheaf__position *p = &it->accepted;
    const struct sheaf__marks *marks = sheaf__trail_marks(it->flow.trail);
    sheaf__iterator_end(it);
    for (size_t i = 0; i < marks->count; i++)
        sheaf__draws_set(sheaf__draws_of(marks->items[i].dataset), p->draws[i].seeds,
                         p->draws[i].count);
    sheaf__draws_thaw(it->dataset);
    sheaf__iterator_close(it);
    sheaf__iterator_open(it);
    sheaf__iterator_take_files(it, p);
    sheaf__iterator_seek(it, p->elements, p->errors);
}

sheaf_status sheaf_iterator_restore(sheaf_iterator *it, sheaf_bytes position, sheaf_error *err)
{
    SHEAF__TRY(accept(it, position, err));
    take(it);
    sheaf__position_free(&it->accepted);
    return SHEAF_OK;
}

/* ---- in a checkpoint ---- */

static sheaf_status trackable_check(const sheaf_trackable *t, sheaf_error *err)
{
    const sheaf_iterator *it = t->object;
    return it->dataset ? sheaf__error_copy(err, &it->dataset->error) : SHEAF_OK;
}

static sheaf_status trackable_save(sheaf_trackable *t, sheaf_bytes *bytes, sheaf_error *err)
{
    return sheaf_iterator_save(t->object, bytes, err);
}

/* Without a position it stays where it is. */
static sheaf_status trackable_accept(sheaf_trackable *t, const sheaf_bytes *bytes, sheaf_error *err)
{
    return bytes ? accept(t->object, *bytes, err) : SHEAF_OK;
}

static void trackable_settle(sheaf_trackable *t, bool take_it)
{
    sheaf_iterator *it = t->object;
    if (take_it && it->accepted.pipeline)
        take(it);
    sheaf__position_free(&it->accepted);
}

const struct sheaf__trackable_class sheaf__iterator_trackable_class = {.check = trackable_check,
                                                                       .save = trackable_save,
                                                                       .accept = trackable_accept,
                                                                       .settle = trackable_settle};

sheaf_trackable *sheaf_iterator_trackable(sheaf_iterator *it)
{
    return it ? &it->trackable : NULL;
}
