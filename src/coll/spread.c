/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that move bytes as they are: broadcast, gathers, barrier. */
#include "base/error.h"
#include "base/mem.h"
#include "coll/core.h"

#include <string.h>

/* All that a member has to send is one message. */
static const struct sheaf__coll_place whole = {0};

static void copy(void *to, const void *from, size_t size)
{
    if (to != from && size > 0)
        memcpy(to, from, size);
}

/* The member that runs replica `replica`. */
static int member_of(const struct sheaf__layout *l, int replica)
{
    int m = 0;
    while (replica >= l->replica[m + 1])
        m++;
    return m;
}

/* ---- barrier ---- */

sheaf_status sheaf__coll_barrier(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                 const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__exchange x = {.core = c->core, .what = args[0]->what, .wait = wait};
    if (c->team->size == 1)
        return SHEAF_OK;
    if (c->team->shm)
        return sheaf__shm_meet(c, &args[0]->what, NULL, 0, wait, err);
    sheaf_status status = sheaf__exchange_begin(&x, NULL, 0, err);
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(&x, sheaf__exchange_all_called, err);
    return sheaf__exchange_end(&x, status, err);
}

/* ---- broadcast ---- */

struct broadcast {
    int member; /* that has the bytes */
    uint8_t *data;
    size_t bytes;
};

static void *place_broadcast(struct sheaf__exchange *x, int rank,
                             const struct sheaf__coll_head *head, size_t size)
{
    const struct broadcast *b = x->user;
    (void)head;
    return rank == b->member && size == b->bytes ? b->data : NULL;
}

static void count_bytes(struct sheaf__exchange *x, int rank, const struct sheaf__coll_head *head,
                        size_t size)
{
    (void)rank;
    (void)head;
    x->received += size;
}

static bool broadcast_is_there(struct sheaf__exchange *x)
{
    return x->received == ((const struct broadcast *)x->user)->bytes;
}

/* The bytes of the member that has them to the leader of every other. */
static sheaf_status broadcast_over_members(struct sheaf__exchange *x, struct broadcast *b,
                                           sheaf_error *err)
{
    struct sheaf__team *team = x->core->team;
    bool root = b->member == team->rank, small = b->bytes <= SHEAF__COLL_SMALL;
    const struct sheaf__part part = {b->data, b->bytes};
    sheaf_status status = sheaf__exchange_begin(x, &part, root && small, err);
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(x, sheaf__exchange_all_called, err);
    for (int m = 0; root && !small && m < team->size && status == SHEAF_OK; m++)
        if (m != team->rank)
            status = sheaf__exchange_send(x, m, whole, b->data, b->bytes, err);
    if (status == SHEAF_OK && !root && !small)
        status = sheaf__exchange_wait(x, broadcast_is_there, err);
    if (status == SHEAF_OK && !root && small) {
        if (sheaf__exchange_inline_size(x, b->member) == b->bytes)
            copy(b->data, sheaf__exchange_inline(x, b->member), b->bytes);
        else
            status = sheaf__error(err, SHEAF_ERR_INTERNAL, "a broadcast without its bytes");
    }
    return sheaf__exchange_end(x, status, err);
}

/* Through shared memory: small ones whole, of others that they are called. */
static sheaf_status broadcast_shared(struct sheaf__channel *c, struct sheaf__exchange *x,
                                     struct broadcast *b, sheaf_error *err)
{
    bool root = b->member == c->team->rank, small = b->bytes <= SHEAF__COLL_SMALL;
    const struct sheaf__part part = {b->data, b->bytes};
    SHEAF__TRY(sheaf__shm_meet(c, &x->what, &part, root && small && b->bytes > 0, x->wait, err));
    if (!small)
        return broadcast_over_members(x, b, err);
    if (!root)
        copy(b->data, sheaf__shm_data(c, b->member), b->bytes);
    return SHEAF_OK;
}

sheaf_status sheaf__coll_broadcast(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                   const struct sheaf__wait *wait, sheaf_error *err)
{
    const struct sheaf__coll_what *what = &args[0]->what;
    struct broadcast b = {.member = member_of(c->layout, what->root), .bytes = what->count};
    struct sheaf__exchange x = {
        .core = c->core,
        .what = *what,
        .wait = wait,
        .place = place_broadcast,
        .came = count_bytes,
        .user = &b,
    };
    int local = b.member == c->team->rank ? what->root - c->layout->replica[b.member] : 0;
    b.data = args[local]->out;
    if (c->team->shm)
        SHEAF__TRY(broadcast_shared(c, &x, &b, err));
    else if (c->team->size > 1)
        SHEAF__TRY(broadcast_over_members(&x, &b, err));
    for (int r = 0; r < c->local; r++)
        copy(args[r]->out, b.data, b.bytes);
    return SHEAF_OK;
}

/* ---- gathers ---- */

struct gather {
    const struct sheaf__layout *layout;
    const size_t *sizes; /* of every replica */
    uint8_t *all;
    size_t own;   /* bytes of this member, from own_first on */
    size_t total; /* bytes of all */
};

static size_t bytes_before(const struct gather *g, int replica)
{
    size_t bytes = 0;
    for (int r = 0; r < replica; r++)
        bytes += g->sizes[r];
    return bytes;
}

static void *place_gather(struct sheaf__exchange *x, int rank, const struct sheaf__coll_head *head,
                          size_t size)
{
    const struct gather *g = x->user;
    size_t first = bytes_before(g, g->layout->replica[rank]);
    size_t end = bytes_before(g, g->layout->replica[rank + 1]);
    (void)head;
    return size == end - first ? g->all + first : NULL;
}

static bool gather_is_there(struct sheaf__exchange *x)
{
    const struct gather *g = x->user;
    return x->received == g->total - g->own;
}

/* Whether every member's bytes are few; all compute the same. */
static bool gather_is_small(const struct gather *g, int members)
{
    for (int m = 0; m < members; m++)
        if (bytes_before(g, g->layout->replica[m + 1]) - bytes_before(g, g->layout->replica[m]) >
            sheaf__coll_small(members))
            return false;
    return true;
}

static sheaf_status take_small(struct sheaf__exchange *x, const struct gather *g, sheaf_error *err)
{
    const struct sheaf__team *team = x->core->team;
    for (int m = 0; m < team->size; m++) {
        size_t first = bytes_before(g, g->layout->replica[m]);
        size_t size = bytes_before(g, g->layout->replica[m + 1]) - first;
        if (m == team->rank)
            continue;
        if (sheaf__exchange_inline_size(x, m) != size)
            return sheaf__error(err, SHEAF_ERR_INTERNAL, "a gather of %zu bytes, not %zu",
                                sheaf__exchange_inline_size(x, m), size);
        copy(g->all + first, sheaf__exchange_inline(x, m), size);
    }
    return SHEAF_OK;
}

static sheaf_status send_large(struct sheaf__exchange *x, const struct gather *g, size_t first,
                               sheaf_error *err)
{
    const struct sheaf__team *team = x->core->team;
    for (int i = 1; i < team->size && g->own > 0; i++)
        SHEAF__TRY(sheaf__exchange_send(x, (team->rank + i) % team->size, whole, g->all + first,
                                        g->own, err));
    return sheaf__exchange_wait(x, gather_is_there, err);
}

static sheaf_status gather_by_messages(struct sheaf__exchange *x, struct gather *g, bool small,
                                       sheaf_error *err)
{
    size_t first = bytes_before(g, g->layout->replica[x->core->team->rank]);
    const struct sheaf__part part = {g->all + first, g->own};
    x->place = place_gather;
    x->came = count_bytes;
    x->user = g;
    sheaf_status status = sheaf__exchange_begin(x, &part, small && g->own > 0, err);
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(x, sheaf__exchange_all_called, err);
    if (status == SHEAF_OK)
        status = small ? take_small(x, g, err) : send_large(x, g, first, err);
    return sheaf__exchange_end(x, status, err);
}

/* Through shared memory: small ones whole, of others that they are called. */
static sheaf_status gather_shared(struct sheaf__channel *c, struct sheaf__exchange *x,
                                  struct gather *g, bool small, sheaf_error *err)
{
    const struct sheaf__layout *l = g->layout;
    const struct sheaf__part part = {g->all + bytes_before(g, l->replica[c->team->rank]), g->own};
    SHEAF__TRY(sheaf__shm_meet(c, &x->what, &part, small && g->own > 0, x->wait, err));
    if (!small)
        return gather_by_messages(x, g, false, err);
    for (int m = 0; m < c->team->size; m++) {
        size_t first = bytes_before(g, l->replica[m]);
        if (m != c->team->rank)
            copy(g->all + first, sheaf__shm_data(c, m), bytes_before(g, l->replica[m + 1]) - first);
    }
    return SHEAF_OK;
}

/* This member's bytes are in their place in `all`; the others' come to theirs. */
static sheaf_status gather_over_members(struct sheaf__channel *c, struct sheaf__exchange *x,
                                        struct gather *g, sheaf_error *err)
{
    const struct sheaf__layout *l = g->layout;
    int rank = c->team->rank;
    g->total = bytes_before(g, l->total);
    g->own = bytes_before(g, l->replica[rank + 1]) - bytes_before(g, l->replica[rank]);
    bool small = gather_is_small(g, c->team->size);
    return c->team->shm ? gather_shared(c, x, g, small, err) : gather_by_messages(x, g, small, err);
}

/* Puts the local replicas' bytes into their places. */
static void put_own(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                    const struct gather *g)
{
    int base = c->layout->replica[c->team->rank];
    for (int r = 0; r < c->local; r++)
        copy(g->all + bytes_before(g, base + r), args[r]->in, g->sizes[base + r]);
}

sheaf_status sheaf__coll_all_gather(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                    const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__exchange x = {.core = c->core, .what = args[0]->what, .wait = wait};
    struct gather g = {.layout = c->layout, .sizes = args[0]->sizes, .all = args[0]->out};
    put_own(c, args, &g);
    if (c->team->size > 1)
        SHEAF__TRY(gather_over_members(c, &x, &g, err));
    for (int r = 1; r < c->local; r++)
        copy(args[r]->out, g.all, args[0]->what.count);
    return SHEAF_OK;
}

/* ---- gather of sizes that nobody knows before ---- */

/* Fills sizes of all replicas: those of others come with their calls. */
static sheaf_status gather_sizes(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                 size_t *sizes, const struct sheaf__wait *wait, sheaf_error *err)
{
    const struct sheaf__layout *l = c->layout;
    int base = l->replica[c->team->rank];
    size_t *each = sheaf__alloc_array((size_t)l->total, sizeof(*each));
    if (!each)
        return sheaf__no_memory(err, "a gather");
    for (int r = 0; r < l->total; r++)
        each[r] = sizeof(size_t);
    for (int r = 0; r < c->local; r++)
        sizes[base + r] = args[r]->what.own;
    struct sheaf__exchange x = {.core = c->core, .what = args[0]->what, .wait = wait};
    struct gather g = {.layout = l, .sizes = each, .all = (uint8_t *)sizes};
    x.what.own = 0;
    sheaf_status status = c->team->size > 1 ? gather_over_members(c, &x, &g, err) : SHEAF_OK;
    sheaf__free(each);
    return status;
}

static bool add_up(const size_t *sizes, int count, size_t *total)
{
    *total = 0;
    for (int i = 0; i < count; i++)
        if (sheaf__add_overflows(*total, sizes[i], total))
            return false;
    return true;
}

static sheaf_status gather_known(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                 struct gather *g, const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__exchange x = {.core = c->core, .what = args[0]->what, .wait = wait};
    x.what.kind = SHEAF__COLL_ALL_GATHER;
    x.what.count = g->total;
    x.what.own = 0;
    put_own(c, args, g);
    if (c->team->size > 1)
        SHEAF__TRY(gather_over_members(c, &x, g, err));
    for (int r = 0; r < c->local; r++) {
        void *own = r == 0 ? g->all : sheaf__memdup(g->all, g->total);
        if (!own)
            return sheaf__no_memory(err, "a gather");
        *args[r]->all_out = own;
        copy(args[r]->sizes_out, g->sizes, (size_t)c->layout->total * sizeof(*g->sizes));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__coll_gather_bytes(struct sheaf__channel *c,
                                      struct sheaf__coll_args *const *args,
                                      const struct sheaf__wait *wait, sheaf_error *err)
{
    struct gather g = {.layout = c->layout, .sizes = args[0]->sizes_out};
    SHEAF__TRY(gather_sizes(c, args, args[0]->sizes_out, wait, err));
    if (!add_up(g.sizes, c->layout->total, &g.total))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a gather of too many bytes");
    g.all = sheaf__alloc(g.total);
    sheaf_status status =
        g.all ? gather_known(c, args, &g, wait, err) : sheaf__no_memory(err, "a gather");
    if (status == SHEAF_OK)
        return SHEAF_OK;
    for (int r = 0; r < c->local; r++) {
        if (*args[r]->all_out != g.all)
            sheaf__free(*args[r]->all_out);
        *args[r]->all_out = NULL;
    }
    sheaf__free(g.all);
    return status;
}
