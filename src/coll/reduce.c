/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce and reduce-scatter. Each member first sums its own replicas as far as the tree allows (blocks). Small ones: the
 * blocks go to everybody with the CALL, and everybody adds them up. Large ones: each member owns a part of the elements,
 * gets everybody's blocks of it piece by piece, and sends the sums to everybody. The order of addition is the same. */
#include "base/error.h"
#include "base/mem.h"
#include "coll/core.h"

#include <string.h>

/* Up to so many bytes go to everybody; else pieces of that size. Elements a helper takes at a time. */
enum { PIECE_BYTES = 256 << 10, STRIPE = 16 << 10, BLOCKS_MOST = 64 };

/* One reduction, on the leader. */
struct work {
    struct sheaf__channel *c;
    struct sheaf__coll_args *const *args;
    const struct sheaf__layout *layout;
    int rank, own; /* this member, number of its blocks */
    size_t count;
    sheaf_dtype dtype, wire; /* of the values; of blocks that travel */
    size_t size, wire_size;  /* of an element */
    bool scatter;
    const void *blocks[BLOCKS_MOST]; /* this member's */
    /* The part of the elements that this member owns. */
    size_t first, part, piece;
    uint8_t *slots;      /* the others' blocks of it */
    uint8_t *sum;        /* its sums */
    const void **arrays; /* all blocks of it */
    /* Loops. */
    const struct sheaf__sum *loop_sum;
    void *loop_out;
    sheaf_dtype loop_dtype;
    int loop_divisor;
};

static size_t round_up(size_t size)
{
    return (size + SHEAF__MEM_ALIGN - 1) / SHEAF__MEM_ALIGN * SHEAF__MEM_ALIGN;
}

static void copy(void *to, const void *from, size_t size)
{
    if (to != from && size > 0)
        memcpy(to, from, size);
}

static size_t part_first(const struct work *w, int member)
{
    return sheaf__part_first(w->count, w->layout->replica[member], w->layout->total);
}

/* ---- within a member ---- */

static void sum_stripe(size_t i, void *user)
{
    const struct work *w = user;
    size_t first = i * STRIPE;
    size_t n = w->count - first < STRIPE ? w->count - first : STRIPE;
    sheaf__sum_range(w->loop_sum, w->loop_out, first, n);
}

static void sum_stripe_for_all(size_t i, void *user)
{
    const struct work *w = user;
    size_t first = i * STRIPE;
    size_t n = w->count - first < STRIPE ? w->count - first : STRIPE;
    uint8_t *out = w->loop_out;
    sheaf__sum_range(w->loop_sum, out, first, n);
    for (int r = 0; r < w->c->local; r++)
        copy((uint8_t *)w->args[r]->out + first * w->size, out + first * w->size, n * w->size);
}

static void copy_stripe(size_t i, void *user)
{
    const struct work *w = user;
    size_t first = i * STRIPE;
    size_t n = w->count - first < STRIPE ? w->count - first : STRIPE;
    const uint8_t *out = w->loop_out;
    for (int r = 0; r < w->c->local; r++)
        copy((uint8_t *)w->args[r]->out + first * w->size, out + first * w->size, n * w->size);
}

static void loop(struct work *w, void (*fn)(size_t i, void *user))
{
    size_t n = (w->count + STRIPE - 1) / STRIPE;
    if (!w->args[0]->background) {
        sheaf__crew_loop(w->c, n, fn, w);
        return;
    }
    for (size_t i = 0; i < n; i++)
        fn(i, w);
}

/* Gives each local replica its part of the member's sums, which begin with element `first`. */
static void deal(const struct work *w, const uint8_t *sum, size_t first)
{
    int base = w->layout->replica[w->rank];
    for (int r = 0; r < w->c->local; r++) {
        size_t begin = sheaf__part_first(w->count, base + r, w->layout->total);
        size_t end = sheaf__part_first(w->count, base + r + 1, w->layout->total);
        copy(w->args[r]->out, sum + (begin - first) * w->size, (end - begin) * w->size);
    }
}

/* Sums local replicas [begin, end), which make up a node of `span` leaves, to w->loop_out by stripes. */
static sheaf_status sum_locals(struct work *w, int begin, int end, int span,
                               void (*fn)(size_t i, void *user), sheaf_error *err)
{
    size_t n = (size_t)(end - begin);
    int base = w->layout->over_replicas ? w->layout->replica[w->rank] : 0;
    struct sheaf__block *leaves = sheaf__alloc_array(n, sizeof(*leaves));
    const void **arrays = sheaf__alloc_array(n, sizeof(void *));
    const struct sheaf__sum sum = {
        .in = w->dtype,
        .out = w->loop_dtype,
        .blocks = leaves,
        .arrays = arrays,
        .count = end - begin,
        .span = span,
        .divisor = w->loop_divisor,
    };
    sheaf_status status = leaves && arrays ? SHEAF_OK : sheaf__no_memory(err, "a sum");
    for (int i = begin; status == SHEAF_OK && i < end; i++) {
        leaves[i - begin] = (struct sheaf__block){.first = base + i, .size = 1};
        arrays[i - begin] = w->args[i]->in;
    }
    if (status == SHEAF_OK) {
        w->loop_sum = &sum;
        loop(w, fn);
    }
    sheaf__free(leaves);
    sheaf__free(arrays);
    return status;
}

/* A member alone: no messages. */
static sheaf_status reduce_alone(struct work *w, sheaf_error *err)
{
    int span = sheaf__tree_span(w->c->local);
    w->loop_dtype = w->dtype;
    w->loop_divisor = w->args[0]->what.op == SHEAF_REDUCE_MEAN ? w->c->local : 1;
    w->loop_out = w->args[0]->out;
    if (!w->scatter)
        return sum_locals(w, 0, w->c->local, span, sum_stripe_for_all, err);
    /* A replica's result may lie in its values, which the others' results need, too. */
    w->loop_out = sheaf__core_scratch(w->c->core, w->count * w->size + 1);
    if (!w->loop_out)
        return sheaf__no_memory(err, "a sum");
    SHEAF__TRY(sum_locals(w, 0, w->c->local, span, sum_stripe, err));
    deal(w, w->loop_out, 0);
    return SHEAF_OK;
}

/* The leaves of own block `k`, local replicas [*begin, *end), and the span of the node they make up. */
static int block_leaves(const struct work *w, int k, int *begin, int *end)
{
    const struct sheaf__block *b = &w->layout->blocks[w->layout->first[w->rank] + k];
    int base = w->layout->replica[w->rank];
    *begin = 0;
    *end = w->c->local;
    if (!w->layout->over_replicas)
        return sheaf__tree_span(w->c->local);
    *begin = b->first - base;
    *end = b->first + b->size - base < *end ? b->first + b->size - base : *end;
    return b->size;
}

/* Memory that the blocks of this member need; a block that is one replica's values needs none. */
static bool block_is_plain(const struct work *w, int k)
{
    int begin, end;
    block_leaves(w, k, &begin, &end);
    return end - begin == 1 && w->wire == w->dtype;
}

static sheaf_status make_blocks(struct work *w, uint8_t *room, sheaf_error *err)
{
    w->loop_dtype = w->wire;
    w->loop_divisor = 1;
    for (int k = 0; k < w->own; k++) {
        int begin, end;
        int span = block_leaves(w, k, &begin, &end);
        if (block_is_plain(w, k)) {
            w->blocks[k] = w->args[begin]->in;
            continue;
        }
        w->loop_out = room;
        SHEAF__TRY(sum_locals(w, begin, end, span, sum_stripe, err));
        w->blocks[k] = room;
        room += round_up(w->count * w->wire_size);
    }
    return SHEAF_OK;
}

/* ---- between members ---- */

static struct sheaf__sum sum_of_all(const struct work *w)
{
    return (struct sheaf__sum){
        .in = w->wire,
        .out = w->dtype,
        .blocks = w->layout->blocks,
        .arrays = w->arrays,
        .count = w->layout->count,
        .span = w->layout->span,
        .divisor = w->args[0]->what.op == SHEAF_REDUCE_MEAN ? w->layout->total : 1,
    };
}

/* Everybody's blocks came with the calls. */
static sheaf_status take_inline(struct work *w, struct sheaf__exchange *x, sheaf_error *err)
{
    size_t bytes = w->count * w->wire_size;
    for (int m = 0; m < w->c->team->size; m++) {
        int first = w->layout->first[m], count = w->layout->first[m + 1] - first;
        const uint8_t *data = m == w->rank ? NULL : sheaf__exchange_inline(x, m);
        if (data && sheaf__exchange_inline_size(x, m) != (size_t)count * bytes)
            return sheaf__error(err, SHEAF_ERR_INTERNAL, "a member's part has %zu bytes, not %zu",
                                sheaf__exchange_inline_size(x, m), (size_t)count * bytes);
        for (int k = 0; k < count; k++)
            w->arrays[first + k] = m == w->rank ? w->blocks[k] : data + (size_t)k * bytes;
    }
    return SHEAF_OK;
}

static sheaf_status reduce_small(struct work *w, struct sheaf__exchange *x, sheaf_error *err)
{
    struct sheaf__part parts[BLOCKS_MOST];
    for (int k = 0; k < w->own; k++)
        parts[k] = (struct sheaf__part){(void *)(uintptr_t)w->blocks[k], w->count * w->wire_size};
    sheaf_status status = sheaf__exchange_begin(x, parts, w->count > 0 ? (size_t)w->own : 0, err);
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(x, sheaf__exchange_all_called, err);
    if (status == SHEAF_OK && w->count > 0)
        status = take_inline(w, x, err);
    if (status == SHEAF_OK && w->count > 0) {
        const struct sheaf__sum sum = sum_of_all(w);
        sheaf__sum_range(&sum, w->sum, 0, w->count);
    }
    return sheaf__exchange_end(x, status, err);
}

enum { PHASE_BLOCKS, PHASE_SUMS };

/* Number of the slot of a member's block: own blocks have none. */
static size_t slot_of(const struct work *w, int member, int k)
{
    int slot = w->layout->first[member] + k;
    return (size_t)(member > w->rank ? slot - w->own : slot);
}

static void *place(struct sheaf__exchange *x, int rank, const struct sheaf__coll_head *head,
                   size_t size)
{
    const struct work *w = x->user;
    size_t at = head->u.data.offset, n;
    if (head->u.data.phase == PHASE_BLOCKS) {
        n = size / w->wire_size;
        int k = (int)head->u.data.block;
        if (k < 0 || k >= w->layout->first[rank + 1] - w->layout->first[rank] ||
            size % w->wire_size != 0 || at > w->part || n > w->part - at)
            return NULL;
        return w->slots + slot_of(w, rank, k) * round_up(w->part * w->wire_size) +
               at * w->wire_size;
    }
    n = size / w->size;
    size_t begin = part_first(w, rank), end = part_first(w, rank + 1);
    if (w->scatter || size % w->size != 0 || at < begin || at > end || n > end - at)
        return NULL;
    return (uint8_t *)w->args[0]->out + at * w->size;
}

static void came(struct sheaf__exchange *x, int rank, const struct sheaf__coll_head *head,
                 size_t size)
{
    const struct work *w = x->user;
    (void)rank;
    if (head->u.data.phase == PHASE_BLOCKS)
        x->core->piece_counts[head->u.data.offset / w->piece]++;
    else
        x->received += size;
}

/* Sends all others the blocks of their parts, piece by piece, beginning with the next member so that not all talk to the
 * same one. */
static sheaf_status send_blocks(struct work *w, struct sheaf__exchange *x, sheaf_error *err)
{
    int members = w->c->team->size;
    size_t most = 0;
    for (int m = 0; m < members; m++) {
        size_t part = part_first(w, m + 1) - part_first(w, m);
        most = part > most ? part : most;
    }
    for (size_t at = 0; at < most; at += w->piece) {
        for (int i = 1; i < members; i++) {
            int m = (w->rank + i) % members;
            size_t first = part_first(w, m), part = part_first(w, m + 1) - first;
            size_t n = at < part ? part - at : 0;
            n = n < w->piece ? n : w->piece;
            for (int k = 0; n > 0 && k < w->own; k++)
                SHEAF__TRY(sheaf__exchange_send(
                    x, m, (struct sheaf__coll_place){PHASE_BLOCKS, (uint32_t)k, at},
                    (const uint8_t *)w->blocks[k] + (first + at) * w->wire_size, n * w->wire_size,
                    err));
        }
    }
    return SHEAF_OK;
}

/* ready: the piece that is waited for has come from everybody. */
static bool piece_is_there(struct sheaf__exchange *x)
{
    const struct work *w = x->user;
    return x->core->piece_counts[x->waiting_for] == (uint32_t)(w->layout->count - w->own);
}

static sheaf_status sum_pieces(struct work *w, struct sheaf__exchange *x, sheaf_error *err)
{
    const struct sheaf__sum sum = sum_of_all(w);
    for (size_t at = 0; at < w->part; at += w->piece) {
        size_t n = w->part - at < w->piece ? w->part - at : w->piece;
        x->waiting_for = at / w->piece;
        SHEAF__TRY(sheaf__exchange_wait(x, piece_is_there, err));
        sheaf__sum_range(&sum, w->sum, at, n);
        for (int i = 1; !w->scatter && i < w->c->team->size; i++)
            SHEAF__TRY(
                sheaf__exchange_send(x, (w->rank + i) % w->c->team->size,
                                     (struct sheaf__coll_place){PHASE_SUMS, 0, w->first + at},
                                     w->sum + at * w->size, n * w->size, err));
    }
    return SHEAF_OK;
}

static bool all_sums_there(struct sheaf__exchange *x)
{
    const struct work *w = x->user;
    return x->received == (w->count - w->part) * w->size;
}

static sheaf_status reduce_large(struct work *w, struct sheaf__exchange *x, sheaf_error *err)
{
    for (int m = 0; m < w->c->team->size; m++)
        for (int k = 0; k < w->layout->first[m + 1] - w->layout->first[m]; k++)
            w->arrays[w->layout->first[m] + k] =
                m == w->rank ? (const uint8_t *)w->blocks[k] + w->first * w->wire_size
                             : w->slots + slot_of(w, m, k) * round_up(w->part * w->wire_size);
    x->place = place;
    x->came = came;
    sheaf_status status = sheaf__exchange_begin(x, NULL, 0, err);
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(x, sheaf__exchange_all_called, err);
    if (status == SHEAF_OK)
        status = send_blocks(w, x, err);
    if (status == SHEAF_OK)
        status = sum_pieces(w, x, err);
    if (status == SHEAF_OK && !w->scatter)
        status = sheaf__exchange_wait(x, all_sums_there, err);
    return sheaf__exchange_end(x, status, err);
}

/* ---- putting it together ---- */

static bool is_small(const struct work *w)
{
    return w->count * w->wire_size * (size_t)w->layout->most <= sheaf__coll_small(w->c->team->size);
}

/* Whether the sum itself can go through shared memory: every member has one block. */
static bool is_shared(const struct work *w)
{
    return w->c->team->shm && w->layout->most == 1;
}

static sheaf_status reduce_shared(struct work *w, const struct sheaf__wait *wait, sheaf_error *err)
{
    const struct sheaf__part part = {(void *)(uintptr_t)w->blocks[0], w->count * w->wire_size};
    struct sheaf__shm_sum s = {.sum = sum_of_all(w),
                               .arrays = w->arrays,
                               .mine = w->blocks[0],
                               .out = w->sum,
                               .count = w->count};
    if (!is_small(w))
        return sheaf__shm_reduce(w->c, &w->args[0]->what, &s, wait, err);
    SHEAF__TRY(sheaf__shm_meet(w->c, &w->args[0]->what, &part, w->count > 0, wait, err));
    for (int m = 0; m < w->c->team->size; m++)
        w->arrays[m] = m == w->rank ? w->blocks[0] : sheaf__shm_data(w->c, m);
    sheaf__sum_range(&s.sum, w->sum, 0, w->count);
    return SHEAF_OK;
}

/* Memory for own blocks, the others' blocks and, where the result cannot be made in place, the sums. */
static sheaf_status take_memory(struct work *w, uint8_t **room, sheaf_error *err)
{
    struct sheaf__core *core = w->c->core;
    size_t own = 0, slots = 0, sums = 0;
    size_t pieces = w->part / w->piece + 1;
    for (int k = 0; k < w->own; k++)
        own += block_is_plain(w, k) ? 0 : round_up(w->count * w->wire_size);
    bool whole =
        is_small(w) || is_shared(w); /* all sums are made here, not only those of our part */
    if (!whole)
        slots = (size_t)(w->layout->count - w->own) * round_up(w->part * w->wire_size);
    if (w->scatter)
        sums = round_up((whole ? w->count : w->part) * w->size);
    uint8_t *memory = sheaf__core_scratch(core, own + slots + sums + 1);
    if (!memory ||
        !sheaf__array_reserve((void **)&core->arrays, &core->array_capacity,
                              (size_t)w->layout->count, sizeof(void *)) ||
        !sheaf__array_reserve((void **)&core->piece_counts, &core->piece_capacity, pieces,
                              sizeof(uint32_t)))
        return sheaf__no_memory(err, "a sum");
    w->arrays = core->arrays;
    memset(core->piece_counts, 0, pieces * sizeof(uint32_t));
    *room = memory;
    w->slots = memory + own;
    if (w->scatter)
        w->sum = memory + own + slots;
    else
        w->sum = (uint8_t *)w->args[0]->out + (whole ? 0 : w->first * w->size);
    return SHEAF_OK;
}

static sheaf_status reduce_over_members(struct work *w, const struct sheaf__wait *wait,
                                        sheaf_error *err)
{
    uint8_t *room = NULL;
    struct sheaf__exchange x = {
        .core = w->c->core, .what = w->args[0]->what, .wait = wait, .user = w};
    w->first = part_first(w, w->rank);
    w->part = part_first(w, w->rank + 1) - w->first;
    w->piece = PIECE_BYTES / w->wire_size;
    sheaf_status status = take_memory(w, &room, err);
    if (status == SHEAF_OK)
        status = make_blocks(w, room, err);
    if (status == SHEAF_OK && is_shared(w))
        status = reduce_shared(w, wait, err);
    else if (status == SHEAF_OK && w->c->team->shm)
        status = sheaf__shm_meet(w->c, &w->args[0]->what, NULL, 0, wait, err);
    if (status == SHEAF_OK && !is_shared(w))
        status = is_small(w) ? reduce_small(w, &x, err) : reduce_large(w, &x, err);
    SHEAF__TRY(status);
    if (w->scatter) {
        deal(w, w->sum, is_small(w) || is_shared(w) ? 0 : w->first);
    } else if (w->c->local > 1) {
        w->loop_out = w->args[0]->out;
        loop(w, copy_stripe);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__coll_reduce(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                const struct sheaf__wait *wait, sheaf_error *err)
{
    const struct sheaf__coll_what *what = &args[0]->what;
    struct work w = {
        .c = c,
        .args = args,
        .layout = c->layout,
        .rank = c->team->rank,
        .count = what->count,
        .dtype = (sheaf_dtype)what->dtype,
        .scatter = what->kind == SHEAF__COLL_REDUCE_SCATTER,
    };
    bool by_replica = c->layout == &c->team->by_replica;
    w.wire = by_replica && c->team->wide ? sheaf__sum_wide(w.dtype) : w.dtype;
    w.size = sheaf_dtype_size(w.dtype);
    w.wire_size = sheaf_dtype_size(w.wire);
    w.own = w.layout->first[w.rank + 1] - w.layout->first[w.rank];
    if (c->team->size == 1)
        return reduce_alone(&w, err);
    return reduce_over_members(&w, wait, err);
}
