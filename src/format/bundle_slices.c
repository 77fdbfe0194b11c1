/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <stdlib.h>
#include <string.h>

/* Tensors out of the slices they are stored in: any slice that is asked from any that are there
 * (R8.33), for all dtypes. */

/* The item that holds slice `i` of a tensor of slices. The key follows the spelling of the entry.
 */
static sheaf_status find_piece(sheaf_bundle *b, const struct sheaf__bundle_item *item, int32_t i,
                               struct sheaf__bundle_piece *piece, sheaf_error *err)
{
    int32_t rank = item->shape.rank;
    const struct sheaf__extent *extents = sheaf__bundle_extents(item, i);
    if (!sheaf__slice_from(item->shape, extents, &piece->slice))
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                                   "slice %d is empty or reaches out of shape %s", (int)i,
                                   SHEAF__SHAPE_TEXT(item->shape));
    struct sheaf__buf key = {0};
    sheaf__slice_key(&key, item->key, item->key_size, extents, rank);
    piece->item = key.failed ? NULL : sheaf__bundle_index_find(&b->index, key.data, key.size);
    bool failed = key.failed;
    sheaf__buf_free(&key);
    if (failed)
        return sheaf__no_memory(err, "the key of a slice");
    if (!piece->item) {
        struct sheaf__str text = {0};
        sheaf__slice_text(&text, &piece->slice);
        sheaf__bundle_fault(b, item, err, SHEAF_ERR_NOT_FOUND, "its slice '%s' is not there",
                            sheaf__str_text(&text));
        sheaf__str_free(&text);
        return SHEAF_ERR_NOT_FOUND;
    }
    if (piece->item->fault < 0)
        return sheaf__bundle_entry_fault(b, piece->item, err, piece->item->fault, "%s",
                                         piece->item->why);
    if (piece->item->dtype != item->dtype || piece->item->slices ||
        !sheaf_shape_equal(piece->item->shape, piece->slice.shape))
        return sheaf__bundle_entry_fault(b, piece->item, err, SHEAF_ERR_DATA_LOSS,
                                         "it is of shape %s, the tensor's entry says %s",
                                         SHEAF__SHAPE_TEXT(piece->item->shape),
                                         SHEAF__SHAPE_TEXT(piece->slice.shape));
    return SHEAF_OK;
}

static int compare_starts(const void *a, const void *b)
{
    const struct sheaf__slice *x = *(const struct sheaf__slice *const *)a;
    const struct sheaf__slice *y = *(const struct sheaf__slice *const *)b;
    for (int32_t i = 0; i < x->full.rank; i++) {
        if (x->offset[i] != y->offset[i])
            return x->offset[i] < y->offset[i] ? -1 : 1;
    }
    return 0;
}

/* Looks for two slices that share an element, among those that share a place on the first axis. */
static const struct sheaf__slice *find_overlap(const struct sheaf__slice **sorted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t end = sorted[i]->offset[0] + sorted[i]->shape.dims[0];
        for (size_t k = i + 1; k < count && sorted[k]->offset[0] < end; k++) {
            if (sheaf__slice_intersect(sorted[i], sorted[k], NULL))
                return sorted[k];
        }
    }
    return NULL;
}

static sheaf_status check_overlap(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                  const struct sheaf__bundle_piece *pieces, sheaf_error *err)
{
    size_t count = (size_t)item->slices;
    if (item->shape.rank == 0) {
        return count == 1 ? SHEAF_OK
                          : sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                                                "a scalar is stored in %zu slices", count);
    }
    const struct sheaf__slice **sorted = sheaf__alloc_array(count, sizeof(void *));
    if (!sorted)
        return sheaf__no_memory(err, "the slices of a tensor");
    for (size_t i = 0; i < count; i++)
        sorted[i] = &pieces[i].slice;
    qsort(sorted, count, sizeof(*sorted), compare_starts);
    const struct sheaf__slice *twice = find_overlap(sorted, count);
    sheaf__free(sorted);
    if (!twice)
        return SHEAF_OK;
    struct sheaf__str text = {0};
    sheaf__slice_text(&text, twice);
    sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS, "its slice '%s' overlaps another one",
                        sheaf__str_text(&text));
    sheaf__str_free(&text);
    return SHEAF_ERR_DATA_LOSS;
}

sheaf_status sheaf__bundle_pieces(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                  struct sheaf__bundle_piece **pieces, sheaf_error *err)
{
    struct sheaf__bundle_piece *list = sheaf__alloc_array((size_t)item->slices, sizeof(*list));
    if (!list)
        return sheaf__no_memory(err, "the slices of a tensor");
    sheaf_status status = SHEAF_OK;
    for (int32_t i = 0; i < item->slices && status >= 0; i++)
        status = find_piece(b, item, i, &list[i], err);
    if (status >= 0)
        status = check_overlap(b, item, list, err);
    if (status < 0) {
        sheaf__free(list);
        return status;
    }
    *pieces = list;
    return SHEAF_OK;
}

/* What is to be read: the pieces that a slice needs. */
struct assembly {
    sheaf_bundle *bundle;
    const struct sheaf__bundle_item *item;
    struct sheaf__slice want;
    struct sheaf__bundle_piece *pieces; /* own */
    struct sheaf__bundle_piece one;     /* used for a tensor that is stored whole */
    size_t count;
};

/* Names the first rows of the wanted slice that no piece has, if it lacks whole rows. */
static sheaf_status not_covered(const struct assembly *a, int64_t found, sheaf_error *err)
{
    int64_t row = a->want.offset[0], end = row + a->want.shape.dims[0];
    bool moved = true;
    while (moved && row < end) {
        moved = false;
        for (size_t i = 0; i < a->count; i++) {
            const struct sheaf__slice *s = &a->pieces[i].slice;
            if (s->offset[0] <= row && row < s->offset[0] + s->shape.dims[0]) {
                row = s->offset[0] + s->shape.dims[0];
                moved = true;
            }
        }
    }
    int64_t until = end;
    for (size_t i = 0; i < a->count; i++) {
        int64_t start = a->pieces[i].slice.offset[0];
        if (start > row && start < until)
            until = start;
    }
    if (row < end)
        return sheaf__bundle_fault(a->bundle, a->item, err, SHEAF_ERR_INVALID_ARGUMENT,
                                   "its slices do not have rows %lld to %lld", (long long)row,
                                   (long long)until - 1);
    return sheaf__bundle_fault(a->bundle, a->item, err, SHEAF_ERR_INVALID_ARGUMENT,
                               "its slices have %lld of %lld elements", (long long)found,
                               (long long)sheaf_shape_elements(a->want.shape));
}

static sheaf_status gather_pieces(struct assembly *a, sheaf_error *err)
{
    if (!a->item->slices) {
        a->one = (struct sheaf__bundle_piece){sheaf__slice_all(a->item->shape), a->item};
        a->pieces = &a->one;
        a->count = 1;
        return sheaf__bundle_check_item(a->bundle, a->item, err);
    }
    SHEAF__TRY(sheaf__bundle_pieces(a->bundle, a->item, &a->pieces, err));
    a->count = (size_t)a->item->slices;
    int64_t found = 0;
    for (size_t i = 0; i < a->count; i++) {
        int64_t common = sheaf__slice_intersect(&a->pieces[i].slice, &a->want, NULL);
        found += common;
        if (common)
            SHEAF__TRY(sheaf__bundle_check_item(a->bundle, a->pieces[i].item, err));
    }
    if (found != sheaf_shape_elements(a->want.shape))
        return not_covered(a, found, err);
    return SHEAF_OK;
}

static void end_assembly(struct assembly *a)
{
    if (a->pieces != &a->one)
        sheaf__free(a->pieces);
}

static sheaf_status begin_assembly(struct assembly *a, sheaf_bundle *b,
                                   const struct sheaf__bundle_item *item,
                                   const struct sheaf__slice *slice, sheaf_error *err)
{
    *a = (struct assembly){.bundle = b, .item = item};
    if (item->fault < 0)
        return sheaf__bundle_entry_fault(b, item, err, item->fault, "%s", item->why);
    a->want = slice ? *slice : sheaf__slice_all(item->shape);
    if (!sheaf_shape_equal(a->want.full, item->shape))
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_INVALID_ARGUMENT,
                                   "it is of shape %s, expected %s", SHEAF__SHAPE_TEXT(item->shape),
                                   SHEAF__SHAPE_TEXT(a->want.full));
    sheaf_status status = gather_pieces(a, err);
    if (status < 0)
        end_assembly(a);
    return status;
}

static void take_chunk(void *user, const void *data, int64_t first, int64_t count)
{
    sheaf__slice_scatter(user, first, count, data);
}

/* The byte in `out` where a piece begins, if it lies in the wanted slice whole and in one run; else
 * NULL. */
static void *run_of(const struct assembly *a, const struct sheaf__slice *piece, void *out)
{
    int32_t rank = piece->full.rank;
    int64_t at = 0;
    bool inner_whole = true; /* every axis after the first is all of the wanted one */
    if (sheaf__slice_intersect(piece, &a->want, NULL) != sheaf_shape_elements(piece->shape))
        return NULL;
    for (int32_t i = 0; i < rank; i++) {
        at = at * a->want.shape.dims[i] + (piece->offset[i] - a->want.offset[i]);
        inner_whole &= i == 0 || piece->shape.dims[i] == a->want.shape.dims[i];
    }
    size_t width = sheaf_dtype_size((sheaf_dtype)a->item->dtype);
    return inner_whole ? (uint8_t *)out + (size_t)at * width : NULL;
}

/* Reads of a piece all that is wanted. */
static sheaf_status read_whole(const struct assembly *a, const struct sheaf__bundle_piece *piece,
                               void *out, sheaf_error *err)
{
    struct sheaf__slice_copy copy = {&piece->slice, &a->want,
                                     sheaf_dtype_size((sheaf_dtype)a->item->dtype), out};
    struct sheaf__bundle_sink sink = {take_chunk, &copy, run_of(a, &piece->slice, out)};
    return sheaf__bundle_stream(a->bundle, piece->item, &sink, err);
}

/* Whether a box in a piece is less than it, and lies in one run. */
static bool is_run(const struct sheaf__slice *box, const struct sheaf__slice *piece)
{
    for (int32_t i = 1; i < box->full.rank; i++)
        if (box->shape.dims[i] != piece->shape.dims[i])
            return false;
    return box->full.rank > 0 && box->shape.dims[0] < piece->shape.dims[0];
}

/* Reads the run `box` of a piece alone, and notes its checksum. */
static sheaf_status read_run(const struct assembly *a, const struct sheaf__bundle_piece *piece,
                             const struct sheaf__slice *box, void *out, sheaf_error *err)
{
    const size_t width = sheaf_dtype_size((sheaf_dtype)a->item->dtype);
    const uint64_t size = (uint64_t)sheaf_shape_elements(box->shape) * width;
    const uint64_t row = size / (uint64_t)box->shape.dims[0];
    struct sheaf__slice_copy copy = {box, &a->want, width, out};
    struct sheaf__bundle_sink sink = {take_chunk, &copy, run_of(a, box, out)};
    struct sheaf__bundle_sum sum = {.shard = piece->item->shard,
                                    .offset = piece->item->offset,
                                    .at = (uint64_t)(box->offset[0] - piece->slice.offset[0]) * row,
                                    .size = size};
    SHEAF__TRY(
        sheaf__bundle_stream_range(a->bundle, piece->item, sum.at, size, &sink, &sum.crc, err));
    return sheaf__bundle_sums_add(a->bundle->sums, &sum) ? SHEAF_OK
                                                         : sheaf__no_memory(err, "checksums");
}

static sheaf_status read_pieces(const struct assembly *a, void *out, sheaf_error *err)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct sheaf__bundle_piece *piece = &a->pieces[i];
        struct sheaf__slice box;
        const int64_t common = sheaf__slice_intersect(&piece->slice, &a->want, &box);
        if (a->item->slices && !common)
            continue;
        if (common && a->bundle->sums && is_run(&box, &piece->slice))
            SHEAF__TRY(read_run(a, piece, &box, out, err));
        else
            SHEAF__TRY(read_whole(a, piece, out, err));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__bundle_read_into(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                     const struct sheaf__slice *slice, void *out, sheaf_error *err)
{
    struct assembly a;
    if (item->dtype == SHEAF_STRING)
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_INVALID_ARGUMENT,
                                   "strings cannot be read into plain memory");
    SHEAF__TRY(begin_assembly(&a, b, item, slice, err));
    sheaf_status status = read_pieces(&a, out, err);
    end_assembly(&a);
    return status;
}

/* A piece and the bundle it is in. */
struct fetching {
    sheaf_bundle *bundle;
    const struct sheaf__bundle_item *item;
};

static sheaf_status fetch(void *user, int64_t first, int64_t count, void *out, sheaf_error *err)
{
    const struct fetching *f = user;
    return sheaf__bundle_fetch(f->bundle, f->item, first, count, out, err);
}

sheaf_status sheaf__bundle_read_part(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                     const struct sheaf__slice *slice, void *out, sheaf_error *err)
{
    struct assembly a;
    SHEAF__TRY(sheaf__bundle_scratch(b, err));
    SHEAF__TRY(begin_assembly(&a, b, item, slice, err));
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < a.count && status >= 0; i++) {
        struct fetching fetching = {b, a.pieces[i].item};
        const struct sheaf__slice_gather gather = {
            .copy = {&a.pieces[i].slice, &a.want, sheaf_dtype_size((sheaf_dtype)item->dtype), out},
            .fetch = fetch,
            .user = &fetching,
            .scratch = b->scratch,
            .scratch_size = SHEAF__BUNDLE_SCRATCH,
        };
        status = sheaf__slice_gather(&gather, err);
    }
    end_assembly(&a);
    return status;
}

sheaf_status sheaf__bundle_check_sums(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                      sheaf_error *err)
{
    static const struct sheaf__bundle_sink nowhere;
    struct assembly a;
    SHEAF__TRY(begin_assembly(&a, b, item, NULL, err));
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < a.count && status >= 0; i++)
        status = sheaf__bundle_stream(b, a.pieces[i].item, &nowhere, err);
    end_assembly(&a);
    return status;
}

/* Strings are views, so that putting slices together moves no bytes. */
static sheaf_status read_strings(const struct assembly *a, sheaf_tensor *t, sheaf_error *err)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct sheaf__bundle_piece *piece = &a->pieces[i];
        if (!sheaf__slice_intersect(&piece->slice, &a->want, NULL))
            continue;
        sheaf_tensor *part = sheaf__bundle_strings(a->bundle, piece->item, err);
        if (!part)
            return err ? err->status : SHEAF_ERR_DATA_LOSS;
        struct sheaf__slice_copy copy = {&piece->slice, &a->want, sizeof(sheaf_bytes),
                                         sheaf__tensor_out(t)};
        sheaf__slice_scatter(&copy, 0, sheaf_shape_elements(part->shape), part->data);
        sheaf_status status = sheaf__string_keep_like(t, part, err);
        sheaf__unref(part);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

static sheaf_tensor *assemble(const struct assembly *a, sheaf_error *err)
{
    sheaf_dtype dtype = (sheaf_dtype)a->item->dtype;
    bool strings = dtype == SHEAF_STRING;
    if (strings && !a->item->slices && sheaf__slice_is_all(&a->want))
        return sheaf__bundle_strings(a->bundle, a->item, err);
    struct sheaf__device *host = sheaf__device_host(err);
    sheaf_tensor *t = host ? sheaf__tensor_new(dtype, a->want.shape, host, err) : NULL;
    if (!t)
        return NULL;
    sheaf_status status =
        strings ? read_strings(a, t, err) : read_pieces(a, sheaf__tensor_out(t), err);
    if (status < 0) {
        sheaf__unref(t);
        return NULL;
    }
    return t;
}

sheaf_tensor *sheaf__bundle_read_slice(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                       const struct sheaf__slice *slice, sheaf_error *err)
{
    struct assembly a;
    if (begin_assembly(&a, b, item, slice, err) < 0)
        return NULL;
    sheaf_tensor *t = assemble(&a, err);
    end_assembly(&a);
    return t;
}
