/* SPDX-License-Identifier: Apache-2.0 */
#include "data/reshard.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/rewrite.h"
#include "data/skip.h"
#include "data/stage.h"
#include "data/turns.h"

enum { MOST_PIPELINES = 1024 };

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

int64_t sheaf__reshard_classes(const struct sheaf__leg *legs, size_t count)
{
    const int64_t now = legs[count - 1].workers;
    return count > 1 ? common_divisor(now, legs[count - 2].workers) : now;
}

static sheaf_status split(sheaf_dataset *d, const struct sheaf__leg *leg, int worker,
                          sheaf_dataset **out, sheaf_error *err)
{
    const struct sheaf__split where = {.workers = (int)leg->workers,
                                       .worker = worker,
                                       .replicas = (int)leg->replicas,
                                       .again = true};
    struct sheaf__split_dataset made;
    SHEAF__TRY(sheaf__split_make(d, &where, &made, err));
    *out = sheaf_dataset_ref(made.dataset);
    sheaf__split_free(&made);
    return SHEAF_OK;
}

/* What worker `worker` of the last leg would have read on, one example an element. */
static sheaf_status rest_of(sheaf_dataset *d, const struct sheaf__leg *legs, size_t count,
                            int worker, sheaf_dataset **out, sheaf_error *err)
{
    const struct sheaf__leg *leg = &legs[count - 1];
    uint64_t parts;
    if (__builtin_mul_overflow(leg->rounds, (uint64_t)leg->replicas, &parts) || parts > INT64_MAX)
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS, "the position is behind %llu steps",
                            (unsigned long long)leg->rounds);
    sheaf_dataset *made = NULL;
    SHEAF__TRY(sheaf__reshard(d, legs, count, worker, &made, err));
    made = sheaf__skip_unread(made, (int64_t)parts);
    *out = sheaf_dataset_rebatch(made, (int64_t[]){1}, 1, false);
    return SHEAF_OK;
}

/* What the workers of one class, `first` and every `step`-th, would have read on. */
static sheaf_status rest_of_class(sheaf_dataset *d, const struct sheaf__leg *legs, size_t count,
                                  int64_t first, int64_t step, sheaf_dataset **out,
                                  sheaf_error *err)
{
    const int64_t workers = legs[count - 1].workers;
    sheaf_dataset **inputs = sheaf__alloc_array((size_t)(workers / step), sizeof(*inputs));
    size_t made = 0;
    sheaf_status status = inputs ? SHEAF_OK : sheaf__no_memory(err, "a dataset");
    for (int64_t w = first; status >= 0 && w < workers; w += step) {
        status = rest_of(d, legs, count, (int)w, &inputs[made], err);
        made += status >= 0;
    }
    if (status >= 0)
        *out = sheaf__turns(inputs, made);
    else
        while (made > 0)
            sheaf_dataset_free(inputs[--made]);
    sheaf__free(inputs);
    return status;
}

/* The parts for the replicas of a worker, and one step ahead. */
static sheaf_status parts_for(sheaf_dataset **d, int64_t batch, const struct sheaf__leg *leg,
                              int worker, sheaf_error *err)
{
    const struct sheaf__split where = {
        .workers = (int)leg->workers, .worker = worker, .replicas = (int)leg->replicas};
    const size_t n = (size_t)(leg->workers * leg->replicas);
    int64_t *sizes = sheaf__alloc_array(n, sizeof(*sizes));
    if (!sizes)
        return sheaf__no_memory(err, "a dataset");
    sheaf__batch_sizes_for_worker(batch, &where, sizes);
    *d = sheaf_dataset_prefetch(sheaf_dataset_rebatch(*d, sizes, n, false), leg->replicas);
    sheaf__free(sizes);
    return SHEAF_OK;
}

/* Workers before whose data one worker of the last leg takes up: each has a pipeline of its own. */
static int64_t pipelines(const struct sheaf__leg *legs, size_t count)
{
    int64_t n = 1;
    for (size_t i = 1; i < count && n <= MOST_PIPELINES; i++)
        n *= legs[i - 1].workers / common_divisor(legs[i].workers, legs[i - 1].workers);
    return n;
}

sheaf_status sheaf__reshard(sheaf_dataset *d, const struct sheaf__leg *legs, size_t count,
                            int worker, sheaf_dataset **out, sheaf_error *err)
{
    const struct sheaf__leg *now = &legs[count - 1];
    if (count == 1)
        return split(d, now, worker, out, err);
    if (pipelines(legs, count) > MOST_PIPELINES)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "each worker would have to read on what more than %d workers read",
                            MOST_PIPELINES);
    const int64_t batch = sheaf__batch_size_of(d);
    if (batch < 1)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "the size of the global batch is not known: it must be known to divide "
                            "the rest of a pass over other workers or replicas");
    const int64_t classes = sheaf__reshard_classes(legs, count);
    sheaf_dataset *made = NULL;
    SHEAF__TRY(rest_of_class(d, legs, count - 1, worker % classes, classes, &made, err));
    if (now->workers > classes)
        made = sheaf_dataset_shard(made, now->workers / classes, worker / classes);
    sheaf_status status = parts_for(&made, batch, now, worker, err);
    if (status >= 0 && made->error.status < 0)
        status = sheaf__error_copy(err, &made->error);
    if (status < 0)
        sheaf_dataset_free(made);
    else
        *out = made;
    return status;
}
