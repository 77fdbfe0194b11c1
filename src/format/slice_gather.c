/* SPDX-License-Identifier: Apache-2.0 */
#include "format/slice.h"

#include <string.h>

/* Reading slices in pieces. */

#define GAP 32768 /* bytes that are read rather than skipped */

struct sheaf__slice sheaf__slice_box(const struct sheaf__slice *s, int64_t first, int64_t most)
{
    struct sheaf__slice box = *s;
    int64_t place[SHEAF_MAX_RANK], inner = 1, rest = first;
    for (int32_t i = s->full.rank - 1; i >= 0; i--) {
        place[i] = rest % s->shape.dims[i];
        rest /= s->shape.dims[i];
    }
    /* The outermost axis of which several indices fit and whose inner axes start at 0. */
    int32_t axis = s->full.rank - 1;
    while (axis > 0 && place[axis] == 0 && inner * s->shape.dims[axis] <= most)
        inner *= s->shape.dims[axis--];
    for (int32_t i = 0; i < axis; i++) {
        box.offset[i] += place[i];
        box.shape.dims[i] = 1;
    }
    if (axis >= 0) {
        const int64_t left = s->shape.dims[axis] - place[axis], fit = most / inner;
        box.offset[axis] += place[axis];
        box.shape.dims[axis] = fit < left ? fit : left;
    }
    return box;
}

/* What is wanted of `from`, counted within it. */
struct walk {
    const struct sheaf__slice_gather *g;
    int32_t rank;
    int64_t start[SHEAF_MAX_RANK], count[SHEAF_MAX_RANK], size[SHEAF_MAX_RANK];
    int64_t end; /* after the last wanted element */
    int64_t
        inner; /* elements of an index of the axis along which runs go: all axes after it are whole */
    int32_t axis; /* that one */
};

static void begin_walk(struct walk *w, const struct sheaf__slice_gather *g,
                       const struct sheaf__slice *common)
{
    const struct sheaf__slice *from = g->copy.from;
    *w = (struct walk){.g = g, .rank = from->full.rank, .inner = 1};
    for (int32_t i = 0; i < w->rank; i++) {
        w->start[i] = common->offset[i] - from->offset[i];
        w->count[i] = common->shape.dims[i];
        w->size[i] = from->shape.dims[i];
        w->end = w->end * w->size[i] + w->start[i] + w->count[i] - 1;
    }
    w->end++;
    for (w->axis = w->rank - 1; w->axis > 0 && w->count[w->axis] == w->size[w->axis]; w->axis--)
        w->inner *= w->size[w->axis];
}

/* The first wanted element from number `at` on; the end if there is none. */
static int64_t next_wanted(const struct walk *w, int64_t at)
{
    int64_t place[SHEAF_MAX_RANK], rest = at;
    for (int32_t i = w->rank - 1; i >= 0; i--) {
        place[i] = rest % w->size[i];
        rest /= w->size[i];
    }
    int32_t i = 0;
    while (i < w->rank && place[i] >= w->start[i] && place[i] < w->start[i] + w->count[i])
        i++;
    if (i == w->rank)
        return at;
    int32_t up = i;
    if (place[i] >= w->start[i])
        while (--up >= 0 && ++place[up] >= w->start[up] + w->count[up])
            ;
    if (up < 0)
        return w->end;
    for (int32_t k = up == i ? i : up + 1; k < w->rank; k++)
        place[k] = w->start[k];
    int64_t found = 0;
    for (int32_t k = 0; k < w->rank; k++)
        found = found * w->size[k] + place[k];
    return found;
}

/* How many wanted elements follow each other from the wanted one `at` on. */
static int64_t run_from(const struct walk *w, int64_t at)
{
    if (w->rank == 0)
        return 1;
    return (w->start[w->axis] + w->count[w->axis]) * w->inner - at % (w->size[w->axis] * w->inner);
}

/* Where a run is to go if it lies in `to` in one run, too; else NULL. */
static void *run_in(const struct walk *w, int64_t at)
{
    const struct sheaf__slice_copy *copy = &w->g->copy;
    int64_t place[SHEAF_MAX_RANK], to = 0;
    for (int32_t i = w->rank - 1; i >= 0; i--) {
        place[i] = at % w->size[i];
        at /= w->size[i];
        if (i > w->axis && copy->to->shape.dims[i] != w->count[i])
            return NULL;
    }
    for (int32_t i = 0; i < w->rank; i++)
        to = to * copy->to->shape.dims[i] + place[i] + copy->from->offset[i] - copy->to->offset[i];
    return (uint8_t *)copy->out + (size_t)to * copy->width;
}

sheaf_status sheaf__slice_gather(const struct sheaf__slice_gather *g, sheaf_error *err)
{
    struct sheaf__slice common;
    struct walk w;
    const int64_t most = (int64_t)(g->scratch_size / g->copy.width);
    const int64_t gap = GAP / (int64_t)g->copy.width;
    if (!sheaf__slice_intersect(g->copy.from, g->copy.to, &common))
        return SHEAF_OK;
    begin_walk(&w, g, &common);
    for (int64_t at = next_wanted(&w, 0); at < w.end; at = next_wanted(&w, at)) {
        int64_t count = run_from(&w, at);
        void *direct = count >= gap || count == w.end - at ? run_in(&w, at) : NULL;
        if (!direct) {
            count = count > gap ? count : gap;
            count = count < w.end - at ? count : w.end - at;
            count = count < most ? count : most;
        }
        sheaf_status status = g->fetch(g->user, at, count, direct ? direct : g->scratch, err);
        if (status < 0)
            return status;
        if (!direct)
            sheaf__slice_scatter(&g->copy, at, count, g->scratch);
        at += count;
        if (at >= w.end)
            break;
    }
    return SHEAF_OK;
}
