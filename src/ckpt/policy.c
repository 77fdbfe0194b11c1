/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/plan.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/tensor.h"

#include <string.h>

/* Sharding policies ready to use. Sizes are those that TensorFlow's policy counts: the bytes of the
 * elements, nothing for lengths of strings and for the object graph (R8.8, R8.9). */

static int64_t limit_of(const void *user)
{
    return (int64_t)(intptr_t)user;
}

static sheaf_sharding_callback with_limit(sheaf_status (*assign)(sheaf_shardable *const *, size_t,
                                                                 sheaf_shard_plan *, void *),
                                          const char *description, int64_t limit)
{
    _Static_assert(sizeof(intptr_t) >= sizeof(limit), "a pointer has room for the parameter");
    return (sheaf_sharding_callback){assign, description, (void *)(intptr_t)limit};
}

/* ---- one shard a task ---- */

static sheaf_status assign_to_one(sheaf_shardable *const *tensors, size_t count,
                                  sheaf_shard_plan *plan, void *user)
{
    (void)user;
    for (size_t i = 0; i < count; i++)
        sheaf_shard_put(plan, 0, tensors[i]);
    return SHEAF_OK;
}

const sheaf_sharding_callback *sheaf_shard_by_task(void)
{
    static const sheaf_sharding_callback by_task = {
        assign_to_one, "Split tensors into shards based on their device spec task.", NULL};
    return &by_task;
}

const sheaf_sharding_callback *sheaf_shard_all_in_one(void)
{
    static const sheaf_sharding_callback all_in_one = {
        assign_to_one, "Place all tensors in a single shard.", NULL};
    return &all_in_one;
}

/* ---- sizes ---- */

struct size {
    int64_t bytes;
    int64_t width; /* of an element; of strings that of the longest */
};

static sheaf_status measure_strings(sheaf_shardable *t, struct size *size, sheaf_error *err)
{
    const sheaf_tensor *value = sheaf_shardable_tensor(t);
    SHEAF__TRY(sheaf_tensor_status(value, err));
    for (int64_t i = 0; i < sheaf_tensor_elements(value); i++) {
        const int64_t bytes = (int64_t)sheaf_tensor_bytes(value, i).size;
        size->bytes += bytes;
        size->width = bytes > size->width ? bytes : size->width;
    }
    return SHEAF_OK;
}

static sheaf_status measure(sheaf_shardable *t, struct size *size, sheaf_error *err)
{
    const sheaf_dtype dtype = sheaf_shardable_dtype(t);
    *size = (struct size){0};
    if (!strcmp(sheaf_shardable_key(t), SHEAF__OBJECT_GRAPH_KEY))
        return SHEAF_OK;
    if (dtype == SHEAF_STRING)
        return measure_strings(t, size, err);
    size->width = (int64_t)sheaf_dtype_size(dtype);
    size->bytes = sheaf_shape_elements(sheaf_shardable_shape(t)) * size->width;
    return SHEAF_OK;
}

/* The sizes of all tensors in new memory. */
static sheaf_status measure_all(sheaf_shardable *const *tensors, size_t count, struct size **sizes,
                                sheaf_error *err)
{
    struct size *list = sheaf__alloc_array(count + 1, sizeof(*list));
    if (!list)
        return sheaf__no_memory(err, "the plan of a save");
    for (size_t i = 0; i < count; i++) {
        const sheaf_status status = measure(tensors[i], &list[i], err);
        if (status < 0) {
            sheaf__free(list);
            return status;
        }
    }
    *sizes = list;
    return SHEAF_OK;
}

/* ---- round robin by bytes ---- */

static sheaf_status assign_round_robin(sheaf_shardable *const *tensors, size_t count,
                                       sheaf_shard_plan *plan, void *user)
{
    const int64_t wanted = limit_of(user);
    struct size *sizes = NULL;
    if (wanted < 1)
        return sheaf__error(&plan->error, SHEAF_ERR_INVALID_ARGUMENT,
                            "the number of shards is %lld, expected 1 or more", (long long)wanted);
    const size_t shards = (uint64_t)wanted < count ? (size_t)wanted : count;
    int64_t *filled = sheaf__calloc(shards + 1, sizeof(*filled));
    sheaf_status status = filled ? measure_all(tensors, count, &sizes, &plan->error)
                                 : sheaf__no_memory(&plan->error, "the plan of a save");
    for (size_t i = 0, next = 0; status >= 0 && i < count; i++) {
        size_t least = next;
        for (size_t k = 0; k < shards; k++) {
            const size_t at = (next + k) % shards;
            least = filled[at] < filled[least] ? at : least;
        }
        sheaf_shard_put(plan, (int)least, tensors[i]);
        filled[least] += sizes[i].bytes;
        next = (least + 1) % shards;
    }
    sheaf__free(sizes);
    sheaf__free(filled);
    return status;
}

sheaf_sharding_callback sheaf_shard_round_robin(int shards)
{
    return with_limit(assign_round_robin, "Place tensors round robin, where the fewest bytes are.",
                      shards);
}

/* ---- shards of a largest size ---- */

/* The shard that is being filled. */
struct filling {
    sheaf_shard_plan *plan;
    int64_t most; /* bytes of a shard */
    int64_t left; /* of this one */
    int shard;
    size_t count; /* of what is in it */
    const sheaf_shardable *warned;
};

static void next_shard(struct filling *f)
{
    f->shard++;
    f->left = f->most;
    f->count = 0;
}

static void put(struct filling *f, const sheaf_shardable *t, const struct sheaf__slice *part,
                int64_t bytes)
{
    sheaf__shard_put_part(f->plan, f->shard, t, part);
    f->left -= bytes;
    f->count++;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* How much to cut off, along which axis. */
struct cut {
    int axis;
    int64_t length; /* 0: no index of any axis fits */
};

/* The axis of the fewest parts, each of which fits into `left` bytes; axis 0 where it is no worse
 * (R8.10). */
static struct cut choose_cut(sheaf_shape rest, int64_t bytes, int64_t width, int64_t left)
{
    const int64_t elements = sheaf_shape_elements(rest);
    struct cut cut = {0, 0};
    int64_t fewest = INT64_MAX;
    for (int axis = 0; axis < rest.rank; axis++) {
        const int64_t length = rest.dims[axis], fit = left / (elements / length * width);
        const int64_t parts = fit ? divide_up(length, fit) : INT64_MAX;
        if (parts < fewest && (axis == 0 || divide_up(bytes, parts) <= left)) {
            fewest = parts;
            cut = (struct cut){axis, divide_up(length, parts)};
        }
    }
    return cut;
}

/* One index of the longest axis. */
static struct cut smallest_cut(sheaf_shape rest)
{
    struct cut cut = {0, 1};
    for (int axis = 1; axis < rest.rank; axis++)
        cut.axis = rest.dims[axis] > rest.dims[cut.axis] ? axis : cut.axis;
    return cut;
}

/* Puts what is too large for any shard into one of its own: `what` is "an element". */
static void put_alone(struct filling *f, const sheaf_shardable *t, const struct sheaf__slice *part,
                      int64_t bytes, const char *what)
{
    if (f->warned != t)
        sheaf__log(SHEAF_LOG_WARN,
                   "tensor '%s': %s of %lld bytes cannot be partitioned into a shard of max "
                   "shard size %lld bytes; an individual shard exceeds the max shard size",
                   sheaf_shardable_key(t), what, (long long)bytes, (long long)f->most);
    f->warned = t;
    if (f->count)
        next_shard(f);
    put(f, t, part, bytes);
    next_shard(f);
}

/* Cuts a slice of a tensor where the room of a shard ends. Where TensorFlow goes round for ever,
 * because no index of any axis fits into a shard, an index is cut in its turn. */
static void put_in_parts(struct filling *f, const sheaf_shardable *t, struct sheaf__slice rest,
                         struct size size)
{
    const bool empty = sheaf_shape_elements(rest.shape) == 0;
    while (size.bytes > f->left) {
        struct cut cut = choose_cut(rest.shape, size.bytes, size.width, f->left);
        const bool fits = cut.length > 0;
        if (!fits && f->left < f->most) {
            next_shard(f);
            continue;
        }
        if (!fits)
            cut = smallest_cut(rest.shape);
        struct sheaf__slice part = rest;
        part.shape.dims[cut.axis] = cut.length;
        const int64_t elements = sheaf_shape_elements(part.shape);
        const struct size part_size = {elements * size.width, size.width};
        if (fits)
            put(f, t, &part, part_size.bytes);
        else if (elements > 1)
            put_in_parts(f, t, part, part_size);
        else
            put_alone(f, t, &part, part_size.bytes, "an element");
        if (f->left == 0)
            next_shard(f);
        rest.offset[cut.axis] += cut.length;
        rest.shape.dims[cut.axis] -= cut.length;
        size.bytes = sheaf_shape_elements(rest.shape) * size.width;
    }
    if (empty || sheaf_shape_elements(rest.shape))
        put(f, t, &rest, size.bytes);
}

/* TensorFlow cuts strings, too, and then cannot read them: "Dtype string not supported". */
static void put_strings(struct filling *f, const sheaf_shardable *t, int64_t bytes)
{
    if (bytes > f->most) {
        put_alone(f, t, &t->slice, bytes, "strings");
        return;
    }
    if (bytes > f->left)
        next_shard(f);
    put(f, t, &t->slice, bytes);
}

static bool is_large_scalar(const struct filling *f, const sheaf_shardable *t, int64_t bytes)
{
    return t->slice.shape.rank == 0 && bytes > f->most;
}

static void fill(struct filling *f, sheaf_shardable *const *tensors, const struct size *sizes,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool strings = sheaf_shardable_dtype(tensors[i]) == SHEAF_STRING;
        if (strings && tensors[i]->slice.shape.rank) {
            put_strings(f, tensors[i], sizes[i].bytes);
        } else if (tensors[i]->slice.shape.rank) {
            put_in_parts(f, tensors[i], tensors[i]->slice, sizes[i]);
        } else if (!is_large_scalar(f, tensors[i], sizes[i].bytes)) {
            if (sizes[i].bytes > f->left)
                next_shard(f);
            put(f, tensors[i], &tensors[i]->slice, sizes[i].bytes);
        }
    }
    /* They come after all others (R8.9). */
    for (size_t i = 0; i < count; i++) {
        if (is_large_scalar(f, tensors[i], sizes[i].bytes)) {
            next_shard(f);
            put_alone(f, tensors[i], &tensors[i]->slice, sizes[i].bytes, "an element");
        }
    }
}

static sheaf_status assign_max_size(sheaf_shardable *const *tensors, size_t count,
                                    sheaf_shard_plan *plan, void *user)
{
    struct filling f = {.plan = plan, .most = limit_of(user), .left = limit_of(user)};
    struct size *sizes = NULL;
    if (f.most < 1)
        return sheaf__error(&plan->error, SHEAF_ERR_INVALID_ARGUMENT,
                            "the max shard size is %lld bytes, expected 1 or more",
                            (long long)f.most);
    SHEAF__TRY(measure_all(tensors, count, &sizes, &plan->error));
    fill(&f, tensors, sizes, count);
    sheaf__free(sizes);
    return SHEAF_OK;
}

sheaf_sharding_callback sheaf_shard_max_size(int64_t bytes)
{
    return with_limit(assign_max_size, "Split tensors into shards with a max shard size.", bytes);
}
