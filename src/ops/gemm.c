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
    int64_t rows, columns, depth; /* of a piece; of k */
    int64_t down, across;         /* pieces below one another, side by side */
    float *second;                /* what the second half of k gives, as C without gaps */
    bool reference;
    _Atomic bool failed; /* no memory for a piece */
};

/* Multiplications of a piece: those that outweigh handing it to a thread, for two pieces; those that
 * outweigh laying out its operands, for more. Most pieces; least sides, below which kernels slow
 * down. */
#define HALF_WORK  INT64_C(80000)
#define PIECE_WORK INT64_C(4000000)
#define PIECE_MOST 64
#define PIECE_SIDE 128
/* Strips of a product with A transposed, a weight's gradient: elements, and most columns. They stay in the second-level
 * cache with what they are used for. */
#define STRIP_ELEMENTS 32768
#define STRIP_COLUMNS  512
/* Most rows of a product that is cut along k; elements that are joined at a time. */
#define FEW_ROWS 256
#define JOINED   8192
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

/* One half of k: the first to C, the second to memory of its own. */
static void compute_half(const struct pieces *p, struct sheaf__gemm *g, bool second, int64_t at)
{
    if (second) {
        g->a = (const float *)g->a + p->depth;
        g->b = (const float *)g->b + p->depth * g->ldb;
        g->c = p->second + at;
        g->ldc = p->whole->n;
    }
    g->k = second ? g->k - p->depth : p->depth;
    compute(p, g);
}

static void run_piece(size_t i, void *user)
{
    struct pieces *p = user;
    const struct sheaf__gemm *w = p->whole;
    int64_t n = (int64_t)i / p->down, row = (int64_t)i % p->down * p->rows;
    int64_t column = n % p->across * p->columns;
    struct sheaf__gemm g = part(w, row, column);
    g.m = smaller(w->m - row, p->rows);
    g.n = smaller(w->n - column, p->columns);
    struct sheaf__flush flush = sheaf__flush_begin();
    if (p->depth < w->k) {
        compute_half(p, &g, n >= p->across, row * w->n + column);
    } else if (w->sink) {
        sink_piece(p, &g, row, column);
    } else {
        compute(p, &g);
        finish(&g);
    }
    sheaf__flush_end(flush);
}

/* Adds the halves of k, for some rows. */
static void join_rows(size_t i, void *user)
{
    const struct pieces *p = user;
    const int64_t n = p->whole->n, row = (int64_t)i * p->rows;
    struct sheaf__gemm g = part(p->whole, row, 0);
    g.m = smaller(g.m - row, p->rows);
    struct sheaf__flush flush = sheaf__flush_begin();
    for (int64_t r = 0; r < g.m; r++) {
        float *c = (float *)g.c + r * g.ldc;
        sheaf__kernels()->add[SHEAF_FLOAT32](c, c, p->second + (row + r) * n, (size_t)n);
    }
    finish(&g);
    if (g.sink)
        g.sink->take(g.sink, g.c, (size_t)(row * n), (size_t)(g.m * n));
    sheaf__flush_end(flush);
}

/* ---- the cut ---- */

/* Whether the pieces are worth halving. */
static bool is_large(const struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    int64_t work = g->m * g->n * g->k;
    int64_t least = larger(larger(smaller(PIECE_WORK, work / 2), work / PIECE_MOST), HALF_WORK);
    return p->rows * p->columns * p->depth >= 2 * least;
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

/* Strips of whole rows, as far as that goes; the longer the sums, the more rows, for B is gone
 * through for each strip. An even number, as equal as can be. */
static void cut_strips(struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    p->columns = smaller(g->n, STRIP_COLUMNS);
    p->rows = round_up(larger(STRIP_ELEMENTS / p->columns, g->k / 4), 16);
    p->rows = smaller(p->rows, g->m);
    while (is_large(p) && halve_rows(p))
        ;
    int64_t count = (g->m + p->rows - 1) / p->rows, even = count + count % 2;
    if (count > 1)
        p->rows = round_up((g->m + even - 1) / even, 8);
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

/* Whether the product is one of few rows with many weights, as on the way forward through a layer:
 * B is much more than A and C, and going through it is what takes time. */
static bool has_few_rows(const struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    return !p->reference && g->dtype == SHEAF_FLOAT32 && !g->transpose_a && !g->transpose_b &&
           g->m <= FEW_ROWS && g->k >= 2 * g->m && g->n >= PIECE_SIDE &&
           g->m * g->n * g->k >= 2 * PIECE_WORK;
}

/* In two along k, then across. The strips of a weight's gradient go down B's rows, too, so that a
 * core reads the weights that it wrote, in one stretch. */
static void cut_depth(struct pieces *p)
{
    p->rows = p->whole->m;
    p->columns = p->whole->n;
    p->depth = round_up((p->whole->k + 1) / 2, 16);
    while (is_large(p) && halve_columns(p))
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

static void run_pieces(struct sheaf__device *device, struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    p->down = (g->m + p->rows - 1) / p->rows;
    p->across = (g->n + p->columns - 1) / p->columns;
    const size_t count = (size_t)(p->down * p->across) << (p->depth < g->k);
    if (count == 1)
        run_piece(0, p);
    else
        sheaf__device_run(device, count, run_piece, p);
}

/* The pieces of both halves of k, in memory of this thread if C goes to a sink, and then their sums. */
static void run_halves(struct sheaf__device *device, struct pieces *p)
{
    struct sheaf__gemm g = *p->whole;
    const size_t elements = (size_t)(g.m * g.n);
    p->second = sheaf__scratch((g.sink ? 2 : 1) * elements * sizeof(float));
    if (!p->second) {
        p->failed = true;
        return;
    }
    if (g.sink) {
        g.c = p->second + elements;
        g.ldc = g.n;
    }
    p->whole = &g;
    run_pieces(device, p);
    p->rows = larger(JOINED / g.n, 1);
    sheaf__device_run(device, (size_t)((g.m + p->rows - 1) / p->rows), join_rows, p);
}

sheaf_status sheaf__gemm_run(struct sheaf__device *device, const struct sheaf__gemm *g,
                             sheaf_error *err)
{
    struct pieces p = {.whole = g};
    SHEAF__TRY(choose(g, &p.reference, err));
    if (g->m == 0 || g->n == 0)
        return SHEAF_OK;
    p.depth = g->k;
    if (has_few_rows(&p)) {
        cut_depth(&p);
        run_halves(device, &p);
    } else {
        if (g->transpose_a && !g->transpose_b)
            cut_strips(&p);
        else
            cut_halves(&p);
        run_pieces(device, &p);
    }
    return p.failed ? sheaf__no_memory(err, "a matrix product") : SHEAF_OK;
}
