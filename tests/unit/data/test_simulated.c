/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/sim.h"

/* Pipelines with threads in all places under a scheduler that picks who goes on: no order of events
 * may change what comes out, or leave somebody asleep. */

static sheaf_status add_one(const sheaf_element *in, sheaf_element *out, void *user)
{
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    sheaf__thread_point();
    return x == 5 ? SHEAF_ERR_IO : sheaf_element_put(out, "", sheaf_long(x + 1));
}
static sheaf_dataset *open_three(const sheaf_element *in, void *user)
{
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    return sheaf_dataset_range(10 * x, 10 * x + 3, 1);
}

/* With `threads` 0 the same elements in the same order on the caller's thread alone; but behind an error an
 * interleave has another order without threads, so that it has one. */
static sheaf_dataset *pipeline(int kind, int threads)
{
    const sheaf_map_options map = {.parallel = threads};
    const sheaf_interleave_options cycle = {.cycle_length = 2,
                                            .parallel = threads > 0 ? threads : kind == 3};
    sheaf_dataset *d = sheaf_dataset_range(0, 7, 1);
    switch (kind) {
    case 0:
        return sheaf_dataset_prefetch(sheaf_dataset_map(d, add_one, NULL, NULL), threads);
    case 1:
        return sheaf_dataset_map(d, add_one, NULL, &map);
    case 2:
        return sheaf_dataset_interleave(d, open_three, NULL, &cycle);
    default:
        d = sheaf_dataset_prefetch(sheaf_dataset_map(d, add_one, NULL, &map), threads / 2);
        d = sheaf_dataset_interleave(d, open_three, NULL, &cycle);
        return sheaf_dataset_prefetch(d, threads + threads / 2);
    }
}

struct run {
    int kind, threads;
    int take; /* elements before it is freed */
    char found[256];
};

static void run(void *user)
{
    struct run *r = user;
    sheaf_dataset *d = pipeline(r->kind, r->threads);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_status status = SHEAF_OK;
    size_t used = 0;
    for (int i = 0; i < r->take && status != SHEAF_END; i++) {
        SHEAF_FRAME
        {
            sheaf_error err = {0};
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, &err);
            if (status == SHEAF_OK)
                used += (size_t)snprintf(r->found + used, sizeof(r->found) - used, "%d ",
                                         (int)sheaf_tensor_integer(sheaf_element_get(e, NULL), 0));
            else if (status < 0)
                used += (size_t)snprintf(r->found + used, sizeof(r->found) - used, "E ");
        }
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static void test_any_order_of_events(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct run alone = {.kind = kind, .take = 1000};
        run(&alone);
        assert_true(strlen(alone.found) > 10);
        for (uint64_t seed = 1; seed <= 200; seed++) {
            struct run r = {
                .kind = kind, .threads = 2, .take = seed % 3 ? 1000 : (int)(seed / 3) % 8};
            sheaf_error err = {0};
            rig_ok(sheaf__sim_run(seed, run, &r, NULL, &err), &err);
            if (strncmp(r.found, alone.found, strlen(r.found)) != 0 ||
                (r.take == 1000 && strlen(r.found) != strlen(alone.found)))
                fail_msg("kind %d, seed %d: %s", kind, (int)seed, r.found);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_any_order_of_events)};
    return rig_run(tests);
}
