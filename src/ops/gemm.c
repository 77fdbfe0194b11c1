/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm.h"

#include "base/config.h"
#include "base/error.h"
#include "base/flush.h"
#include "base/log.h"
#include "base/scratch.h"
#include "ops/family.h"
#include "ops/vector.h"
#include "tensor/half.h"
#include "tensor/kernel.h"

struct pieces {
    const struct sheaf__gemm *whole;
    int64_t rows, columns; /* of a piece */
    int64_t across;        /* pieces side by side */
    bool reference;
    _Atomic bool failed; /* no memory for a piece */
};

/* Multiplications of a piece: those that outweigh handing it to a thread, for two pieces; those that
 * outweigh laying out its operands, for more. Most pieces; least sides, below which kernels slow
 * down. */
#define HALF_WORK  INT64_C(500000)
#define PIECE_WORK INT64_C(4000000)
#define PIECE_MOST 64
#define PIECE_SIDE 128
/* Strips of a product with A transposed, a weight's gradient: elements, and most columns. They stay in the second-level
 * cache with what they are used for. */
#define STRIP_ELEMENTS 32768
#define STRIP_COLUMNS  512
/* Below this oneDNN is not worth opening and generating code for. */
#define SMALL_WORK (INT64_C(1) << 14)

static void compute(const struct pieces *p, const struct sheaf__gemm *g)
{
    if (p->reference || !sheaf__onednn_gemm(g))
        sheaf__reference_gemm(g);
}

static void relu_row(const struct sheaf__gemm *g, void *row)
{
    size_t n = (size_t)g->n;
    if (g->dtype == SHEAF_FLOAT64) {
        double *x = row;
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] < 0 ? 0 : x[i];
    } else {
        uint16_t *x = row; /* the sign of a bfloat16 is its highest bit; NaN stays */
        for (size_t i = 0; i < n; i++)
            x[i] = sheaf__bfloat16_to_float(x[i]) < 0 ? 0 : x[i];
    }
}

static void add_bias(const struct sheaf__gemm *g, void *row)
{
    size_t n = (size_t)g->n;
    if (g->relu && g->dtype == SHEAF_FLOAT32) {
        sheaf__vector()->add_relu(row, row, g->bias, n);
        return;
    }
    sheaf__kernels()->add[g->dtype](row, row, g->bias, n);
    if (g->relu)
        relu_row(g, row);
}

/* What follows the product, row by row while it is in the cache. */
static void finish(const struct sheaf__gemm *g)
{
    int64_t stride = g->ldc * (int64_t)sheaf_dtype_size(g->dtype);
    for (int64_t i = 0; i < g->m && (g->bias || g->mask); i++) {
        void *row = (uint8_t *)g->c + i * stride;
        if (g->bias)
            add_bias(g, row);
        if (g->mask)
            sheaf__relu_grad(g->dtype, row, row, (const uint8_t *)g->mask + i * stride,
                             (size_t)g->n);
    }
}

/* A part of the product: rows and columns of C from (row, column) on. */
static struct sheaf__gemm part(const struct sheaf__gemm *w, int64_t row, int64_t column)
{
    int64_t size = (int64_t)sheaf_dtype_size(w->dtype);
    struct sheaf__gemm g = *w;
    g.a = (const uint8_t *)w->a + size * (w->transpose_a ? row : row * w->lda);
    g.b = (const uint8_t *)w->b + size * (w->transpose_b ? column * w->ldb : column);
    if (w->bias)
        g.bias = (const uint8_t *)w->bias + size * column;
    if (w->c)
        g.c = (uint8_t *)w->c + size * (row * w->ldc + column);
    if (w->mask)
        g.mask = (const uint8_t *)w->mask + size * (row * w->ldc + column);
    return g;
}

/* Computes a piece into memory that is still in the cache when its rows are handed over. */
static void sink_piece(struct pieces *p, struct sheaf__gemm *g, int64_t row, int64_t column)
{
    int64_t size = (int64_t)sheaf_dtype_size(g->dtype), n = p->whole->n;
    g->c = sheaf__scratch((size_t)(g->m * g->n * size));
    g->ldc = g->n;
    if (!g->c) {
        p->failed = true;
        return;
    }
    compute(p, g);
    finish(g);
    bool whole_rows = g->n == n;
    size_t count = (size_t)(whole_rows ? g->m * n : g->n);
    for (int64_t i = 0; i < (whole_rows ? 1 : g->m); i++)
        g->sink->take(g->sink, (const uint8_t *)g->c + i * g->n * size,
                      (size_t)((row + i) * n + column), count);
}

static void run_piece(size_t i, void *user)
{
    struct pieces *p = user;
    const struct sheaf__gemm *w = p->whole;
    int64_t row = (int64_t)i / p->across * p->rows, column = (int64_t)i % p->across * p->columns;
    struct sheaf__gemm g = part(w, row, column);
    g.m = w->m - row < p->rows ? w->m - row : p->rows;
    g.n = w->n - column < p->columns ? w->n - column : p->columns;
    struct sheaf__flush flush = sheaf__flush_begin();
    if (w->sink) {
        sink_piece(p, &g, row, column);
    } else {
        compute(p, &g);
        finish(&g);
    }
    sheaf__flush_end(flush);
}

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Whether the pieces are worth halving. */
static bool is_large(const struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    int64_t work = g->m * g->n * g->k;
    int64_t least = larger(larger(smaller(PIECE_WORK, work / 2), work / PIECE_MOST), HALF_WORK);
    return p->rows * p->columns * g->k >= 2 * least;
}

static bool halve_rows(struct pieces *p)
{
    if (p->rows < 2 * PIECE_SIDE)
        return false;
    p->rows = round_up((p->rows + 1) / 2, 16);
    return true;
}

static bool halve_columns(struct pieces *p)
{
    if (p->columns < 2 * PIECE_SIDE)
        return false;
    p->columns = round_up((p->columns + 1) / 2, 64);
    return true;
}

/* Strips of whole rows, as far as that goes; the longer the sums, the more rows, for B is gone through for each strip. */
static void cut_strips(struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    p->columns = smaller(g->n, STRIP_COLUMNS);
    p->rows = round_up(larger(STRIP_ELEMENTS / p->columns, g->k / 4), 16);
    p->rows = smaller(p->rows, g->m);
    while (is_large(p) && halve_rows(p))
        ;
}

/* Halves C until the pieces are small enough: first down, so that what a piece writes stays in one stretch of memory,
 * then across. */
static void cut_halves(struct pieces *p)
{
    p->rows = p->whole->m;
    p->columns = p->whole->n;
    while (is_large(p) && (halve_rows(p) || halve_columns(p)))
        ;
}

static sheaf_status choose(const struct sheaf__gemm *g, bool *reference, sheaf_error *err)
{
    int64_t mode = sheaf__config_int(SHEAF__CONFIG_KERNELS);
    *reference = mode == SHEAF__KERNELS_REFERENCE || g->dtype == SHEAF_FLOAT64 || g->k == 0 ||
                 (mode == SHEAF__KERNELS_AUTO && g->m * g->n * g->k < SMALL_WORK);
    if (*reference)
        return SHEAF_OK;
    sheaf_error reason = {0};
    if (sheaf__onednn_open(&reason) >= 0)
        return SHEAF_OK;
    if (mode == SHEAF__KERNELS_ONEDNN)
        return sheaf__error_copy(err, &reason);
    sheaf__log_once(SHEAF_LOG_INFO, "gemm", "reference kernels are used: %s", reason.message);
    *reference = true;
    return SHEAF_OK;
}

sheaf_status sheaf__gemm_run(struct sheaf__device *device, const struct sheaf__gemm *g,
                             sheaf_error *err)
{
    struct pieces p = {.whole = g};
    SHEAF__TRY(choose(g, &p.reference, err));
    if (g->m == 0 || g->n == 0)
        return SHEAF_OK;
    if (g->transpose_a && !g->transpose_b)
        cut_strips(&p);
    else
        cut_halves(&p);
    p.across = (g->n + p.columns - 1) / p.columns;
    size_t count = (size_t)(p.across * ((g->m + p.rows - 1) / p.rows));
    if (count == 1)
        run_piece(0, &p);
    else
        sheaf__device_run(device, count, run_piece, &p);
    return p.failed ? sheaf__no_memory(err, "a matrix product") : SHEAF_OK;
}
