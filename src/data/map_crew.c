/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/pool.h"
#include "data/function.h"
#include "data/map.h"

/* Threads that take turns at the input, call the function for each row of what they took, and
 * leave the results in their ticket. Tickets stand in the order of the input; the consumer takes
 * the first, or, unordered, any that is done. A ticket has as many rows as make the locking cheap
 * beside the calls: one where a call is slow. */

#define TICKET_NS  (200 * SHEAF__US)
#define TICKET_MAX 1024

/* Rows, and the error that comes after them. */
struct outcome {
    struct outcome *next;
    struct sheaf__rows rows;
    sheaf_error err;
};

struct ticket {
    struct sheaf__list_node node;
    bool done;
    struct sheaf__rows input;
    size_t rows; /* of it */
    int64_t feed_ns;
    struct outcome *first;
};

struct sheaf__map_crew {
    struct sheaf__iter *it;
    const struct sheaf__map_params *map;
    struct sheaf__flow flow; /* of the input */
    struct sheaf__gate gate;
    bool unordered;
    struct sheaf__thread **threads;
    int thread_count;
    struct ticket *current; /* the consumer's, out of the list */

    struct sheaf__mutex input_lock; /* guards the input iterator; taken before `lock` */
    struct sheaf__mutex lock;       /* guards what follows */
    struct sheaf__cond changed;
    struct sheaf__cond hired; /* more threads shall work */
    struct sheaf__crew_size size;
    int arrived; /* threads that have a number */
    struct sheaf__list tickets;
    int ticket_count;
    uint64_t done, done_bytes; /* tickets so far, bytes of their results */
    size_t ticket_rows;
    bool ended;     /* the input is, or there was no memory to go on */
    bool no_memory; /* to be told at the end */
    bool awaited;   /* the consumer is there */
};

/* ---- tickets ---- */

static void outcome_free(struct outcome *o)
{
    sheaf__rows_free(&o->rows);
    sheaf__free(o);
}

static void ticket_free(struct ticket *t)
{
    while (t && t->first) {
        struct outcome *o = t->first;
        t->first = o->next;
        outcome_free(o);
    }
    if (t)
        sheaf__rows_free(&t->input);
    sheaf__free(t);
}

static struct outcome *outcome_new(size_t rows)
{
    struct outcome *o = sheaf__calloc(1, sizeof(*o));
    if (o)
        o->rows.reserve = rows;
    return o;
}

/* So many tickets may be open for each thread; of quick calls more, so that the threads have something
 * to do while a consumer that slept wakes up. */
static int tickets_each(const struct sheaf__map_crew *crew)
{
    return crew->ticket_rows > 1 ? 8 : 2;
}

/* Under the lock: so many tickets are open that the threads have something to do next, or what they
 * hold is their part of the memory. */
static bool is_full(const struct sheaf__map_crew *crew)
{
    const uint64_t open = (uint64_t)crew->ticket_count;
    const uint64_t each = crew->done > 0 ? crew->done_bytes / crew->done : 0;
    return crew->ticket_count >= tickets_each(crew) * sheaf__crew_size_now(&crew->size) ||
           (open > 0 && open * each >= sheaf__tuner_share(crew->flow.tuner));
}

/* Waits for room and puts a new ticket at the end of the list; NULL when there is nothing more to
 * do. */
static struct ticket *ticket_new(struct sheaf__map_crew *crew, size_t *rows)
{
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    sheaf_error ignored;
    sheaf_status status = SHEAF_OK;
    struct ticket *t = NULL;
    sheaf__mutex_lock(&crew->lock);
    while (!crew->ended && status >= 0 && is_full(crew))
        status = sheaf__cond_wait(&crew->changed, &crew->lock, &wait, &ignored);
    if (!crew->ended && status >= 0) {
        t = sheaf__calloc(1, sizeof(*t));
        if (t) {
            sheaf__list_append(&crew->tickets, &t->node);
            crew->ticket_count++;
        } else {
            crew->ended = crew->no_memory = true;
        }
    }
    *rows = crew->ticket_rows;
    sheaf__mutex_unlock(&crew->lock);
    return t;
}

/* ---- the threads ---- */

/* Takes rows of the input; NULL at its end. An error of the input is the ticket's outcome. */
static struct ticket *take(struct sheaf__map_crew *crew)
{
    size_t rows;
    struct outcome *o = outcome_new(0);
    sheaf__mutex_lock(&crew->input_lock);
    struct ticket *t = o ? ticket_new(crew, &rows) : NULL;
    sheaf_status status = SHEAF_OK;
    if (t) {
        const int64_t before = sheaf__clock_now();
        rows = sheaf__iter_ahead(crew->it->inputs[0], rows);
        status = sheaf__iter_pull(crew->it->inputs[0], rows, &t->input, &o->err);
        t->feed_ns = sheaf__clock_now() - before;
        t->rows = t->input.count;
    }
    if (!t || status == SHEAF_END) {
        sheaf__mutex_lock(&crew->lock);
        crew->ended = true;
        crew->no_memory = crew->no_memory || !o;
        if (t) {
            sheaf__list_remove(&t->node);
            crew->ticket_count--;
        }
        sheaf__cond_broadcast(&crew->changed);
        sheaf__mutex_unlock(&crew->lock);
        ticket_free(t);
        t = NULL;
    }
    sheaf__mutex_unlock(&crew->input_lock);
    if (t)
        t->first = o;
    else if (o)
        outcome_free(o);
    return t;
}

/* The ticket whose input is at the gate is the last one: it is the consumer's turn if there is no other. */
static sheaf_status await_consumer(struct sheaf__gate *gate, sheaf_error *err)
{
    struct sheaf__map_crew *crew = SHEAF__CONTAINER(gate, struct sheaf__map_crew, gate);
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&crew->lock);
    while (status >= 0 && !(crew->awaited && crew->ticket_count <= 1))
        status = sheaf__cond_wait(&crew->changed, &crew->lock, &wait, err);
    sheaf__mutex_unlock(&crew->lock);
    return status;
}

/* Calls the function for all rows of the ticket. A failed call ends an outcome and starts another.
 */
static void work(const struct sheaf__map_params *map, struct sheaf__map_call *call,
                 struct ticket *t)
{
    struct outcome *last = t->first;
    struct sheaf__block *block;
    last->rows.reserve = t->input.count;
    while ((block = sheaf__rows_pop(&t->input)) != NULL) {
        for (size_t i = 0; i < block->count; i++) {
            if (last->err.status < 0) {
                last->next = outcome_new(block->count - i);
                if (!last->next) {
                    sheaf__no_memory(&last->err, "the results of a map");
                    break;
                }
                last = last->next;
            }
            sheaf__map_apply(map, call, block, i, &last->rows, &last->err);
        }
        sheaf__block_unref(block);
    }
}

/* Adapts the length of tickets to what a call costs. */
static void learn(struct sheaf__map_crew *crew, int64_t ns, size_t rows)
{
    if (!crew->it->dataset->inputs[0]->calls)
        crew->ticket_rows =
            sheaf__piece_rows(crew->ticket_rows, TICKET_MAX, TICKET_NS, ns / (int64_t)rows);
}

static uint64_t bytes_of(const struct ticket *t)
{
    uint64_t bytes = 0;
    for (const struct outcome *o = t->first; o; o = o->next)
        bytes += sheaf__rows_bytes(&o->rows);
    return bytes;
}

static void do_ticket(struct sheaf__map_crew *crew, struct sheaf__map_call *call, struct ticket *t)
{
    struct sheaf__function_watch watch;
    struct sheaf__stretch stretch;
    const int64_t before = sheaf__clock_now();
    sheaf__function_watch(&watch, crew->it);
    sheaf__stretch_begin(&stretch, sheaf__note_work(crew->it->note));
    work(crew->map, call, t);
    sheaf__stretch_end(&stretch);
    sheaf__function_watch_end(&watch);
    const int64_t ns = sheaf__clock_now() - before;
    const uint64_t bytes = bytes_of(t);
    sheaf__mutex_lock(&crew->lock);
    if (t->rows > 0)
        learn(crew, ns, t->rows);
    sheaf__crew_size_made(&crew->size, t->rows, t->feed_ns, ns);
    crew->done++;
    crew->done_bytes += bytes;
    t->done = true;
    sheaf__cond_broadcast(&crew->changed);
    sheaf__mutex_unlock(&crew->lock);
}

/* Waits while this thread shall not work. */
static void stand_by(struct sheaf__map_crew *crew, int number)
{
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    sheaf_error ignored;
    sheaf_status status = SHEAF_OK;
    if (number < sheaf__crew_size_now(&crew->size))
        return;
    sheaf__mutex_lock(&crew->lock);
    while (status >= 0 && sheaf__crew_size_idle(&crew->size, number))
        status = sheaf__cond_wait(&crew->hired, &crew->lock, &wait, &ignored);
    sheaf__mutex_unlock(&crew->lock);
}

static void crew_main(void *user)
{
    struct sheaf__map_crew *crew = user;
    struct sheaf__map_call call = {.token = crew->flow.token};
    struct ticket *t;
    sheaf__mutex_lock(&crew->lock);
    const int number = crew->arrived++;
    sheaf__mutex_unlock(&crew->lock);
    /* Calls are what runs at once, not the pieces of their operations. */
    sheaf__pool_set_alone(crew->size.most >= sheaf__cpu_count());
    do {
        stand_by(crew, number);
        if ((t = take(crew)) != NULL)
            do_ticket(crew, &call, t);
    } while (t);
    sheaf__map_call_free(&call);
}

/* ---- the consumer ---- */

static sheaf_status start_threads(struct sheaf__map_crew *crew, sheaf_error *err)
{
    while (crew->thread_count < crew->size.most) {
        SHEAF__TRY(sheaf__thread_start("sheaf-map", crew_main, crew, NULL,
                                       &crew->threads[crew->thread_count], err));
        crew->thread_count++;
    }
    return SHEAF_OK;
}

static struct ticket *find_done(const struct sheaf__map_crew *crew)
{
    struct sheaf__list_node *node = sheaf__list_first(&crew->tickets);
    for (; node; node = sheaf__list_next(&crew->tickets, node)) {
        struct ticket *t = SHEAF__CONTAINER(node, struct ticket, node);
        if (t->done || !crew->unordered)
            return t->done ? t : NULL;
    }
    return NULL;
}

/* Notes how many tickets are done. */
static void look(const struct sheaf__map_crew *crew)
{
    uint64_t done = 0;
    struct sheaf__list_node *node = sheaf__list_first(&crew->tickets);
    for (; crew->it->note && node; node = sheaf__list_next(&crew->tickets, node))
        done += SHEAF__CONTAINER(node, struct ticket, node)->done;
    const int working = sheaf__crew_size_now(&crew->size);
    sheaf__note_fill(crew->it->note, done, (uint64_t)(tickets_each(crew) * working), working);
}

/* The consumer comes: perhaps the number of threads changes. */
static void arrive(struct sheaf__map_crew *crew)
{
    look(crew);
    sheaf__crew_size_arrive(&crew->size);
    if (sheaf__crew_size_hires(&crew->size))
        sheaf__cond_broadcast(&crew->hired);
}

/* Takes a ticket that is done out of the list. */
static sheaf_status next_ticket(struct sheaf__map_crew *crew, sheaf_error *err)
{
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, crew->flow.token, NULL};
    struct sheaf__stretch stretch;
    sheaf_status status = SHEAF_OK;
    struct ticket *t = NULL;
    sheaf__mutex_lock(&crew->lock);
    arrive(crew);
    crew->awaited = true;
    if (crew->flow.gate)
        sheaf__cond_broadcast(&crew->changed);
    sheaf__stretch_begin(&stretch, sheaf__note_wait(crew->it->note));
    while (status >= 0 && !(t = find_done(crew)) && !(crew->ended && crew->ticket_count == 0))
        status = sheaf__cond_wait(&crew->changed, &crew->lock, &wait, err);
    sheaf__stretch_end(&stretch);
    crew->awaited = false;
    if (t) {
        status = SHEAF_OK;
        sheaf__list_remove(&t->node);
        crew->ticket_count--;
        sheaf__crew_size_leave(&crew->size, t->rows);
        sheaf__cond_broadcast(&crew->changed);
    } else if (status >= 0) {
        status = crew->no_memory ? sheaf__no_memory(err, "a map") : SHEAF_END;
        crew->no_memory = false;
    }
    sheaf__mutex_unlock(&crew->lock);
    crew->current = t;
    return status;
}

sheaf_status sheaf__map_crew_next(struct sheaf__map_crew *crew, size_t want,
                                  struct sheaf__rows *rows, sheaf_error *err)
{
    SHEAF__TRY(start_threads(crew, err));
    for (;;) {
        struct outcome *o = crew->current ? crew->current->first : NULL;
        if (o && o->rows.count > 0)
            return sheaf__rows_move(&o->rows, want, rows, err);
        if (!o) {
            ticket_free(crew->current);
            crew->current = NULL;
            sheaf_status status = next_ticket(crew, err);
            if (status != SHEAF_OK)
                return status;
            continue;
        }
        sheaf_error failure = o->err;
        crew->current->first = o->next;
        outcome_free(o);
        if (failure.status < 0)
            return sheaf__error_copy(err, &failure);
    }
}

sheaf_status sheaf__map_crew_new(struct sheaf__iter *it, int threads, struct sheaf__map_crew **out,
                                 sheaf_error *err)
{
    struct sheaf__map_crew *crew = sheaf__calloc(1, sizeof(*crew));
    if (!crew)
        return sheaf__no_memory(err, "a map");
    *out = crew;
    crew->it = it;
    crew->map = sheaf__iter_params(it);
    /* What the program did not ask for does not change the order, either. */
    crew->unordered =
        crew->map->threads > 0 && (crew->map->options.unordered || it->flow->unordered);
    crew->ticket_rows = 1;
    sheaf__list_init(&crew->tickets);
    sheaf__tuner_run_ahead(it->flow->tuner, true);
    sheaf__crew_size_start(&crew->size, crew->map->options.parallel > 0 ? NULL : it->flow->tuner,
                           threads);
    crew->threads = sheaf__calloc((size_t)threads, sizeof(struct sheaf__thread *));
    if (!crew->threads)
        return sheaf__no_memory(err, "a map");
    SHEAF__TRY(sheaf__flow_start(&crew->flow, it->flow, err));
    if (crew->flow.gate) {
        crew->gate = (struct sheaf__gate){crew->flow.gate, await_consumer};
        crew->flow.gate = crew->unordered ? NULL : &crew->gate;
    }
    return sheaf__iter_input(it, 0, &crew->flow, err);
}

bool sheaf__map_crew_works(const struct sheaf__map_crew *crew)
{
    return crew->thread_count > 0;
}

static void set_awaited(struct sheaf__map_crew *crew, bool awaited)
{
    sheaf__mutex_lock(&crew->lock);
    crew->awaited = awaited;
    sheaf__mutex_unlock(&crew->lock);
}

sheaf_status sheaf__map_crew_pass(struct sheaf__map_crew *crew, uint64_t count,
                                  struct sheaf__passed *passed, sheaf_error *err)
{
    if (crew->thread_count > 0)
        return sheaf__iter_drop(crew->it, count, passed, err);
    set_awaited(crew, true);
    const sheaf_status status = sheaf__iter_pass(crew->it->inputs[0], count, passed, err);
    set_awaited(crew, false);
    return status;
}

void sheaf__map_crew_free(struct sheaf__map_crew *crew)
{
    if (!crew)
        return;
    sheaf__flow_cancel(&crew->flow);
    for (int i = 0; i < crew->thread_count; i++)
        sheaf__iter_join(crew->it, crew->threads[i]);
    sheaf__iter_free(crew->it->inputs[0]);
    crew->it->inputs[0] = NULL;
    struct sheaf__list_node *node;
    while ((node = sheaf__list_pop(&crew->tickets)) != NULL)
        ticket_free(SHEAF__CONTAINER(node, struct ticket, node));
    ticket_free(crew->current);
    sheaf__tuner_run_ahead(crew->it->flow->tuner, false);
    sheaf__crew_size_stop(&crew->size);
    sheaf__flow_free(&crew->flow);
    sheaf__free(crew->threads);
    sheaf__free(crew);
}
