/* SPDX-License-Identifier: Apache-2.0 */
#include "data/profile.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/rewrite.h"
#include "data/stage.h"

/* Measuring the stages of an iterator. */

bool sheaf__dataset_is_measured(const sheaf_dataset *d)
{
    return d->options.measured || *sheaf__config_text(SHEAF__CONFIG_EXPLAIN);
}

static _Thread_local struct sheaf__stretch *innermost;

/* ---- notes ---- */

static void note_free(struct sheaf__note *note)
{
    while (note) {
        struct sheaf__note *beside = note->beside;
        note_free(note->below);
        sheaf__free(note->line);
        sheaf__free(note);
        note = beside;
    }
}

static struct sheaf__note *note_new(const sheaf_dataset *d, size_t input)
{
    struct sheaf__note *note = sheaf__calloc(1, sizeof(*note));
    struct sheaf__note **end = note ? &note->below : NULL;
    if (!note)
        return NULL;
    note->stage = d->stage;
    note->input = input;
    note->line = sheaf__dataset_line(d);
    bool whole = note->line != NULL;
    for (size_t i = 0; i < d->input_count && d->inputs[i] && whole; i++) {
        *end = note_new(d->inputs[i], i);
        whole = *end != NULL;
        end = whole ? &(*end)->beside : NULL;
    }
    if (!whole)
        note_free(note);
    return whole ? note : NULL;
}

struct sheaf__profile *sheaf__profile_new(const sheaf_dataset *d)
{
    struct sheaf__profile *p = sheaf__calloc(1, sizeof(*p));
    struct sheaf__note *root = p ? note_new(d, 0) : NULL;
    if (!root) {
        sheaf__free(p);
        return NULL;
    }
    p->root = root;
    return p;
}

/* The file's text grows by one pass at a time; tasks that share a configuration do not share it. */
static void append(struct sheaf__profile *p)
{
    const char *to = sheaf__config_text(SHEAF__CONFIG_EXPLAIN);
    struct sheaf__str text = {0};
    struct sheaf__file *file = NULL;
    sheaf_error err;
    sheaf__profile_print(p, &text);
    char *path = sheaf__context_task_path(sheaf__context(), to);
    sheaf_status status = path && !text.failed ? SHEAF_OK : sheaf__no_memory(&err, "its text");
    if (status >= 0)
        status = sheaf__file_open(path, SHEAF__FILE_APPEND, &file, &err);
    if (status >= 0)
        status = sheaf__file_write(file, text.text, text.size, &err);
    if (sheaf__file_close(file, status >= 0 ? &err : NULL) < 0 || status < 0)
        sheaf__log(SHEAF_LOG_WARN, "SHEAF_EXPLAIN: %s: a pipeline is not explained: %s", to,
                   err.message);
    sheaf__str_free(&text);
    sheaf__free(path);
}

void sheaf__profile_end(struct sheaf__profile *p)
{
    if (!p)
        return;
    if (p->begin && *sheaf__config_text(SHEAF__CONFIG_EXPLAIN))
        append(p);
    note_free(p->root);
    sheaf__free(p);
}

struct sheaf__note *sheaf__profile_below(struct sheaf__profile *p, struct sheaf__note *above,
                                         const sheaf_dataset *d, size_t input)
{
    if (!p || !above)
        return NULL;
    sheaf__mutex_lock(&p->lock);
    struct sheaf__note **at = &above->below;
    while (*at && ((*at)->input != input || (*at)->stage != d->stage))
        at = &(*at)->beside;
    if (!*at)
        *at = note_new(d, input);
    struct sheaf__note *note = *at;
    sheaf__mutex_unlock(&p->lock);
    return note;
}

/* ---- time ---- */

void sheaf__stretch_open(struct sheaf__stretch *s)
{
    s->outer = innermost;
    s->inside = 0;
    s->start = sheaf__clock_now();
    innermost = s;
}

void sheaf__stretch_close(struct sheaf__stretch *s)
{
    const int64_t ns = sheaf__clock_now() - s->start;
    atomic_fetch_add_explicit(s->sum, ns - s->inside, memory_order_relaxed);
    innermost = s->outer;
    if (innermost)
        innermost->inside += ns;
}

void sheaf__profile_ask(struct sheaf__profile *p)
{
    const int64_t now = sheaf__clock_now();
    sheaf__mutex_lock(&p->lock);
    p->begin = p->begin ? p->begin : now;
    p->asked = now;
    sheaf__mutex_unlock(&p->lock);
}

void sheaf__profile_answer(struct sheaf__profile *p, sheaf_status status)
{
    const int64_t now = sheaf__clock_now();
    sheaf__mutex_lock(&p->lock);
    p->elements += status == SHEAF_OK;
    p->asking_ns += now - p->asked;
    p->end = now;
    sheaf__mutex_unlock(&p->lock);
}

/* ---- counts ---- */

void sheaf__note_give(struct sheaf__note *note, const struct sheaf__rows *rows, size_t count)
{
    uint64_t bytes = 0;
    size_t left = count;
    for (size_t b = rows->used; left > 0 && b-- > rows->head;) {
        const struct sheaf__block *block = rows->blocks[b];
        const size_t n = left < block->count ? left : block->count;
        bytes += sheaf__block_bytes(block, block->count - n, n);
        left -= n;
    }
    atomic_fetch_add_explicit(&note->elements, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&note->bytes, bytes, memory_order_relaxed);
}

/* The number that had the majority of the time is found by a vote in one pass, weighed by time:
 * whatever is another number takes from its lead. */
static void vote(struct sheaf__note *note, uint64_t threads, int64_t ns)
{
    if (threads == note->threads) {
        note->lead += ns;
    } else if (ns > note->lead) {
        note->threads = threads;
        note->lead = ns - note->lead;
    } else {
        note->lead -= ns;
    }
}

void sheaf__note_fill(struct sheaf__note *note, uint64_t fill, uint64_t capacity, int threads)
{
    if (!note)
        return;
    atomic_fetch_add_explicit(&note->looks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&note->fill, fill, memory_order_relaxed);
    const int64_t now = sheaf__clock_now();
    sheaf__mutex_lock(&note->lock);
    if (note->looked == 0)
        note->threads = (uint64_t)threads;
    else
        vote(note, (uint64_t)threads, now - note->looked);
    note->looked = now;
    if (note->threads == (uint64_t)threads)
        note->capacity = capacity;
    sheaf__mutex_unlock(&note->lock);
}
