/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/flush.h"
#include "base/mem.h"
#include "optim/rule_class.h"
#include "optim/rule_run.h"
#include "tensor/kernel.h"

#include <string.h>

#define RADIX_BITS 11
#define RADIX      (1 << RADIX_BITS)

/* Gradient of the rows that have none. */
#define ZEROS 1024
static const double zeros[ZEROS];

struct place {
    int64_t id;
    size_t at; /* its row in the input */
};

static sheaf_status check_ids(const struct sheaf__rule_rows *rows, bool *ascending,
                              sheaf_error *err)
{
    *ascending = true;
    for (size_t i = 0; i < rows->count; i++) {
        int64_t id = rows->ids[i];
        if (id < 0 || id >= rows->rows)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "row %lld, number %zu of the gradient, is outside of the %lld rows "
                                "of the variable",
                                (long long)id, i, (long long)rows->rows);
        if (i && id <= rows->ids[i - 1])
            *ascending = false;
    }
    return SHEAF_OK;
}

/* Sorts by id and keeps the order of equal ones; uses `other` of the same size. Returns which of
 * the two has the result. */
static struct place *sort(struct place *places, struct place *other, size_t count, int64_t most)
{
    for (int shift = 0; shift < 63 && most >> shift; shift += RADIX_BITS) {
        size_t starts[RADIX + 1] = {0};
        for (size_t i = 0; i < count; i++)
            starts[(places[i].id >> shift & (RADIX - 1)) + 1]++;
        for (size_t d = 1; d <= RADIX; d++)
            starts[d] += starts[d - 1];
        for (size_t i = 0; i < count; i++)
            other[starts[places[i].id >> shift & (RADIX - 1)]++] = places[i];
        struct place *swap = places;
        places = other;
        other = swap;
    }
    return places;
}

/* Memory of a merge: what it gives, then what it needs meanwhile. */
struct memory {
    int64_t *ids;
    char *values;
    char *squares; /* NULL: not wanted */
    struct place *places, *other;
    char *row; /* one row of squares; lives with `places` */
};

static bool allocate(struct memory *m, size_t count, size_t row_bytes, bool squares, void **result,
                     void **scratch)
{
    size_t values, total, places;
    if (sheaf__mul_overflows(count, row_bytes, &values) ||
        sheaf__mul_overflows(count, sizeof(int64_t), &total) ||
        sheaf__mul_overflows(count, 2 * sizeof(struct place), &places) ||
        values > SIZE_MAX / 4 - total || places > SIZE_MAX / 2 - row_bytes)
        return false;
    *result = sheaf__alloc_aligned(total + values + (squares ? values : 0) + 2 * SHEAF__MEM_ALIGN);
    *scratch = sheaf__alloc(places + row_bytes);
    if (!*result || !*scratch)
        return false;
    m->ids = *result;
    m->values =
        (char *)*result + (total + SHEAF__MEM_ALIGN - 1) / SHEAF__MEM_ALIGN * SHEAF__MEM_ALIGN;
    m->squares =
        squares ? m->values + (values + SHEAF__MEM_ALIGN - 1) / SHEAF__MEM_ALIGN * SHEAF__MEM_ALIGN
                : NULL;
    m->places = *scratch;
    m->other = m->places + count;
    m->row = (char *)(m->other + count);
    return true;
}

/* Squares of a row, or the sizes of its elements. */
static void measure(char *to, const char *from, sheaf_dtype dtype, size_t n, bool by_size)
{
    const struct sheaf__kernels *kernels = sheaf__kernels();
    if (!by_size) {
        kernels->mul[dtype](to, from, from, n);
        return;
    }
    kernels->scale[dtype](to, from, -1, n);
    kernels->max[dtype](to, to, from, n);
}

/* Sums rows of equal ids in the order in which they came. Returns how many rows there are then. */
static size_t sum_rows(struct memory *m, const struct place *places, sheaf_dtype dtype,
                       const struct sheaf__rule_rows *rows, bool by_size)
{
    const struct sheaf__kernels *kernels = sheaf__kernels();
    size_t width = (size_t)rows->width, bytes = width * sheaf_dtype_size(dtype), n = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const char *from = (const char *)rows->values + places[i].at * bytes;
        bool first = n == 0 || m->ids[n - 1] != places[i].id;
        n += first;
        m->ids[n - 1] = places[i].id;
        char *to = m->values + (n - 1) * bytes;
        if (first)
            memcpy(to, from, bytes);
        else
            kernels->add[dtype](to, to, from, width);
        if (!m->squares)
            continue;
        to = m->squares + (n - 1) * bytes;
        measure(first ? to : m->row, from, dtype, width, by_size);
        if (!first)
            kernels->add[dtype](to, to, m->row, width);
    }
    return n;
}

sheaf_status sheaf__rule_merge(const struct sheaf__hyper *h, sheaf_dtype dtype,
                               const struct sheaf__rule_rows *rows,
                               struct sheaf__rule_merged *merged, sheaf_error *err)
{
    bool ascending;
    SHEAF__TRY(check_ids(rows, &ascending, err));
    if (ascending) { /* a single row's squares are the squares of its sum */
        *merged = (struct sheaf__rule_merged){.rows = *rows};
        return SHEAF_OK;
    }
    struct memory m;
    void *result = NULL, *scratch = NULL;
    bool squares = h->flags & SHEAF__HYPER_KERAS3_SPARSE;
    size_t row_bytes = (size_t)rows->width * sheaf_dtype_size(dtype);
    if (!allocate(&m, rows->count, row_bytes, squares, &result, &scratch)) {
        sheaf__free(result);
        sheaf__free(scratch);
        return sheaf__no_memory(err, "a gradient of rows");
    }
    for (size_t i = 0; i < rows->count; i++)
        m.places[i] = (struct place){rows->ids[i], i};
    struct place *sorted = sort(m.places, m.other, rows->count, rows->rows - 1);
    *merged = (struct sheaf__rule_merged){.rows = *rows, .memory = result};
    merged->rows.count = sum_rows(&m, sorted, dtype, rows, sheaf__rule_class(h->rule)->by_size);
    merged->rows.ids = m.ids;
    merged->rows.values = m.values;
    merged->rows.squares = m.squares;
    sheaf__free(scratch);
    return SHEAF_OK;
}

void sheaf__rule_merged_free(struct sheaf__rule_merged *merged)
{
    sheaf__free(merged->memory);
    *merged = (struct sheaf__rule_merged){0};
}

bool sheaf__rule_moves_all(const struct sheaf__hyper *h)
{
    if (h->family == SHEAF_OPTIMIZER_KERAS3)
        return h->flags & SHEAF__HYPER_KERAS3_SPARSE;
    const struct sheaf__rule_class *rule = sheaf__rule_class(h->rule);
    return rule->moves_all && rule->moves_all(h);
}

/* Elements without a gradient. */
static void skip(const struct sheaf__rule_run *run, bool moves_all, size_t first, size_t n)
{
    const struct sheaf__update *u = run->update;
    if (moves_all) {
        for (size_t done = 0; done < n; done += ZEROS)
            sheaf__rule_run_span(run, first + done, zeros, NULL,
                                 n - done < ZEROS ? n - done : ZEROS);
    } else if (n && u->to != u->from) {
        memcpy((char *)u->to + first * run->size, (const char *)u->from + first * run->size,
               n * run->size);
    }
}

/* The first of the ascending ids that is not below `row`. */
static size_t first_from(const struct sheaf__rule_rows *merged, int64_t row)
{
    size_t low = 0, high = merged->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (merged->ids[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void sheaf__rule_apply_rows(const struct sheaf__hyper *h, const struct sheaf__update *u,
                            const struct sheaf__rule_rows *merged, int64_t begin, int64_t end)
{
    struct sheaf__rule_run run;
    sheaf__rule_run_init(&run, h, u);
    bool moves_all = sheaf__rule_moves_all(h);
    size_t width = (size_t)merged->width, bytes = width * run.size;
    int64_t row = begin;
    struct sheaf__flush flush = sheaf__flush_begin(); /* once, not for every row */
    for (size_t i = first_from(merged, begin); i < merged->count && merged->ids[i] < end;) {
        size_t together = 1;
        int64_t id = merged->ids[i];
        while (i + together < merged->count && merged->ids[i + together] < end &&
               merged->ids[i + together] == id + (int64_t)together)
            together++;
        skip(&run, moves_all, (size_t)row * width, (size_t)(id - row) * width);
        const char *squares = merged->squares;
        sheaf__rule_run_span(&run, (size_t)id * width, (const char *)merged->values + i * bytes,
                             squares ? squares + i * bytes : NULL, together * width);
        row = id + (int64_t)together;
        i += together;
    }
    if (row < end)
        skip(&run, moves_all, (size_t)row * width, (size_t)(end - row) * width);
    sheaf__flush_end(flush);
}
