/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/function.h"
#include "data/interleave.h"

/* The sequential order of interleave, read ahead by threads. A source, one input's dataset, is
 * opened ahead in the order of the input, waiting in `future` until the consumer puts it into a
 * slot of the cycle. Threads fill the sources that the consumer comes to first. */

#define FULL_ROWS  1024
#define FULL_BYTES (64u << 10)
#define READ_ROWS  256               /* at a time, at most; */
#define READ_NS    (100 * SHEAF__US) /* about so long */
#define NO_SLOT    SIZE_MAX

/* What threads turn to, in this order; those that are in slots before those that will be. */
enum want { HUNGRY_SLOT, HUNGRY_FUTURE, THIN_SLOT, THIN_FUTURE, WANTS };

struct sheaf__interleave_crew {
    struct sheaf__iter *it;
    const struct sheaf__interleave *p;
    struct sheaf__flow flow;       /* of all sources */
    struct sheaf__flow input_flow; /* the same, behind another gate: */
    struct sheaf__gate input_gate;
    bool unordered;
    struct sheaf__cycle cycle; /* until the threads run */
    struct sheaf__thread **threads;
    int thread_count;

    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__cond changed;
    struct sheaf__cond hired; /* more threads shall work */
    struct sheaf__crew_size size;
    int arrived; /* threads that have a number */
    struct sheaf__source **slots;
    size_t used, capacity; /* those that were ever filled, room */
    size_t most;           /* that there can be */
    size_t open, at, in_block;
    uint64_t row_bytes;         /* of those that were read last; 0: none yet */
    size_t read_rows;           /* at a time, as what they take lets */
    struct sheaf__source *dead; /* to be freed by the consumer, without the lock */
    struct sheaf__list future;
    size_t future_count;
    struct sheaf__list work[WANTS]; /* sources to be read, who wants it longest first */
    struct sheaf__list news;        /* slots' sources that have something, likewise */
    bool input_busy, input_ended;
    bool no_memory; /* the input was given up; to be told at the end */
    bool awaited;   /* the consumer is there */
};

/* ---- the turn of what is read ahead ---- */

/* Passes the gate when `ready` says so, under the lock, or while the threads do not run yet. */
static sheaf_status await(struct sheaf__interleave_crew *crew,
                          bool (*ready)(const struct sheaf__interleave_crew *,
                                        const struct sheaf__source *),
                          const struct sheaf__source *s, sheaf_error *err)
{
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&crew->lock);
    while (status >= 0 && !crew->cycle.stage && !(crew->awaited && ready(crew, s)))
        status = sheaf__cond_wait(&crew->changed, &crew->lock, &wait, err);
    sheaf__mutex_unlock(&crew->lock);
    return status;
}

static struct sheaf__source *at_hand(const struct sheaf__interleave_crew *crew)
{
    return crew->at < crew->used ? crew->slots[crew->at] : NULL;
}

static bool is_its_turn(const struct sheaf__interleave_crew *crew, const struct sheaf__source *s)
{
    return at_hand(crew) == s && s->rows.count == 0;
}

static sheaf_status await_turn(struct sheaf__gate *gate, sheaf_error *err)
{
    struct sheaf__source *s = SHEAF__CONTAINER(gate, struct sheaf__source, gate);
    return await(s->crew, is_its_turn, s, err);
}

static bool is_inputs_turn(const struct sheaf__interleave_crew *crew, const struct sheaf__source *s)
{
    (void)s;
    return !at_hand(crew) && crew->future_count == 0;
}

static sheaf_status await_inputs_turn(struct sheaf__gate *gate, sheaf_error *err)
{
    return await(SHEAF__CONTAINER(gate, struct sheaf__interleave_crew, input_gate), is_inputs_turn,
                 NULL, err);
}

struct sheaf__source *sheaf__source_new(const struct sheaf__flow *flow,
                                        struct sheaf__interleave_crew *crew)
{
    struct sheaf__source *s = sheaf__calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->flow = *flow;
    s->crew = crew;
    s->slot = NO_SLOT;
    if (crew && flow->gate) {
        s->gate = (struct sheaf__gate){flow->gate, await_turn};
        s->flow.gate = &s->gate;
    }
    return s;
}

void sheaf__source_free(struct sheaf__source *s)
{
    if (!s)
        return;
    sheaf__block_unref(s->name);
    sheaf__iter_free(s->iter);
    sheaf__rows_free(&s->rows);
    sheaf__free(s);
}

/* ---- what a thread does next, all under the lock ---- */

/* Bytes that one source may hold. */
static uint64_t part_of_one(const struct sheaf__interleave_crew *crew)
{
    const uint64_t sources = crew->most + (uint64_t)crew->p->threads;
    return sheaf__tuner_share(crew->flow.tuner) / sources;
}

/* It has what the consumer takes of it at once, and some more, or as much as it may hold. */
static bool is_full(const struct sheaf__interleave_crew *crew, const struct sheaf__source *s)
{
    const bool much = s->rows.count >= FULL_ROWS || s->bytes >= FULL_BYTES;
    return s->rows.count > 0 &&
           ((much && s->rows.count >= crew->p->block) || s->bytes >= part_of_one(crew));
}

/* Rows of the next read: the first tells how many the memory lets. */
static size_t rows_to_read(const struct sheaf__interleave_crew *crew)
{
    const uint64_t fit = crew->row_bytes > 0 ? part_of_one(crew) / crew->row_bytes : 1;
    return fit > crew->read_rows ? crew->read_rows : fit > 1 ? (size_t)fit : 1;
}

static bool wants_work(const struct sheaf__interleave_crew *crew, const struct sheaf__source *s)
{
    return s && !s->busy && !s->ended && s->err.status >= 0 && !is_full(crew, s);
}

static bool has_news(const struct sheaf__source *s)
{
    return s && (s->rows.count > 0 || s->err.status < 0 || (s->ended && !s->busy));
}

/* Puts the source where it is looked for, each time that something of it has changed. Slots are emptied in the
 * order in which the consumer comes to them again. */
static void place(struct sheaf__interleave_crew *crew, struct sheaf__source *s)
{
    const bool in_slot = s->slot != NO_SLOT;
    sheaf__list_remove(&s->work);
    if (wants_work(crew, s) && s->rows.count == 0)
        sheaf__list_append(&crew->work[in_slot ? HUNGRY_SLOT : HUNGRY_FUTURE], &s->work);
    else if (wants_work(crew, s))
        sheaf__list_append(&crew->work[in_slot ? THIN_SLOT : THIN_FUTURE], &s->work);
    if (!in_slot || !has_news(s))
        sheaf__list_remove(&s->news);
    else if (!sheaf__list_linked(&s->news))
        sheaf__list_append(&crew->news, &s->news);
}

static void seat(struct sheaf__interleave_crew *crew, struct sheaf__source *s, size_t slot)
{
    s->slot = slot;
    place(crew, s);
}

/* What the consumer waits for, or else who has wanted it for longest: those with nothing to give, or if there
 * are none, those with little. */
static struct sheaf__source *find_source(struct sheaf__interleave_crew *crew, bool hungry)
{
    struct sheaf__source *s = at_hand(crew);
    if (wants_work(crew, s) && (!hungry || s->rows.count == 0))
        return s;
    for (int want = hungry ? HUNGRY_SLOT : THIN_SLOT;
         want <= (hungry ? HUNGRY_FUTURE : THIN_FUTURE); want++) {
        struct sheaf__list_node *node;
        while ((node = sheaf__list_first(&crew->work[want])) != NULL) {
            s = SHEAF__CONTAINER(node, struct sheaf__source, work);
            if (wants_work(crew, s))
                return s;
            sheaf__list_remove(node); /* it may hold less than it might then */
        }
    }
    return NULL;
}

static bool may_open(const struct sheaf__interleave_crew *crew)
{
    const size_t most = (size_t)crew->p->threads + (crew->open == 0 ? crew->p->cycle : 0);
    return !crew->input_busy && !crew->input_ended && crew->future_count < most;
}

/* ---- the work, without the lock ---- */

/* Takes the next element of the input as a source to be opened. */
static void take_input(struct sheaf__interleave_crew *crew)
{
    struct sheaf__source *s = sheaf__source_new(&crew->flow, crew);
    struct sheaf__rows rows = {0};
    sheaf_error err;
    sheaf_status status = s ? sheaf__iter_pull(crew->it->inputs[0], 1, &rows, &err)
                            : sheaf__no_memory(&err, "an interleave");
    if (status == SHEAF_OK)
        s->name = sheaf__rows_pop(&rows);
    else if (status < 0 && s)
        s->err = err;
    if (s)
        s->ended = status < 0;
    sheaf__rows_free(&rows);
    sheaf__mutex_lock(&crew->lock);
    crew->input_busy = false;
    if (status == SHEAF_END || !s) {
        crew->input_ended = true;
        crew->no_memory = crew->no_memory || !s;
        sheaf__source_free(s);
    } else {
        sheaf__list_append(&crew->future, &s->node);
        crew->future_count++;
        place(crew, s);
    }
    sheaf__cond_broadcast(&crew->changed);
    sheaf__mutex_unlock(&crew->lock);
}

/* Opens the source if need be and reads some rows; it is `busy`, so nobody else touches it. */
static void read_ahead(struct sheaf__interleave_crew *crew, struct sheaf__source *s, size_t want)
{
    struct sheaf__rows rows = {0};
    sheaf_error err = {0};
    sheaf_status status = SHEAF_OK;
    bool failed_open = false;
    const int64_t before = sheaf__clock_now();
    if (s->name) {
        struct sheaf__function_watch watch;
        struct sheaf__stretch stretch;
        sheaf__function_watch(&watch, crew->it);
        sheaf__stretch_begin(&stretch, sheaf__note_work(crew->it->note));
        status = sheaf__interleave_open(crew->it, s->name, &s->flow, &s->iter, &err);
        sheaf__stretch_end(&stretch);
        sheaf__function_watch_end(&watch);
        sheaf__block_unref(s->name);
        s->name = NULL;
        failed_open = status < 0;
    }
    if (status >= 0) {
        want = s->iter->dataset->calls ? 1 : sheaf__iter_ahead(s->iter, want);
        status = sheaf__interleave_pull(crew->p, s->iter, want, &rows, &err);
        if (status < 0)
            sheaf__iter_unnamed(&err);
    }
    const uint64_t bytes = sheaf__rows_bytes(&rows);
    const int64_t ns = sheaf__clock_now() - before;
    sheaf__mutex_lock(&crew->lock);
    sheaf__crew_size_made(&crew->size, rows.count, 0, ns);
    if (rows.count > 0) {
        crew->read_rows =
            sheaf__piece_rows(crew->read_rows, READ_ROWS, READ_NS, ns / (int64_t)rows.count);
        crew->row_bytes = bytes / rows.count;
    }
    if (status == SHEAF_OK)
        status = sheaf__rows_move(&rows, rows.count, &s->rows, &err);
    s->bytes += bytes;
    s->ended = status == SHEAF_END || failed_open;
    if (status < 0)
        s->err = err;
    s->busy = false;
    place(crew, s);
    sheaf__cond_broadcast(&crew->changed);
    sheaf__mutex_unlock(&crew->lock);
    sheaf__rows_free(&rows);
}

/* Reads of the source, or with none takes the next input. The lock is held before and after. */
static void work(struct sheaf__interleave_crew *crew, struct sheaf__source *s)
{
    if (s) {
        s->busy = true;
        place(crew, s);
    } else {
        crew->input_busy = true;
    }
    const size_t want = rows_to_read(crew);
    sheaf__mutex_unlock(&crew->lock);
    if (s)
        read_ahead(crew, s, want);
    else
        take_input(crew);
    sheaf__mutex_lock(&crew->lock);
}

static void crew_main(void *user)
{
    struct sheaf__interleave_crew *crew = user;
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    sheaf_error ignored;
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&crew->lock);
    const int number = crew->arrived++;
    while (status >= 0) {
        if (sheaf__crew_size_idle(&crew->size, number)) {
            status = sheaf__cond_wait(&crew->hired, &crew->lock, &wait, &ignored);
            continue;
        }
        struct sheaf__source *s = find_source(crew, true);
        bool open = !s && may_open(crew);
        if (!s && !open)
            s = find_source(crew, false);
        if (!s && !open) {
            status = sheaf__cond_wait(&crew->changed, &crew->lock, &wait, &ignored);
            continue;
        }
        work(crew, s);
        status = sheaf__token_status(crew->flow.token);
    }
    sheaf__mutex_unlock(&crew->lock);
}

/* ---- the consumer, all under the lock ---- */

/* Slots are used from the first on: no farther than to the first that never was. */
static void advance(struct sheaf__interleave_crew *crew)
{
    crew->in_block = 0;
    crew->at++;
    if (crew->at > crew->used || crew->at == crew->p->cycle)
        crew->at = 0;
}

/* The slot at hand has given so many. */
static void take_turn(struct sheaf__interleave_crew *crew, size_t count)
{
    crew->in_block += count;
    if (crew->in_block == crew->p->block)
        advance(crew);
}

/* Goes to a slot of which something is ready, if order does not matter. */
static void look_around(struct sheaf__interleave_crew *crew)
{
    struct sheaf__list_node *node = sheaf__list_first(&crew->news);
    if (!crew->unordered || has_news(at_hand(crew)) || !node)
        return;
    crew->in_block = 0;
    crew->at = SHEAF__CONTAINER(node, struct sheaf__source, news)->slot;
}

/* Takes rows of the source's first block. A few small ones are copied: they come in turn with others', and a
 * block of its own would cost each more than that. */
static sheaf_status give(struct sheaf__source *s, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct sheaf__block *block = sheaf__rows_front(&s->rows);
    const size_t count = want < block->count ? want : block->count;
    SHEAF__TRY(sheaf__rows_put_from(rows, block, 0, count, err));
    sheaf__rows_drop(&s->rows, count);
    return SHEAF_OK;
}

/* What the slot at hand has: rows, an error, which has the place of a row, or its end. SHEAF_PENDING: nothing
 * yet. */
static sheaf_status read_slot(struct sheaf__interleave_crew *crew, size_t want,
                              struct sheaf__rows *rows, sheaf_error *err)
{
    struct sheaf__source *s = crew->slots[crew->at];
    if (!has_news(s))
        return SHEAF_PENDING;
    if (s->rows.count > 0) {
        size_t before = s->rows.count;
        if (want > crew->p->block - crew->in_block)
            want = crew->p->block - crew->in_block;
        SHEAF__TRY(give(s, want, rows, err));
        s->bytes -= s->bytes / before * (before - s->rows.count);
        if (s->rows.count == 0)
            s->bytes = 0;
        place(crew, s);
        take_turn(crew, before - s->rows.count);
        return SHEAF_OK;
    }
    if (s->err.status < 0) {
        sheaf_status status = sheaf__error_copy(err, &s->err);
        s->err.status = SHEAF_OK;
        place(crew, s);
        take_turn(crew, 1);
        return status;
    }
    sheaf__list_remove(&s->news);
    crew->slots[crew->at] = NULL;
    crew->open--;
    crew->dead = s;
    advance(crew);
    return SHEAF_OK;
}

/* Puts the next source into the empty slot at hand. SHEAF_PENDING: none yet; SHEAF_END: nothing is
 * left at all. */
static sheaf_status fill_slot(struct sheaf__interleave_crew *crew, sheaf_error *err)
{
    if (!sheaf__array_reserve((void **)&crew->slots, &crew->capacity, crew->at + 1,
                              sizeof(*crew->slots)))
        return sheaf__no_memory(err, "an interleave");
    struct sheaf__list_node *node = sheaf__list_pop(&crew->future);
    if (node) {
        crew->future_count--;
        crew->slots[crew->at] = SHEAF__CONTAINER(node, struct sheaf__source, node);
        seat(crew, crew->slots[crew->at], crew->at);
        crew->used += crew->at == crew->used;
        crew->open++;
        return SHEAF_OK;
    }
    if (!crew->input_ended || crew->input_busy)
        return SHEAF_PENDING;
    if (crew->open > 0) {
        advance(crew);
        return SHEAF_OK;
    }
    const bool no_memory = crew->no_memory;
    crew->no_memory = false;
    return no_memory ? sheaf__no_memory(err, "an interleave") : SHEAF_END;
}

static sheaf_status step(struct sheaf__interleave_crew *crew, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    if (crew->dead) {
        struct sheaf__source *dead = crew->dead;
        crew->dead = NULL;
        sheaf__mutex_unlock(&crew->lock);
        sheaf__source_free(dead); /* may wait for threads of its own */
        sheaf__mutex_lock(&crew->lock);
    }
    look_around(crew);
    return at_hand(crew) ? read_slot(crew, want, rows, err) : fill_slot(crew, err);
}

/* Notes how many sources have something ready. */
static void look(const struct sheaf__interleave_crew *crew)
{
    uint64_t ready = 0;
    for (size_t i = 0; crew->it->note && i < crew->used; i++)
        ready += crew->slots[i] && crew->slots[i]->rows.count > 0;
    sheaf__note_fill(crew->it->note, ready, crew->most, sheaf__crew_size_now(&crew->size));
}

/* The consumer comes: perhaps the number of threads changes. */
static void arrive(struct sheaf__interleave_crew *crew)
{
    look(crew);
    sheaf__crew_size_arrive(&crew->size);
    if (sheaf__crew_size_hires(&crew->size))
        sheaf__cond_broadcast(&crew->hired);
}

/* The sources that were opened before the threads run. */
static void adopt_cycle(struct sheaf__interleave_crew *crew)
{
    struct sheaf__cycle *c = &crew->cycle;
    if (!c->stage)
        return; /* it was done before */
    sheaf__mutex_lock(&crew->lock);
    crew->slots = c->slots;
    crew->used = c->used;
    crew->capacity = c->capacity;
    crew->open = c->open;
    crew->at = c->at;
    crew->in_block = c->in_block;
    crew->input_ended = c->input_ended;
    for (size_t i = 0; i < crew->used; i++)
        if (crew->slots[i])
            seat(crew, crew->slots[i], i);
    c->slots = NULL;
    c->used = 0;
    sheaf__cycle_free(c);
    sheaf__mutex_unlock(&crew->lock);
}

sheaf_status sheaf__interleave_crew_pass(struct sheaf__interleave_crew *crew, uint64_t count,
                                         struct sheaf__passed *passed, sheaf_error *err)
{
    return crew->cycle.stage ? sheaf__cycle_pass(&crew->cycle, count, passed, err)
                             : sheaf__iter_drop(crew->it, count, passed, err);
}

/* ---- a consumer that helps itself ---- */

/* Where threads may wait for the turn of what they read, there may be none to read what comes next.
 * False: it is being read. */
static bool help(struct sheaf__interleave_crew *crew)
{
    struct sheaf__source *s = at_hand(crew);
    if (!crew->flow.gate)
        return false;
    const bool takes = !s && crew->future_count == 0 && !crew->input_busy && !crew->input_ended;
    if (!takes && !wants_work(crew, s))
        return false;
    work(crew, s);
    return true;
}

static sheaf_status await_news(struct sheaf__interleave_crew *crew, sheaf_error *err)
{
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    struct sheaf__stretch stretch;
    sheaf__cond_broadcast(&crew->changed); /* slots were filled or emptied meanwhile */
    if (help(crew))
        return sheaf__token_check(crew->flow.token, err);
    sheaf__stretch_begin(&stretch, sheaf__note_wait(crew->it->note));
    const sheaf_status status = sheaf__cond_wait(&crew->changed, &crew->lock, &wait, err);
    sheaf__stretch_end(&stretch);
    return status;
}

static sheaf_status start_threads(struct sheaf__interleave_crew *crew, sheaf_error *err)
{
    adopt_cycle(crew);
    while (crew->thread_count < crew->p->threads) {
        SHEAF__TRY(sheaf__thread_start("sheaf-interlv", crew_main, crew, NULL,
                                       &crew->threads[crew->thread_count], err));
        crew->thread_count++;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__interleave_crew_next(struct sheaf__interleave_crew *crew, size_t want,
                                         struct sheaf__rows *rows, sheaf_error *err)
{
    size_t before = rows->count;
    SHEAF__TRY(start_threads(crew, err));
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&crew->lock);
    arrive(crew);
    crew->awaited = true;
    while (rows->count - before < want) {
        status = step(crew, want - (rows->count - before), rows, err);
        if (status == SHEAF_PENDING && rows->count > before)
            break;
        if (status == SHEAF_PENDING)
            status = await_news(crew, err);
        if (status != SHEAF_OK)
            break;
    }
    crew->awaited = false;
    sheaf__crew_size_leave(&crew->size, rows->count - before);
    sheaf__cond_broadcast(&crew->changed);
    sheaf__mutex_unlock(&crew->lock);
    return status == SHEAF_PENDING ? SHEAF_OK : status;
}

/* ---- life ---- */

sheaf_status sheaf__interleave_crew_new(struct sheaf__iter *it, struct sheaf__interleave_crew **out,
                                        sheaf_error *err)
{
    struct sheaf__interleave_crew *crew = sheaf__calloc(1, sizeof(*crew));
    if (!crew)
        return sheaf__no_memory(err, "an interleave");
    *out = crew;
    crew->it = it;
    crew->p = sheaf__iter_params(it);
    crew->unordered = crew->p->options.unordered || it->flow->unordered;
    crew->read_rows = 1;
    sheaf__list_init(&crew->future);
    sheaf__list_init(&crew->news);
    for (int i = 0; i < WANTS; i++)
        sheaf__list_init(&crew->work[i]);
    sheaf__tuner_run_ahead(it->flow->tuner, true);
    sheaf__crew_size_start(&crew->size, crew->p->options.parallel < 0 ? it->flow->tuner : NULL,
                           crew->p->threads);
    const int64_t inputs = it->dataset->inputs[0]->cardinality;
    crew->most = inputs < 0 || (uint64_t)inputs > crew->p->cycle ? crew->p->cycle : (size_t)inputs;
    crew->threads = sheaf__calloc((size_t)crew->p->threads, sizeof(struct sheaf__thread *));
    if (!crew->threads)
        return sheaf__no_memory(err, "an interleave");
    SHEAF__TRY(sheaf__flow_start(&crew->flow, it->flow, err));
    sheaf__flow_branch(&crew->flow);
    if (crew->unordered)
        crew->flow.gate = NULL;
    crew->input_flow = crew->flow;
    if (crew->flow.gate) {
        crew->input_gate = (struct sheaf__gate){crew->flow.gate, await_inputs_turn};
        crew->input_flow.gate = &crew->input_gate;
    }
    sheaf__cycle_start(&crew->cycle, it, &crew->flow);
    crew->cycle.crew = crew;
    SHEAF__TRY(sheaf__iter_input(it, 0, &crew->input_flow, err));
    crew->cycle.input = it->inputs[0];
    return SHEAF_OK;
}

void sheaf__interleave_crew_free(struct sheaf__interleave_crew *crew)
{
    if (!crew)
        return;
    sheaf__flow_cancel(&crew->flow);
    for (int i = 0; i < crew->thread_count; i++)
        sheaf__iter_join(crew->it, crew->threads[i]);
    sheaf__cycle_free(&crew->cycle);
    sheaf__source_free(crew->dead);
    for (size_t i = 0; i < crew->used; i++)
        sheaf__source_free(crew->slots[i]);
    struct sheaf__list_node *node;
    while ((node = sheaf__list_pop(&crew->future)) != NULL)
        sheaf__source_free(SHEAF__CONTAINER(node, struct sheaf__source, node));
    sheaf__iter_free(crew->it->inputs[0]);
    crew->it->inputs[0] = NULL;
    sheaf__tuner_run_ahead(crew->it->flow->tuner, false);
    sheaf__crew_size_stop(&crew->size);
    sheaf__flow_free(&crew->flow);
    sheaf__free(crew->slots);
    sheaf__free(crew->threads);
    sheaf__free(crew);
}
