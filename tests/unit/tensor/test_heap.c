/* SPDX-License-Identifier: Apache-2.0 */
/* What threads keep of a heap's small blocks for themselves (tensor/heap_local.h). */
#include "rig.h"

#include "base/context.h"
#include "base/mem.h"
#include "base/wait.h"
#include "tensor/heap.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20, SIZE = 200 };

/* A thread that works in a context, says so, and waits to be told to go on. */
struct worker {
    struct sheaf__thread *thread;
    sheaf_context *first, *second; /* where it works before and after the wait; NULL: not at all */
    struct sheaf__mutex lock;
    struct sheaf__cond changed;
    int stage; /* 1: the first is done; 2: it may go on */
};

static void reach(struct worker *w, int stage)
{
    sheaf__mutex_lock(&w->lock);
    w->stage = stage;
    sheaf__cond_broadcast(&w->changed);
    sheaf__mutex_unlock(&w->lock);
}

static void wait_for(struct worker *w, int stage)
{
    const struct sheaf__wait wait = {sheaf__clock_after(20 * SHEAF__S), NULL, NULL};
    sheaf_error err;
    sheaf__mutex_lock(&w->lock);
    while (w->stage < stage)
        rig_ok(sheaf__cond_wait(&w->changed, &w->lock, &wait, &err), &err);
    sheaf__mutex_unlock(&w->lock);
}

static void use(sheaf_context *context)
{
    void *blocks[BLOCKS];
    sheaf_context *before = sheaf_context_enter(context);
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = sheaf__heap_alloc(heap, SIZE), i, SIZE);
    for (int i = 0; i < BLOCKS; i++)
        sheaf__heap_free(heap, blocks[i], SIZE);
    sheaf_context_enter(before);
}

static void work(void *user)
{
    struct worker *w = user;
    use(w->first);
    reach(w, 1);
    wait_for(w, 2);
    if (w->second)
        use(w->second);
}

static void start(struct worker *w)
{
    sheaf_error err;
    rig_ok(sheaf__thread_start("heap", work, w, NULL, &w->thread, &err), &err);
}

static void finish(struct worker *w)
{
    sheaf_error err;
    reach(w, 2);
    rig_ok(sheaf__thread_join(w->thread, INT64_MAX, &err), &err);
}

/* The statistics know of what threads keep; whoever comes after a thread has its blocks. */
static void the_blocks_of_a_thread_that_ends_are_anybodys(void **state)
{
    (void)state;
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    struct worker w = {.first = sheaf__context()};
    start(&w);
    wait_for(&w, 1);
    struct sheaf__heap_stats kept = sheaf__heap_stats(heap);
    assert_int_equal(kept.live_bytes, 0);
    assert_true(kept.cached_bytes >= BLOCKS * sheaf__heap_room(SIZE));
    finish(&w);
    struct sheaf__heap_stats left = sheaf__heap_stats(heap);
    assert_int_equal(left.live_bytes, 0);
    assert_int_equal(left.cached_bytes, kept.cached_bytes);
    use(w.first);
    assert_int_equal(sheaf__heap_stats(heap).misses, kept.misses);
    sheaf__heap_trim(heap, 0);
    assert_int_equal(sheaf__heap_stats(heap).cached_bytes, 0);
}

/* A heap takes what threads keep of it along, and they may live on. */
static void a_heap_may_end_before_a_thread(void **state)
{
    (void)state;
    sheaf_error err;
    struct worker w = {.second = sheaf__context()};
    use(w.second);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0);
    int64_t blocks = sheaf__mem_stats().live_blocks;
    rig_ok(sheaf_context_new(NULL, &w.first, &err), &err);
    start(&w);
    wait_for(&w, 1);
    use(w.first);
    sheaf_context_free(w.first);
    use(w.second);
    finish(&w);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0);
    assert_int_equal(sheaf__mem_stats().live_blocks, blocks);
}

/* More threads at once than can keep something. */
static void many_threads_share_a_heap(void **state)
{
    (void)state;
    enum { THREADS = 80 };
    struct worker *workers = calloc(THREADS, sizeof(*workers));
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    for (int i = 0; i < THREADS; i++) {
        workers[i].first = workers[i].second = sheaf__context();
        start(&workers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        wait_for(&workers[i], 1);
    assert_int_equal(sheaf__heap_stats(heap).live_bytes, 0);
    for (int i = 0; i < THREADS; i++)
        finish(&workers[i]);
    assert_int_equal(sheaf__heap_stats(heap).live_bytes, 0);
    free(workers);
}

struct stream {
    struct sheaf__mutex lock;
    void *blocks[BLOCKS];
    int count, freed;
};

enum { STREAM = 20000 };

static void free_what_comes(void *user)
{
    struct stream *s = user;
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    while (s->freed < STREAM) {
        sheaf__mutex_lock(&s->lock);
        while (s->count > 0) {
            sheaf__heap_free(heap, s->blocks[--s->count], SIZE);
            s->freed++;
        }
        sheaf__mutex_unlock(&s->lock);
    }
}

/* What one thread makes and another frees comes back to the first. */
static void blocks_find_their_way_back(void **state)
{
    (void)state;
    sheaf_error err;
    struct stream s = {.count = 0};
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    struct sheaf__thread *thread;
    rig_ok(sheaf__thread_start("heap", free_what_comes, &s, NULL, &thread, &err), &err);
    for (int made = 0; made < STREAM;) {
        sheaf__mutex_lock(&s.lock);
        for (; s.count < BLOCKS && made < STREAM; made++)
            s.blocks[s.count++] = sheaf__heap_alloc(heap, SIZE);
        sheaf__mutex_unlock(&s.lock);
    }
    rig_ok(sheaf__thread_join(thread, INT64_MAX, &err), &err);
    assert_true(sheaf__heap_stats(heap).misses < STREAM / 50);
    assert_int_equal(sheaf__heap_stats(heap).live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(the_blocks_of_a_thread_that_ends_are_anybodys),
        rig_test(a_heap_may_end_before_a_thread),
        rig_test(many_threads_share_a_heap),
        rig_test(blocks_find_their_way_back),
    };
    return rig_run(tests);
}
