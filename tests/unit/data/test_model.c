/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/random.h"
#include "data/split_batch.h"

/* Random pipelines with failing functions against a model that takes one element at a time: blocks,
 * threads and read-ahead must not show. The model knows numbers, lists of numbers, and errors. */

/* What a stage gives: a number or a list of them, an error, or the end. */
struct item {
    enum { NUMBER, LIST, ERROR, END } kind;
    int64_t values[24];
    size_t count;
};

enum op {
    RANGE,
    MAP,
    FILTER,
    BATCH,
    UNBATCH,
    SHUFFLE,
    REPEAT,
    TAKE,
    SKIP,
    SHARD,
    CONCATENATE,
    PREFETCH,
    CACHE,
    REBATCH,
    SPREAD,
    OPS
};

struct stage {
    enum op op;
    int64_t a, b;
    /* of the iterator */
    int64_t at, left;
    struct item held;
    size_t held_at;
    struct item buffer[24];
    size_t buffered;
    bool ended;
    struct sheaf__philox random;
};

static struct stage stages[8];

static struct item error_item(void)
{
    return (struct item){.kind = ERROR};
}
static struct item end_item(void)
{
    return (struct item){.kind = END};
}

static void reset(int n)
{
    for (int i = 0; i <= n; i++) {
        struct stage *s = &stages[i];
        s->at = 0;
        s->left = s->a;
        s->held = end_item();
        s->held_at = s->buffered = s->buffer[0].count = 0;
        s->ended = false;
        if (s->op == SHUFFLE) {
            struct sheaf__seeds seeds = sheaf__random_reduce(87654321, s->b);
            sheaf__philox_init(&s->random, seeds.seed, seeds.seed2);
        }
    }
}

static struct item next(int i);

static struct item next_batch(int i)
{
    struct stage *s = &stages[i];
    struct item out = {.kind = LIST};
    while ((int64_t)out.count < s->a) {
        struct item in = next(i - 1);
        if (in.kind == ERROR)
            return in;
        if (in.kind == END)
            break;
        out.values[out.count++] = in.values[0];
    }
    return out.count > 0 ? out : end_item();
}

/* The numbers of the lists, one after the other. */
static struct item next_of_list(int i)
{
    struct stage *s = &stages[i];
    while (s->held.kind != LIST || s->held_at == s->held.count) {
        struct item in = next(i - 1);
        if (in.kind == ERROR || in.kind == END)
            return in;
        s->held = in;
        s->held_at = 0;
    }
    return (struct item){.kind = NUMBER, .values = {s->held.values[s->held_at++]}, .count = 1};
}

static struct item next_rebatched(int i)
{
    struct stage *s = &stages[i];
    while (!s->ended && (int64_t)s->buffer[0].count < s->a) {
        struct item in = next_of_list(i);
        s->ended = in.kind == END;
        if (in.kind == ERROR)
            return in;
        if (in.kind == NUMBER)
            s->buffer[0].values[s->buffer[0].count++] = in.values[0];
    }
    struct item out = s->buffer[0];
    out.kind = out.count > 0 ? LIST : END;
    s->buffer[0].count = 0;
    return out;
}

static struct item next_shuffled(int i)
{
    struct stage *s = &stages[i];
    while (!s->ended && (int64_t)s->buffered < s->a) {
        struct item in = next(i - 1);
        if (in.kind == ERROR)
            return in;
        s->ended = in.kind == END;
        if (!s->ended)
            s->buffer[s->buffered++] = in;
    }
    if (s->buffered == 0)
        return end_item();
    size_t chosen = sheaf__philox_next(&s->random) % s->buffered;
    struct item out = s->buffer[chosen];
    s->buffer[chosen] = s->buffer[0];
    memmove(s->buffer, s->buffer + 1, --s->buffered * sizeof(s->buffer[0]));
    return out;
}

static struct item next_repeated(int i)
{
    struct stage *s = &stages[i];
    for (;;) {
        struct item in = s->at < s->a ? next(i - 1) : end_item();
        if (in.kind != END || s->at >= s->a)
            return in;
        if (++s->at < s->a)
            reset(i - 1);
    }
}

static struct item next_kept(int i, bool (*keeps)(struct stage *, const struct item *))
{
    for (;;) {
        struct item in = next(i - 1);
        if (in.kind == ERROR || in.kind == END || keeps(&stages[i], &in))
            return in;
    }
}
static bool skip_keeps(struct stage *s, const struct item *in)
{
    (void)in;
    return s->left <= 0 || s->left-- <= 0;
}
static bool shard_keeps(struct stage *s, const struct item *in)
{
    (void)in;
    return s->at++ % s->a == s->b;
}
static bool filter_keeps(struct stage *s, const struct item *in)
{
    return in->values[0] % s->a != 0;
}

static bool fails(int64_t x, int64_t k)
{
    return k > 0 && x % k == k - 1;
}

static struct item next_mapped(int i)
{
    struct item in = next(i - 1);
    if (in.kind != NUMBER && in.kind != LIST)
        return in;
    if (fails(in.values[0], stages[i].a))
        return error_item();
    for (size_t k = 0; k < in.count; k++)
        in.values[k] = in.values[k] + 1;
    return in;
}

/* Each number x as x, x, x. */
static struct item next_spread(int i)
{
    struct stage *s = &stages[i];
    if (s->at == 0) {
        struct item in = next(i - 1);
        if (in.kind != NUMBER)
            return in;
        s->held = in;
    }
    s->at = (s->at + 1) % 3;
    return s->held;
}

static struct item next(int i)
{
    struct stage *s = &stages[i];
    struct item in;
    switch (s->op) {
    case RANGE:
        if (s->at == s->a)
            return end_item();
        return (struct item){.kind = NUMBER, .values = {s->at++}, .count = 1};
    case MAP:
        return next_mapped(i);
    case FILTER:
        return next_kept(i, filter_keeps);
    case BATCH:
        return next_batch(i);
    case UNBATCH:
        return next_of_list(i);
    case SHUFFLE:
        return next_shuffled(i);
    case REPEAT:
        return next_repeated(i);
    case TAKE:
        if (s->left == 0)
            return end_item();
        in = next(i - 1);
        s->left -= in.kind == NUMBER || in.kind == LIST;
        return in;
    case SKIP:
        in = next_kept(i, skip_keeps);
        if (in.kind == ERROR && s->left > 0)
            s->left = s->a; /* it counts anew */
        return in;
    case SHARD:
        return next_kept(i, shard_keeps);
    case REBATCH:
        return next_rebatched(i);
    case SPREAD:
        return next_spread(i);
    default:
        return next(i - 1);
    }
}

/* ---- the same with the library ---- */

static sheaf_status add_one(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_tensor *t = sheaf_element_get(in, NULL);
    const int64_t *values = sheaf_tensor_data(t);
    int64_t sum[24], n = sheaf_tensor_elements(t);
    if (fails(values[0], *(const int64_t *)user))
        return SHEAF_ERR_IO;
    for (int64_t i = 0; i < n; i++)
        sum[i] = values[i] + 1;
    return sheaf_element_put(out, "", sheaf_tensor_new(SHEAF_INT64, sheaf_tensor_shape(t), sum));
}
static sheaf_status keep_some(const sheaf_element *in, void *user)
{
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    return x % *(const int64_t *)user != 0 ? SHEAF_OK : SHEAF_END;
}
static sheaf_dataset *open_three(const sheaf_element *in, void *user)
{
    (void)user;
    return sheaf_dataset_repeat(
        sheaf_dataset_from_tensors(sheaf_element_of(sheaf_element_get(in, NULL))), 3);
}

static sheaf_dataset *stage_of(sheaf_dataset *d, struct stage *s, uint32_t chance)
{
    const sheaf_map_options two = {.parallel = chance % 3 == 0 ? 2 : 0};
    const sheaf_shuffle_options fixed = {.seed = s->b, .has_seed = true, .no_reshuffle = true};
    switch (s->op) {
    case RANGE:
        return sheaf_dataset_range(0, s->a, 1);
    case MAP:
        return sheaf_dataset_map(d, add_one, &s->a, &two);
    case FILTER:
        return sheaf_dataset_filter(d, keep_some, &s->a);
    case BATCH:
        return chance % 2 ? sheaf_dataset_batch(d, s->a, NULL)
                          : sheaf_dataset_padded_batch(d, s->a, NULL);
    case CACHE:
        return sheaf_dataset_cache(d, NULL);
    case UNBATCH:
        return sheaf_dataset_unbatch(d);
    case SHUFFLE:
        return sheaf_dataset_shuffle(d, s->a, &fixed);
    case REPEAT:
        return sheaf_dataset_repeat(d, s->a);
    case TAKE:
        return sheaf_dataset_take(d, s->a);
    case SKIP:
        return sheaf_dataset_skip(d, s->a);
    case SHARD:
        return sheaf_dataset_shard(d, s->a, s->b);
    case REBATCH:
        return sheaf_dataset_rebatch(d, &s->a, 1, false);
    case SPREAD:
        return sheaf_dataset_flat_map(d, open_three, NULL);
    case CONCATENATE:
        return sheaf_dataset_concatenate(d, sheaf_dataset_take(sheaf_dataset_range(0, 9, 1), 0));
    default:
        return sheaf_dataset_prefetch(d, 1 + s->a);
    }
}

/* Draws a pipeline; `lists` tells what its elements are. */
static int draw(struct sheaf__philox *p)
{
    bool lists = false;
    int n = 1 + (int)sheaf__philox_below(p, 6);
    stages[0] = (struct stage){.op = RANGE, .a = (int64_t)sheaf__philox_below(p, 25)};
    for (int i = 1; i <= n; i++) {
        struct stage *s = &stages[i];
        do {
            s->op = (enum op)(1 + sheaf__philox_below(p, OPS - 1));
        } while ((lists && (s->op == BATCH || s->op == SPREAD)) ||
                 (!lists && (s->op == UNBATCH || s->op == REBATCH)));
        s->a = 1 + (int64_t)sheaf__philox_below(p, 7);
        if (s->op == MAP)
            s->a = sheaf__philox_below(p, 2) ? 3 + s->a : 0;
        if (s->op == REPEAT)
            s->a = 1 + s->a % 2;
        if (s->op == FILTER)
            s->a++;
        s->b = s->op == SHARD ? (int64_t)sheaf__philox_below(p, (uint64_t)s->a)
                              : (int64_t)sheaf__philox_below(p, 1000);
        lists = s->op == BATCH || s->op == REBATCH || (lists && s->op != UNBATCH);
    }
    return n;
}

static json_t *model_json(int n)
{
    json_t *list = json_array();
    reset(n);
    for (struct item it = next(n); it.kind != END; it = next(n)) {
        if (it.kind == ERROR) {
            json_array_append_new(list, status_json(SHEAF_ERR_IO));
        } else if (it.kind == NUMBER) {
            json_array_append_new(list, json_integer(it.values[0]));
        } else {
            json_t *values = json_array();
            for (size_t i = 0; i < it.count; i++)
                json_array_append_new(values, json_integer(it.values[i]));
            json_array_append_new(list, values);
        }
    }
    return list;
}

static void test_random_pipelines(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct sheaf__philox p;
        sheaf__philox_init(&p, seed, 0);
        int n = draw(&p);
        sheaf_dataset *d = NULL;
        char what[160] = "";
        size_t used = 0;
        for (int i = 0; i <= n; i++) {
            d = stage_of(d, &stages[i], sheaf__philox_next(&p));
            used += (size_t)snprintf(what + used, sizeof(what) - used, "%d(%d) ", stages[i].op,
                                     (int)stages[i].a);
        }
        json_t *expected = model_json(n);
        snprintf(what + used, sizeof(what) - used, "seed %d", (int)seed);
        assert_json(elements(d), expected, what);
        /* Run ahead, and in larger steps, it is the same. */
        d = sheaf_dataset_prefetch(d, 3);
        assert_json(elements(d), expected, what);
        json_decref(expected);
        sheaf_dataset_free(d);
        rig_log_take(); /* of what a cache did not keep */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_random_pipelines)};
    return rig_run(tests);
}
