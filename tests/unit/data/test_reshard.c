/* SPDX-License-Identifier: Apache-2.0 */
#include "random_pipeline.h"

#include "data/reshard.h"

/* The rest of a pass, divided anew over other workers: every example comes exactly once, and where
 * the global batch divides, in the same step. */

#define MOST_STEPS 256
#define MOST       512

/* Numbers that all workers together read in each step. */
struct steps {
    int64_t numbers[MOST_STEPS][64];
    size_t counts[MOST_STEPS];
    int64_t all[MOST];
    size_t count;
};

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_part(struct steps *s, size_t step, const sheaf_tensor *t)
{
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++) {
        assert_true(step < MOST_STEPS && s->counts[step] < 64 && s->count < MOST);
        s->numbers[step][s->counts[step]++] = s->all[s->count++] = sheaf_tensor_integer(t, i);
    }
}

/* What the workers of the last leg read from `from` steps on. */
static void run(sheaf_dataset *d, const struct sheaf__leg *legs, size_t count, size_t from,
                struct steps *s)
{
    const struct sheaf__leg *leg = &legs[count - 1];
    memset(s, 0, sizeof(*s));
    for (int w = 0; w < leg->workers; w++) {
        sheaf_dataset *part = NULL;
        sheaf_error err = {0};
        sheaf_element *e;
        rig_ok(sheaf__reshard(d, legs, count, w, &part, &err), &err);
        sheaf_iterator *it = sheaf_dataset_iterate(part);
        size_t at = 0;
        SHEAF_EACH_ELEMENT(e, it, &err)
        {
            const size_t step = at++ / (size_t)leg->replicas;
            if (step >= from)
                add_part(s, step - from, sheaf_element_at(e, 0));
        }
        rig_ok(err.status, &err);
        sheaf_iterator_free(it);
        sheaf_dataset_free(part);
    }
    qsort(s->all, s->count, sizeof(s->all[0]), ascending);
    for (size_t i = 0; i < MOST_STEPS; i++)
        qsort(s->numbers[i], s->counts[i], sizeof(int64_t), ascending);
}

static void compare(const struct steps *expected, const struct steps *found, size_t batch,
                    bool divides, const char *what)
{
    if (expected->count != found->count ||
        memcmp(expected->all, found->all, found->count * sizeof(found->all[0])) != 0)
        fail_msg("%s: %zu examples, expected %zu, or others", what, found->count, expected->count);
    for (size_t i = 0; i < MOST_STEPS && divides && expected->counts[i] == batch; i++)
        if (found->counts[i] != batch ||
            memcmp(found->numbers[i], expected->numbers[i], batch * sizeof(int64_t)) != 0)
            fail_msg("%s: step %zu has other examples", what, i);
}

static sheaf_dataset *dataset(struct pipeline *p, int64_t batch)
{
    const sheaf_shuffle_options order = {.seed = 1 + below(p, 9)};
    const sheaf_list_files_options files = {.seed = 1 + below(p, 9)};
    const sheaf_dataset_options policy = {.autoshard = below(p, 2) ? SHEAF_AUTOSHARD_AUTO
                                                                   : SHEAF_AUTOSHARD_DATA};
    const sheaf_batch_options drop = {.drop_remainder = below(p, 3) == 0};
    sheaf_dataset *d;
    if (below(p, 2)) {
        d = sheaf_dataset_range(0, 20 + below(p, 150), 1);
    } else {
        d = sheaf_list_files(files_pattern, &files);
        d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, NULL);
        d = sheaf_dataset_map(d, number_of_text, NULL, NULL);
    }
    if (below(p, 2))
        d = sheaf_dataset_shuffle(d, 1 + below(p, 12), &order);
    d = sheaf_dataset_batch(d, batch, &drop);
    if (below(p, 3) == 0)
        d = sheaf_dataset_repeat(d, 2);
    return sheaf_dataset_with_options(d, &policy);
}

/* Up to three legs: all workers begin, others go on, others again. */
static void check(uint64_t seed)
{
    static struct steps expected, found;
    struct pipeline p = {.lists = false};
    struct sheaf__leg legs[3];
    char what[128];
    sheaf__philox_init(&p.dice, seed, 0);
    const size_t batch = 4 * (1 + (size_t)below(&p, 3)), count = 2 + (size_t)below(&p, 2);
    bool divides = true;
    int used = snprintf(what, sizeof(what), "seed %d, batch %zu:", (int)seed, batch);
    for (size_t i = 0; i < count; i++) {
        legs[i] = (struct sheaf__leg){1 + below(&p, 4), 1 + below(&p, 3), (uint64_t)below(&p, 3)};
        divides = divides && batch % (size_t)(legs[i].workers * legs[i].replicas) == 0;
        used += snprintf(what + used, sizeof(what) - (size_t)used, " %d x %d, %d steps;",
                         (int)legs[i].workers, (int)legs[i].replicas, (int)legs[i].rounds);
    }
    sheaf_dataset *d = dataset(&p, (int64_t)batch);
    for (size_t n = 2; n <= count; n++) {
        run(d, legs, n - 1, (size_t)legs[n - 2].rounds, &expected);
        run(d, legs, n, 0, &found);
        compare(&expected, &found, batch, divides, what);
    }
    sheaf_dataset_free(d);
    rig_log_take();
}

static void test_other_workers(void **state)
{
    (void)state;
    write_files();
    for (uint64_t seed = 1; seed <= 600; seed++)
        check(seed);
}

/* Eight examples, two workers before, one, and three after: by hand. */
static void test_by_hand(void **state)
{
    (void)state;
    const struct sheaf__leg to_one[] = {{2, 1, 1}, {1, 1, 0}}, to_three[] = {{2, 1, 1}, {3, 1, 0}};
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 18, 1), 6, NULL), *part;
    sheaf_error err = {0};
    /* Two workers of one replica had 0 1 2 and 3 4 5 in the first step. */
    rig_ok(sheaf__reshard(d, to_one, 2, 0, &part, &err), &err);
    assert_gives(part, "[[6, 9, 7, 10, 8, 11], [12, 15, 13, 16, 14, 17]]");
    rig_ok(sheaf__reshard(d, to_three, 2, 1, &part, &err), &err);
    assert_gives(part, "[[9, 8], [15, 14]]");
    sheaf_dataset_free(d);
    rig_log_take();
}

static void test_refusals(void **state)
{
    (void)state;
    const struct sheaf__leg legs[] = {{2, 1, 1}, {1, 1, 0}}, many[] = {{4096, 1, 1}, {1, 1, 0}};
    sheaf_dataset *part, *d = slices_of("[[0, 1], [2, 3]]");
    sheaf_error err = {0};
    d = sheaf_dataset_map(d, add_one, NULL, NULL);
    rig_fails(sheaf__reshard(d, legs, 2, 0, &part, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "the size of the global batch is not known");
    sheaf_dataset_free(d);
    d = sheaf_dataset_batch(sheaf_dataset_range(0, 18, 1), 6, NULL);
    rig_fails(sheaf__reshard(d, many, 2, 0, &part, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "more than 1024 workers");
    sheaf_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_other_workers), rig_test(test_by_hand),
                                       rig_test(test_refusals)};
    return rig_run(tests);
}
