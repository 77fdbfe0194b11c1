/* SPDX-License-Identifier: Apache-2.0 */
#include "data/rewrite.h"
#include "data/stage.h"

/* What global batch size a pipeline has (R1.8, R1.9), and how workers divide it (R1.12). */

/* Two answers of inputs that must agree. */
static int64_t walk(const sheaf_dataset *d)
{
    if (d->stage->ops->batch_size)
        return d->stage->ops->batch_size(d);
    if (d->stage->traits & SHEAF__MULTIPLE) {
        int64_t size = walk(d->inputs[0]);
        for (size_t i = 1; i < d->input_count; i++)
            if (walk(d->inputs[i]) != size)
                return -1;
        return size;
    }
    return d->stage->traits & SHEAF__KEEPS_BATCH ? walk(d->inputs[0]) : -1;
}

int64_t sheaf__batch_size_of(const sheaf_dataset *d)
{
    const sheaf_element_spec *spec = d->spec;
    bool known = spec && spec->count > 0, equal = true;
    for (size_t i = 0; known && i < spec->count; i++) {
        const sheaf_shape *shape = &spec->specs[i].shape;
        known = shape->rank > 0 && shape->dims[0] >= 0;
        equal = equal && known && shape->dims[0] == spec->specs[0].shape.dims[0];
    }
    if (known)
        return equal ? spec->specs[0].shape.dims[0] : -1;
    return walk(d);
}

void sheaf__batch_sizes_for_worker(int64_t global, const struct sheaf__split *split, int64_t *sizes)
{
    int64_t workers = split->workers > 0 ? split->workers : 1;
    int64_t replicas = split->replicas > 0 ? split->replicas : 1;
    int64_t n = workers * replicas;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (i + split->worker * replicas) % n;
        sizes[i] = global / n + (at < global % n);
    }
}
