/* SPDX-License-Identifier: Apache-2.0 */

/* Whether all workers have the same optimizer: each applies the same gradients by itself, so with another one it would go its
 * own way, and nobody would know. */

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "distribute/bind.h"
#include "distribute/sync.h"
#include "tensor/frame.h"

#include <string.h>

static sheaf_task task_of(const sheaf_strategy *s, int worker)
{
    const int chiefs = sheaf_cluster_tasks(s->cluster, "chief");
    const bool chief = worker < chiefs;
    sheaf_task task = {.index = chief ? worker : worker - chiefs};
    sheaf__str_copy(task.job, sizeof(task.job), chief ? "chief" : "worker");
    return task;
}

/* Two descriptions that differ, of worker 0 and of another: the first fact that does. */
static sheaf_status fail_other_optimizer(const sheaf_strategy *s, const sheaf_optimizer *o,
                                         const char *first, const char *other, int worker,
                                         sheaf_error *err)
{
    const sheaf_task a = task_of(s, 0), b = task_of(s, worker);
    size_t m = strcspn(first, "\n"), n = strcspn(other, "\n");
    while (m == n && memcmp(first, other, m) == 0 && first[m] && other[n]) {
        first += m + 1;
        other += n + 1;
        m = strcspn(first, "\n");
        n = strcspn(other, "\n");
    }
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "optimizer %s has %.*s on " SHEAF__TASK ", %.*s on " SHEAF__TASK
                        "; all workers must have the same",
                        o->name, (int)m, first, a.job, a.index, (int)n, other, b.job, b.index);
}

static sheaf_status compare_optimizers(const sheaf_strategy *s, const sheaf_optimizer *o,
                                       const char *all, const size_t *sizes, sheaf_error *err)
{
    const char *other = all;
    for (int w = 0; w < s->workers; other += sizes[w++])
        if (sizes[w] == 0 || other[sizes[w] - 1])
            return sheaf__error(err, SHEAF_ERR_INTERNAL, "worker %d describes no optimizer", w);
        else if (strcmp(all, other) != 0)
            return fail_other_optimizer(s, o, all, other, w, err);
    return SHEAF_OK;
}

sheaf_status sheaf__bind_compare(sheaf_strategy *s, const sheaf_optimizer *o, sheaf_error *err)
{
    const struct sheaf__wait wait = sheaf__sync_wait(s, "an optimizer");
    size_t *sizes = sheaf__frame_alloc((size_t)s->workers * sizeof(*sizes));
    struct sheaf__str mine = {0};
    void *all = NULL;
    sheaf__optimizer_describe(o, &mine);
    sheaf_status status = sizes && !mine.failed ? SHEAF_OK : sheaf__no_memory(err, "an optimizer");
    if (status >= 0)
        status = sheaf__channel_gather_bytes(s->sync->cross, 0,
                                             (struct sheaf__bytes){mine.text, mine.size + 1}, sizes,
                                             &all, &wait, err);
    if (status >= 0)
        status = compare_optimizers(s, o, all, sizes, err);
    sheaf__free(all);
    sheaf__str_free(&mine);
    return status;
}
