/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm.h"

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

struct pieces {
    const struct sheaf__gemm *whole;
    int64_t rows, columns; /* of a piece */
    int64_t across;        /* pieces side by side */
    bool reference;
};

/* Multiplications that outweigh handing a piece to a thread; most pieces; least sides, below which
 * kernels slow down. */
#define PIECE_WORK INT64_C(2500000)
#define PIECE_MOST 64
#define PIECE_SIDE 128
/* Below this oneDNN is not worth opening and generating code for. */
#define SMALL_WORK (INT64_C(1) << 14)

static void run_piece(size_t i, void *user)
{
    const struct pieces *p = user;
    const struct sheaf__gemm *w = p->whole;
    int64_t size = (int64_t)sheaf_dtype_size(w->dtype);
    int64_t row = (int64_t)i / p->across * p->rows, column = (int64_t)i % p->across * p->columns;
    struct sheaf__gemm g = *w;
    g.m = w->m - row < p->rows ? w->m - row : p->rows;
    g.n = w->n - column < p->columns ? w->n - column : p->columns;
    g.a = (const uint8_t *)w->a + size * (w->transpose_a ? row : row * w->lda);
    g.b = (const uint8_t *)w->b + size * (w->transpose_b ? column * w->ldb : column);
    g.c = (uint8_t *)w->c + size * (row * w->ldc + column);
    if (p->reference || !sheaf__onednn_gemm(&g))
        sheaf__reference_gemm(&g);
}

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Halves C until the pieces are small enough: first down, so that what a piece writes stays in one stretch of memory,
 * then across. */
static void cut(struct pieces *p)
{
    const struct sheaf__gemm *g = p->whole;
    int64_t share = g->m * g->n * g->k / PIECE_MOST;
    int64_t least = share > PIECE_WORK ? share : PIECE_WORK;
    p->rows = g->m;
    p->columns = g->n;
    while (p->rows * p->columns * g->k >= 2 * least) {
        if (p->rows >= 2 * PIECE_SIDE)
            p->rows = round_up((p->rows + 1) / 2, 16);
        else if (p->columns >= 2 * PIECE_SIDE)
            p->columns = round_up((p->columns + 1) / 2, 64);
        else
            break;
    }
}

static sheaf_status choose(const struct sheaf__gemm *g, bool *reference, sheaf_error *err)
{
    int64_t mode = sheaf__config_int(SHEAF__CONFIG_KERNELS);
    *reference = mode == SHEAF__KERNELS_REFERENCE || g->dtype == SHEAF_FLOAT64 ||
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
    cut(&p);
    p.across = (g->n + p.columns - 1) / p.columns;
    int64_t down = (g->m + p.rows - 1) / p.rows;
    if (p.across * down == 1)
        run_piece(0, &p);
    else
        sheaf__device_run(device, (size_t)(p.across * down), run_piece, &p);
    return SHEAF_OK;
}
