/* SPDX-License-Identifier: Apache-2.0 */
#include "data/cache.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/draws.h"
#include "data/rewrite.h"
#include "tensor/shape.h"

/* Keeps the elements of the first whole pass for all later ones (R9.22), in memory or in a file.
 *
 * An iterator that finds nothing kept runs the input and keeps what comes; the first one that comes
 * to the end leaves it to the others. A pass that ends early, has an error, or grows beyond the
 * limit is not kept. */

struct cache {
    struct sheaf__params params;
    sheaf_cache_options options;
    char *file; /* NULL: in memory */
    sheaf_error error;
};

/* Rows that are kept; immutable once the state has them. */
struct kept {
    struct sheaf__object object; /* counted */
    struct sheaf__rows rows;
    struct sheaf__marks marks; /* of the input, when it began to give them */
};

struct cache_state {
    struct sheaf__mutex lock; /* guards what follows */
    struct kept *kept;        /* in memory; counted */
    bool too_large;           /* the limit was reached: nobody tries again */
};

enum mode {
    READ, /* what is kept */
    FILL, /* the input, and keep it */
    PASS, /* the input */
    ENDED /* after filling */
};

struct cache_iter {
    struct sheaf__iter base;
    enum mode mode;
    struct sheaf__feed feed;
    struct kept *kept; /* of memory; when a file is filled, what waits to be written */
    size_t block, at;  /* READ: the next row in memory */
    size_t length;     /* FILL: rows that a new block of small ones is made for */
    uint64_t rows;     /* FILL: kept so far */
    uint64_t bytes;
    uint64_t waiting; /* bytes that are not among them because they wait to be written */
    struct sheaf__cache_reader *reader;
    struct sheaf__cache_writer *writer;
};

/* Rows in a block of small ones, and bytes that are written together. */
#define LENGTH_FIRST 16
#define LENGTH_MOST  512
#define WRITE_BYTES  (1u << 20)

static void params_free(void *params)
{
    sheaf__free(((struct cache *)params)->file);
}

static void state_stop(void *state)
{
    sheaf__unref(((struct cache_state *)state)->kept);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct cache *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    if (p->file && !p->file[0])
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the name of the file is empty");
    return sheaf__reserved_check(p->options.reserved, err);
}

/* ---- kept rows ---- */

static void kept_destroy(void *object)
{
    struct kept *kept = object;
    sheaf__rows_free(&kept->rows);
    sheaf__marks_free(&kept->marks);
    sheaf__free(kept);
}

static struct kept *kept_new(sheaf_error *err)
{
    static const struct sheaf__class cls = {"kept rows", kept_destroy};
    struct kept *kept = sheaf__calloc(1, sizeof(*kept));
    if (kept)
        sheaf__object_init(&kept->object, &cls);
    else
        sheaf__no_memory(err, "a cache");
    return kept;
}

/* Blocks grow while they are filled, and shrink when rows of other sizes begin new ones. */
static void learn(struct cache_iter *it, const struct sheaf__block *last)
{
    const struct sheaf__block *tail = it->kept->rows.blocks[it->kept->rows.used - 1];
    if (!last || last == tail)
        return;
    if (last->count >= it->length && it->length < LENGTH_MOST)
        it->length *= 2;
    else if (last->count < it->length && it->length > 2)
        it->length /= 2;
}

static sheaf_status keep(struct cache_iter *it, struct sheaf__block *block, size_t at, size_t count,
                         sheaf_error *err)
{
    struct sheaf__rows *rows = &it->kept->rows;
    const struct sheaf__block *last = rows->used > rows->head ? rows->blocks[rows->used - 1] : NULL;
    rows->reserve = rows->count + count + it->length;
    SHEAF__TRY(block->boxed ? sheaf__rows_put(rows, block->columns, err)
                            : sheaf__rows_put_from(rows, block, at, count, err));
    learn(it, last);
    return SHEAF_OK;
}

/* ---- starting ---- */

/* What the elements are, so that the file of another pipeline is not taken for ours. */
static char *description(const sheaf_dataset *d)
{
    struct sheaf__str text = {0};
    char *stages = sheaf__dataset_explain(d->inputs[0]);
    if (!stages)
        return NULL;
    sheaf__str_add(&text, stages);
    for (size_t i = 0; d->spec && i < d->spec->count; i++) {
        const sheaf_tensor_spec *s = &d->spec->specs[i];
        sheaf__str_printf(&text, "\"%s\": %s %s\n", s->name, sheaf_dtype_name(s->dtype),
                          SHEAF__SHAPE_TEXT(s->shape));
    }
    sheaf__free(stages);
    return sheaf__str_take(&text);
}

static sheaf_status open_file(struct cache_iter *it, bool reads, sheaf_error *err)
{
    const struct cache *p = sheaf__iter_params(&it->base);
    char *what = description(it->base.dataset);
    sheaf_status status = what ? SHEAF_OK : sheaf__no_memory(err, "a cache");
    if (what && reads)
        status = sheaf__cache_reader_open(p->file, what, &it->reader, err);
    else if (what)
        status = sheaf__cache_writer_open(p->file, what, &it->writer, err);
    sheaf__free(what);
    return status;
}

/* Whether the file can come into being at the end of the pass, as far as can be told before. */
static sheaf_status check_folder(const struct cache *p, sheaf_error *err)
{
    struct sheaf__file_stat stat;
    char *folder = sheaf__path_directory(p->file);
    if (!folder)
        return sheaf__no_memory(err, "a cache");
    sheaf_status status = sheaf__file_stat(folder, &stat, err);
    if (status == SHEAF_OK && stat.kind != SHEAF__FILE_DIRECTORY)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION, "%s is no folder", folder);
    if (status < 0)
        sheaf__error_prefix(err, "no file %s can be made", p->file);
    sheaf__free(folder);
    return status;
}

/* Chooses between reading, filling and passing. */
static sheaf_status choose(struct cache_iter *it, sheaf_error *err)
{
    const struct cache *p = sheaf__iter_params(&it->base);
    struct cache_state *state = it->base.dataset->state;
    sheaf__mutex_lock(&state->lock);
    it->kept = sheaf__ref(state->kept);
    it->mode = it->kept ? READ : state->too_large ? PASS : FILL;
    sheaf__mutex_unlock(&state->lock);
    if (it->mode != FILL)
        return SHEAF_OK;
    if (p->file) {
        sheaf_status status = open_file(it, true, err);
        if (status == SHEAF_OK)
            it->mode = READ;
        if (status != SHEAF_END)
            return status;
        SHEAF__TRY(check_folder(p, err));
    }
    it->kept = kept_new(err);
    it->length = LENGTH_FIRST;
    return it->kept ? SHEAF_OK : err->status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct cache_iter *it = (struct cache_iter *)base;
    SHEAF__TRY(choose(it, err));
    if (it->mode == READ)
        return SHEAF_OK;
    if (it->kept)
        SHEAF__TRY(
            sheaf__marks_take(&it->kept->marks, base->dataset->inputs[0], base->flow->redraw, err));
    SHEAF__TRY(sheaf__iter_input(base, 0, base->flow, err));
    it->feed.from = base->inputs[0];
    return SHEAF_OK;
}

/* ---- filling ---- */

static void drop(struct cache_iter *it)
{
    sheaf__cache_writer_drop(it->writer);
    it->writer = NULL;
    sheaf__unref(it->kept);
    it->kept = NULL;
}

/* The rest of the pass goes by, and what was kept of it is dropped. */
static void give_up(struct cache_iter *it)
{
    drop(it);
    it->mode = PASS;
}

static void give_up_for_good(struct cache_iter *it)
{
    const struct cache *p = sheaf__iter_params(&it->base);
    struct cache_state *state = it->base.dataset->state;
    char name[64];
    give_up(it);
    sheaf__mutex_lock(&state->lock);
    state->too_large = true;
    sheaf__mutex_unlock(&state->lock);
    sheaf__log(SHEAF_LOG_WARN,
               "%s: nothing is kept: the first %llu elements have %llu bytes, the limit is %llu",
               sheaf__dataset_name(it->base.dataset, name), (unsigned long long)it->rows,
               (unsigned long long)(it->bytes + it->waiting),
               (unsigned long long)p->options.byte_limit);
}

/* Writes what waits; the file is made when there is something for it. */
static sheaf_status write_out(struct cache_iter *it, sheaf_error *err)
{
    if (!it->writer)
        SHEAF__TRY(open_file(it, false, err));
    it->waiting = 0;
    return sheaf__cache_writer_put(it->writer, &it->kept->rows, &it->bytes, err);
}

/* Keeps rows of the feed's block that go to the consumer. */
static sheaf_status keep_rows(struct cache_iter *it, size_t count, sheaf_error *err)
{
    const struct cache *p = sheaf__iter_params(&it->base);
    uint64_t bytes = sheaf__block_bytes(it->feed.block, it->feed.at, count);
    SHEAF__TRY(keep(it, it->feed.block, it->feed.at, count, err));
    it->rows += count;
    it->waiting += bytes;
    if (!p->file) {
        it->bytes += it->waiting;
        it->waiting = 0;
    } else if (it->waiting >= WRITE_BYTES) {
        SHEAF__TRY(write_out(it, err));
    }
    if (p->options.byte_limit > 0 && it->bytes + it->waiting > p->options.byte_limit)
        give_up_for_good(it);
    return SHEAF_OK;
}

/* The pass is whole: leaves what it kept to the others, unless one was faster. */
static sheaf_status finish(struct cache_iter *it, sheaf_error *err)
{
    const struct cache *p = sheaf__iter_params(&it->base);
    struct cache_state *state = it->base.dataset->state;
    if (p->file) {
        SHEAF__TRY(write_out(it, err));
        struct sheaf__cache_writer *writer = it->writer;
        it->writer = NULL;
        SHEAF__TRY(sheaf__cache_writer_commit(writer, err));
        it->mode = ENDED;
        return SHEAF_OK;
    }
    sheaf__mutex_lock(&state->lock);
    if (!state->kept) {
        state->kept = it->kept;
        it->kept = NULL;
    }
    sheaf__mutex_unlock(&state->lock);
    it->mode = ENDED;
    return SHEAF_OK;
}

/* ---- the three ways ---- */

static sheaf_status read_kept(struct cache_iter *it, size_t want, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    const struct sheaf__rows *kept = &it->kept->rows;
    size_t before = rows->count;
    while (rows->count - before < want && kept->head + it->block < kept->used) {
        struct sheaf__block *block = kept->blocks[kept->head + it->block];
        size_t left = block->count - it->at, due = want - (rows->count - before);
        size_t n = left < due ? left : due;
        SHEAF__TRY(sheaf__rows_put_from(rows, block, it->at, n, err));
        it->at += n;
        if (it->at == block->count) {
            it->block++;
            it->at = 0;
        }
    }
    return rows->count > before ? SHEAF_OK : SHEAF_END;
}

/* An input's error, or the cache's own, ends the keeping; the rows go on. */
static sheaf_status fill(struct cache_iter *it, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    char name[64];
    sheaf_status status = sheaf__feed_fill(&it->feed, want, err);
    if (status < 0)
        sheaf__log_once(SHEAF_LOG_WARN, "data.cache.failed", "%s: this pass is not kept: %s",
                        sheaf__dataset_name(it->base.dataset, name), err->message);
    if (status == SHEAF_END && finish(it, err) < 0)
        status = err->status;
    size_t left = sheaf__feed_left(&it->feed), count = left < want ? left : want;
    if (status == SHEAF_OK)
        status = keep_rows(it, count, err);
    if (status < 0)
        give_up(it);
    if (status != SHEAF_OK)
        return status;
    status = sheaf__rows_put_from(rows, it->feed.block, it->feed.at, count, err);
    it->feed.at += count;
    return status;
}

/* What a pass that was given up had taken already comes first. */
static sheaf_status pass(struct cache_iter *it, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    size_t left = sheaf__feed_left(&it->feed), count = left < want ? left : want;
    if (left == 0 && it->feed.rows.count > 0)
        return sheaf__rows_move(&it->feed.rows, want, rows, err);
    if (left == 0)
        return sheaf__iter_pull(it->base.inputs[0], want, rows, err);
    it->feed.at += count;
    return sheaf__rows_put_from(rows, it->feed.block, it->feed.at - count, count, err);
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct cache_iter *it = (struct cache_iter *)base;
    switch (it->mode) {
    case READ:
        return it->reader ? sheaf__cache_reader_next(it->reader, want, rows, err)
                          : read_kept(it, want, rows, err);
    case FILL:
        return fill(it, want, rows, err);
    case PASS:
        return pass(it, want, rows, err);
    case ENDED:
        break;
    }
    return SHEAF_END;
}

/* Rows in memory that are left to read. */
static uint64_t left_to_read(const struct cache_iter *it)
{
    const struct sheaf__rows *kept = &it->kept->rows;
    uint64_t left = 0;
    for (size_t b = kept->head + it->block; b < kept->used; b++)
        left += kept->blocks[b]->count;
    return left - it->at;
}

static sheaf_status step_over(struct cache_iter *it, uint64_t count, struct sheaf__passed *passed)
{
    const struct sheaf__rows *kept = &it->kept->rows;
    while (count > 0 && kept->head + it->block < kept->used) {
        size_t left = kept->blocks[kept->head + it->block]->count - it->at;
        size_t n = left < count ? left : (size_t)count;
        it->at += n;
        count -= n;
        passed->count += n;
        if (n == left) {
            it->block++;
            it->at = 0;
        }
    }
    return count > 0 ? SHEAF_END : SHEAF_OK;
}

/* What is to be kept has to be made. */
static sheaf_status pass_by(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                            sheaf_error *err)
{
    struct cache_iter *it = (struct cache_iter *)base;
    if (it->mode == READ && !it->reader)
        return step_over(it, count, passed);
    if (it->mode == PASS)
        return sheaf__feed_pass(&it->feed, count, passed, err);
    return sheaf__iter_drop(base, count, passed, err);
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct cache_iter *it = (const struct cache_iter *)base;
    if (it->mode == READ)
        return it->reader ? 0 : left_to_read(it);
    return it->mode == ENDED ? 0 : sheaf__feed_sure(&it->feed);
}

static void stop(struct sheaf__iter *base)
{
    struct cache_iter *it = (struct cache_iter *)base;
    char name[64];
    if (it->mode == FILL && it->rows > 0)
        sheaf__log_once(
            SHEAF_LOG_WARN, "data.cache.partial",
            "%s: the pass ended after %llu elements, before the end of the input: it is "
            "not kept",
            sheaf__dataset_name(base->dataset, name), (unsigned long long)it->rows);
    drop(it);
    sheaf__cache_reader_free(it->reader);
    sheaf__feed_free(&it->feed);
}

static const struct sheaf__marks *frozen(const sheaf_dataset *d)
{
    struct cache_state *state = d->state;
    sheaf__mutex_lock(&state->lock);
    const struct kept *kept = state->kept; /* it stays until it is thawed */
    sheaf__mutex_unlock(&state->lock);
    return kept ? &kept->marks : NULL;
}

static void thaw(sheaf_dataset *d)
{
    struct cache_state *state = d->state;
    sheaf__mutex_lock(&state->lock);
    struct kept *kept = state->kept;
    state->kept = NULL;
    sheaf__mutex_unlock(&state->lock);
    sheaf__unref(kept);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct cache *p = (const void *)d->params;
    sheaf__str_printf(text, "(%s)", p->file ? p->file : "memory");
}

const struct sheaf__stage_ops sheaf__cache_ops = {
    .describe = describe,
    .params_free = params_free,
    .state_size = sizeof(struct cache_state),
    .state_stop = state_stop,
    .frozen = frozen,
    .thaw = thaw,
    .iter_size = sizeof(struct cache_iter),
    .start = start,
    .next = next,
    .pass = pass_by,
    .sure = sure,
    .stop = stop,
    .lazy = true,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_cache(sheaf_dataset *d, const sheaf_cache_options *options)
{
    struct cache *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_CACHE);
    if (p && options) {
        p->options = *options;
        p->file = options->file ? sheaf__strdup(options->file) : NULL;
        if (options->file && !p->file)
            sheaf__no_memory(&p->error, "a cache");
    }
    return sheaf__dataset_new(SHEAF__STAGE_CACHE, p, &d, 1);
}
