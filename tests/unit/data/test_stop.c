/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/wait.h"

#include <sheaf/context.h>

/* sheaf_stop() by another thread while an iterator without threads is on its way to an element. Nothing in this process may
 * have waited with a token before, so the cases have an executable of their own. */

enum { BEFORE_STOP = 100, PATIENCE_S = 20 };

struct search {
    _Atomic int calls;
    int64_t end; /* nobody was heard until then */
};

static sheaf_status tick(struct search *s)
{
    atomic_fetch_add(&s->calls, 1);
    return sheaf__clock_now() > s->end ? SHEAF_ERR_DEADLINE : SHEAF_OK;
}

static sheaf_status drop(const sheaf_element *in, void *user)
{
    (void)in;
    const sheaf_status status = tick(user);
    return status < 0 ? status : SHEAF_END;
}

static sheaf_status pass_on(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_status status = tick(user);
    sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    return status < 0 ? status : sheaf_element_put(out, "", sheaf_element_at(in, 0));
}

static sheaf_dataset *open_empty(const sheaf_element *in, void *user)
{
    (void)in;
    return tick(user) < 0 ? NULL : sheaf_dataset_range(0, 0, 1);
}

/* None gives an element before the patience is over. */
static sheaf_dataset *endless(int kind, struct search *s)
{
    const int64_t far = (int64_t)PATIENCE_S * 1000 * 10;
    sheaf_dataset *d = sheaf_dataset_repeat(sheaf_dataset_range(0, 10, 1), -1);
    switch (kind) {
    case 0:
        return sheaf_dataset_shuffle(sheaf_dataset_map(d, pass_on, s, NULL), far, NULL);
    case 1:
        return sheaf_dataset_skip(sheaf_dataset_map(d, pass_on, s, NULL), far);
    case 2:
        return sheaf_dataset_filter(d, drop, s);
    case 3:
        return sheaf_dataset_flat_map(d, open_empty, s);
    case 4:
        return sheaf_dataset_prefetch(sheaf_dataset_filter(d, drop, s), 1);
    default:
        return sheaf_dataset_map(sheaf_dataset_filter(d, drop, s), pass_on, s,
                                 &(sheaf_map_options){.parallel = 2});
    }
}
enum { KINDS = 6 };

static void stop_on_the_way(void *user)
{
    struct search *s = user;
    while (atomic_load(&s->calls) < BEFORE_STOP && sheaf__clock_now() < s->end)
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    sheaf_stop();
}

static void search(int kind)
{
    struct search s = {.end = sheaf__clock_after(PATIENCE_S * SHEAF__S)};
    struct sheaf__thread *thread;
    sheaf_error err = {0};
    sheaf_element *e;
    sheaf_dataset *d = endless(kind, &s);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    rig_ok(sheaf__thread_start("stopper", stop_on_the_way, &s, NULL, &thread, &err), &err);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_CANCELLED,
              "the program asked to stop");
    rig_ok(sheaf__thread_join(thread, sheaf__clock_after(5 * SHEAF__S), &err), &err);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* The answer is the same whether a stage has threads, as in the last two, or none has. */
static void test_heard_by_an_iterator_without_threads(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        sheaf_context *context = NULL;
        sheaf_error err = {0};
        rig_ok(sheaf_context_new(NULL, &context, &err), &err);
        sheaf_context *before = sheaf_context_enter(context);
        search(kind);
        sheaf_frame_clear();
        sheaf_context_enter(before);
        sheaf_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_heard_by_an_iterator_without_threads)};
    return rig_run(tests);
}
