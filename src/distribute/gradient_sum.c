/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/gradient_sum.h"

#include "base/error.h"
#include "base/mem.h"
#include "distribute/bind.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "tensor/frame.h"

#include <string.h>

static sheaf_variable *variable(const struct sheaf__gradient_sum *u, size_t i)
{
    return sheaf__bound_variable(u->optimizer, i);
}

/* What this replica has of variable `i`; NULL: nothing. */
static sheaf_tensor *value(const struct sheaf__gradient_sum *u, size_t i)
{
    return u->places[i] ? u->list[u->places[i] - 1].value : NULL;
}

static bool is_kind(const struct sheaf__gradient_sum *u, size_t i, enum sheaf__gradient_kind kind)
{
    return u->plan->kinds[i] == kind;
}

/* The same, if it is of the kind that is planned. */
static sheaf_tensor *planned_value(const struct sheaf__gradient_sum *u, size_t i)
{
    return u->uses[i].kind == u->plan->kinds[i] ? value(u, i) : NULL;
}

/* ---- the list and the optimizer's variables ---- */

static void *zeroed(size_t size)
{
    void *memory = sheaf__frame_alloc(size + 1);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

static sheaf_status map(struct sheaf__gradient_sum *u, sheaf_error *err)
{
    const size_t count = sheaf__bound_count(u->optimizer);
    u->places = zeroed(count * sizeof(*u->places));
    u->uses = zeroed(count * sizeof(*u->uses));
    u->jobs = zeroed(count * sizeof(*u->jobs));
    u->sums = zeroed(count * sizeof(sheaf_tensor *));
    u->used = zeroed(count * sizeof(*u->used));
    if (!u->places || !u->uses || !u->jobs || !u->sums || !u->used)
        return sheaf__no_memory(err, "the gradients");
    for (size_t i = 0, number = 0; i < u->listed; i++, number++) {
        SHEAF__TRY(sheaf__bound_number(u->optimizer, u->list[i].variable, &number, err));
        if (u->places[number])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "variable '%s' is given twice, expected one gradient of each",
                                u->list[i].variable->name);
        u->places[number] = (uint32_t)i + 1;
    }
    u->plan = sheaf__gradient_plan_of(u->optimizer, u->replica);
    return u->plan ? SHEAF_OK : sheaf__no_memory(err, "the gradients");
}

static bool is_final(const struct sheaf__gradient_sum *u, size_t i)
{
    return !u->places[i] || u->turns[u->places[i] - 1];
}

/* Notes what the replica has of variable `i`, which is final. */
static void note(struct sheaf__gradient_sum *u, size_t i)
{
    const sheaf_tensor *t = value(u, i);
    if (!t)
        return;
    u->uses[i].kind = t->layout == SHEAF__ROWS ? SHEAF__GRADIENT_ROWS : SHEAF__GRADIENT_DENSE;
    u->uses[i].turn = u->turns[u->places[i] - 1];
}

/* ---- large ones, by themselves ---- */

static sheaf_status start(struct sheaf__gradient_sum *u, size_t i, sheaf_error *err)
{
    sheaf_variable *v = variable(u, i);
    sheaf_strategy *s = sheaf_replica_strategy(u->replica);
    note(u, i);
    sheaf_tensor *t = planned_value(u, i);
    if (!t)
        t = sheaf_zeros(v->dtype, v->shape);
    SHEAF__TRY(sheaf_tensor_status(t, err));
    sheaf_tensor *sum = sheaf__frame_own(sheaf__tensor_new(t->dtype, t->shape, NULL, err));
    const void *in = sum ? sheaf__tensor_host(t, err) : NULL;
    if (!in)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    u->sums[i] = sum;
    u->jobs[i].reduction = (struct sheaf__reduction){.op = SHEAF_REDUCE_SUM,
                                                     .dtype = t->dtype,
                                                     .count = (size_t)sheaf_tensor_elements(t),
                                                     .in = in,
                                                     .out = sheaf__tensor_out(sum),
                                                     .name = v->name};
    return sheaf__reduce_start(s->sync->gradients, u->replica->local, &u->jobs[i], err);
}

/* Those whose turn it is: all replicas start them in the same order. */
static sheaf_status start_early(struct sheaf__gradient_sum *u, sheaf_error *err)
{
    const struct sheaf__gradient_plan *plan = u->plan;
    for (; u->started < plan->early_count && is_final(u, plan->early[u->started]); u->started++)
        SHEAF__TRY(start(u, plan->early[u->started], err));
    return SHEAF_OK;
}

sheaf_status sheaf__gradient_sum_begin(const struct sheaf__gradients *g, void *user,
                                       sheaf_error *err)
{
    struct sheaf__gradient_sum *u = user;
    u->list = g->all;
    u->listed = g->count;
    u->turns = zeroed(g->count * sizeof(*u->turns));
    if (!u->turns)
        return sheaf__no_memory(err, "the gradients");
    if (!sheaf__is_bound(u->optimizer))
        return SHEAF_OK;
    SHEAF__TRY(map(u, err));
    return start_early(u, err);
}

sheaf_status sheaf__gradient_sum_ready(const struct sheaf__gradients *g, size_t i, void *user,
                                       sheaf_error *err)
{
    struct sheaf__gradient_sum *u = user;
    (void)g;
    u->turns[i] = ++u->turn;
    return u->plan ? start_early(u, err) : SHEAF_OK;
}

/* ---- small ones, together ---- */

/* Side by side in one reduction: the dense ones of a dtype that are not summed yet. With float32 goes
 * what all must know of each other: whether a replica has what is not planned, and who uses what. */
struct bucket {
    struct sheaf__gradient_sum *u;
    sheaf_dtype dtype;
    bool tells;
    sheaf_tensor *all;
};

static bool belongs(const struct bucket *b, size_t i)
{
    const struct sheaf__gradient_sum *u = b->u;
    return is_kind(u, i, SHEAF__GRADIENT_DENSE) && !u->sums[i] && variable(u, i)->dtype == b->dtype;
}

static int64_t bucket_elements(const struct bucket *b)
{
    int64_t elements = b->tells ? (int64_t)b->u->plan->count + 1 : 0;
    for (size_t i = 0; i < b->u->plan->count; i++)
        if (belongs(b, i))
            elements += sheaf_shape_elements(variable(b->u, i)->shape);
    return elements;
}

/* Fills the bucket, whose parts become the sums; gives how many elements they have. */
static sheaf_status fill_bucket(const struct bucket *b, int64_t *end, sheaf_error *err)
{
    struct sheaf__gradient_sum *u = b->u;
    const size_t size = sheaf_dtype_size(b->dtype);
    char *data = sheaf__tensor_out(b->all);
    *end = 0;
    for (size_t i = 0; i < u->plan->count; i++) {
        if (!belongs(b, i))
            continue;
        sheaf_tensor *t = planned_value(u, i);
        const sheaf_shape shape = variable(u, i)->shape;
        const int64_t elements = sheaf_shape_elements(shape);
        if (t)
            SHEAF__TRY(sheaf__tensor_copy_out(t, data + (size_t)*end * size, err));
        else
            memset(data + (size_t)*end * size, 0, (size_t)elements * size);
        u->sums[i] = sheaf__frame_own(sheaf__tensor_view(b->all, shape, NULL, *end, err));
        if (!u->sums[i])
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        *end += elements;
    }
    return SHEAF_OK;
}

static void tell(const struct sheaf__gradient_sum *u, float *told)
{
    told[0] = 0;
    for (size_t i = 0; i < u->plan->count; i++) {
        told[i + 1] = u->places[i] ? 1 : 0;
        if (u->uses[i].kind != SHEAF__GRADIENT_NONE && u->uses[i].kind != u->plan->kinds[i])
            told[0] = 1;
    }
}

static sheaf_status sum_bucket(struct bucket *b, bool *astray, sheaf_error *err)
{
    struct sheaf__gradient_sum *u = b->u;
    sheaf_strategy *s = sheaf_replica_strategy(u->replica);
    const int64_t elements = bucket_elements(b);
    int64_t end;
    if (elements == 0)
        return SHEAF_OK;
    b->all = sheaf__frame_own(sheaf__tensor_new(b->dtype, SHEAF_SHAPE(elements), NULL, err));
    if (!b->all)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    SHEAF__TRY(fill_bucket(b, &end, err));
    float *told = b->tells ? (float *)sheaf__tensor_out(b->all) + end : NULL;
    if (told)
        tell(u, told);
    const struct sheaf__reduction sum = {.op = SHEAF_REDUCE_SUM,
                                         .dtype = b->dtype,
                                         .count = (size_t)elements,
                                         .in = sheaf__tensor_out(b->all),
                                         .out = sheaf__tensor_out(b->all),
                                         .name = u->plan->name};
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the sum of the gradients");
    SHEAF__TRY(sheaf__channel_all_reduce(s->sync->values, u->replica->local, &sum, &wait, err));
    for (size_t i = 0; told && i < u->plan->count; i++)
        u->used[i] = told[i + 1] > 0;
    if (told)
        *astray = told[0] > 0;
    return SHEAF_OK;
}

static sheaf_status sum_buckets(struct sheaf__gradient_sum *u, bool tells, bool *astray,
                                sheaf_error *err)
{
    static const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16};
    for (size_t k = 0; k < sizeof(dtypes) / sizeof(*dtypes); k++) {
        struct bucket b = {.u = u, .dtype = dtypes[k], .tells = tells && k == 0};
        SHEAF__TRY(sum_bucket(&b, astray, err));
    }
    return SHEAF_OK;
}

/* A replica has what was not planned: all plan anew, and what is of another kind now is summed again. */
static sheaf_status plan_again(struct sheaf__gradient_sum *u, sheaf_error *err)
{
    const size_t count = u->plan->count;
    uint8_t *before = sheaf__frame_alloc(count + 1);
    bool astray;
    if (!before)
        return sheaf__no_memory(err, "the gradients");
    memcpy(before, u->plan->kinds, count);
    SHEAF__TRY(sheaf__gradient_plan_agree(u->plan, u->replica, u->optimizer, u->uses, err));
    for (size_t i = 0; i < count; i++)
        if (u->plan->kinds[i] != before[i])
            u->sums[i] = NULL;
    return sum_buckets(u, false, &astray, err);
}

/* ---- rows ---- */

/* One part of a gradient of rows from every replica, one after the other (R4.53). */
static sheaf_tensor *gather_part(struct sheaf__gradient_sum *u, sheaf_tensor *part,
                                 sheaf_error *err)
{
    sheaf_strategy *s = sheaf_replica_strategy(u->replica);
    size_t *sizes = sheaf__frame_alloc((size_t)s->total * sizeof(*sizes));
    const void *bytes = sizes ? sheaf__tensor_host(part, err) : NULL;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the rows of a gradient");
    void *data = NULL;
    if (!bytes ||
        sheaf__channel_gather_bytes(s->sync->values, u->replica->local,
                                    (struct sheaf__bytes){bytes, sheaf__tensor_size(part)}, sizes,
                                    &data, &wait, err) < 0)
        return NULL;
    size_t total = 0, row = sheaf_dtype_size(part->dtype);
    for (int i = 0; i < s->total; i++)
        total += sizes[i];
    for (int k = 1; k < part->shape.rank; k++)
        row *= (size_t)part->shape.dims[k];
    sheaf_shape shape = part->shape;
    shape.dims[0] = row ? (int64_t)(total / row) : 0;
    sheaf_tensor *all = sheaf_tensor_new(part->dtype, shape, data);
    sheaf__free(data);
    return sheaf_tensor_status(all, err) < 0 ? NULL : all;
}

/* Ids and values of this replica; none where it did not look up. */
static void own_rows(const struct sheaf__gradient_sum *u, size_t i, sheaf_tensor **ids,
                     sheaf_tensor **values)
{
    const sheaf_tensor *t = value(u, i);
    const sheaf_variable *v = variable(u, i);
    sheaf_shape none = v->shape;
    none.dims[0] = 0;
    *ids = t ? sheaf_cast(t->parts[SHEAF__INDICES], SHEAF_INT64)
             : sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(0));
    *values = t ? t->parts[SHEAF__VALUES] : sheaf_zeros(v->dtype, none);
}

static sheaf_status gather_rows(struct sheaf__gradient_sum *u, size_t i, sheaf_error *err)
{
    sheaf_tensor *ids, *values;
    own_rows(u, i, &ids, &values);
    ids = gather_part(u, ids, err);
    values = ids ? gather_part(u, values, err) : NULL;
    if (!values)
        return err->status;
    u->sums[i] = sheaf__frame_own(sheaf__tensor_rows(ids, values, variable(u, i)->shape, err));
    return u->sums[i] ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
}

/* ---- the end ---- */

static sheaf_status finish_jobs(struct sheaf__gradient_sum *u, sheaf_error *err)
{
    sheaf_strategy *s = sheaf_replica_strategy(u->replica);
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the sum of the gradients");
    for (size_t i = 0; i < u->plan->count; i++)
        if (u->jobs[i].reduction.in)
            SHEAF__TRY(sheaf__reduce_finish(s->sync->gradients, &u->jobs[i], &wait, err));
    return SHEAF_OK;
}

static sheaf_status give_sums(const struct sheaf__gradient_sum *u, struct sheaf__gradients *sums,
                              sheaf_error *err)
{
    sums->count = 0;
    sums->all = zeroed(u->plan->count * sizeof(*sums->all));
    if (!sums->all)
        return sheaf__no_memory(err, "the gradients");
    for (size_t i = 0; i < u->plan->count; i++) {
        sheaf_variable *v = variable(u, i);
        if (!u->used[i])
            continue;
        /* read by some replica, but nobody's loss depends on it */
        sheaf_tensor *sum = u->sums[i] ? u->sums[i] : sheaf_zeros(v->dtype, v->shape);
        SHEAF__TRY(sheaf_tensor_status(sum, err));
        sums->all[sums->count++] =
            (struct sheaf__gradient){.variable = v, .value = sum, .unused = !u->sums[i]};
    }
    return SHEAF_OK;
}

sheaf_status sheaf__gradient_sum_finish(struct sheaf__gradient_sum *u,
                                        struct sheaf__gradients *sums, sheaf_error *err)
{
    bool astray = false;
    if (!u->plan)
        SHEAF__TRY(map(u, err));
    for (size_t i = 0; i < u->plan->count; i++)
        note(u, i);
    SHEAF__TRY(start_early(u, err));
    SHEAF__TRY(
        sheaf__replica_come(u->replica, "the sum of the gradients of", u->optimizer->name, err));
    SHEAF__TRY(sum_buckets(u, true, &astray, err));
    if (astray)
        SHEAF__TRY(plan_again(u, err));
    for (size_t i = 0; i < u->plan->count; i++)
        if (u->used[i] && is_kind(u, i, SHEAF__GRADIENT_ROWS))
            SHEAF__TRY(gather_rows(u, i, err));
    SHEAF__TRY(finish_jobs(u, err));
    return give_sums(u, sums, err);
}

void sheaf__gradient_sum_abandon(struct sheaf__gradient_sum *u)
{
    sheaf_strategy *s = sheaf_replica_strategy(u->replica);
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the gradients of a failed step");
    for (size_t i = 0; u->plan && i < u->plan->count; i++)
        if (u->jobs[i].reduction.in)
            sheaf__reduce_finish(s->sync->gradients, &u->jobs[i], &wait, NULL);
}
