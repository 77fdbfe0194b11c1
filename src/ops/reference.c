/* SPDX-License-Identifier: Apache-2.0 */
/* Reference matrix product: portable, one order of summation, what the others are checked against.
 */
#include "ops/gemm.h"

#include "tensor/half.h"

#include <string.h>

enum { ROWS = 32, COLUMNS = 128, DEPTH = 32 };

#define ITSELF(x) (x)

/* A block of C is summed up in `wide`; panels of B are converted and laid out in rows first, so
 * that the inner loop is the same for every dtype and transposition and can be vectorised without
 * changing the order of summation. */
#define REFERENCE(name, type, wide, load, store)                                                  \
    static void name##_panel(const struct sheaf__gemm *g, int64_t k0, int64_t depth, int64_t j0,  \
                             int64_t columns, wide panel[DEPTH][COLUMNS])                         \
    {                                                                                             \
        const type *b = g->b;                                                                     \
        for (int64_t k = 0; k < depth; k++)                                                       \
            for (int64_t j = 0; j < columns; j++) {                                               \
                int64_t at =                                                                      \
                    g->transpose_b ? (j0 + j) * g->ldb + k0 + k : (k0 + k) * g->ldb + j0 + j;     \
                panel[k][j] = load(b[at]);                                                        \
            }                                                                                     \
    }                                                                                             \
    static void name##_block(const struct sheaf__gemm *g, int64_t i0, int64_t rows, int64_t j0,   \
                             int64_t columns)                                                     \
    {                                                                                             \
        wide sum[ROWS][COLUMNS], panel[DEPTH][COLUMNS];                                           \
        const type *a = g->a;                                                                     \
        type *c = g->c;                                                                           \
        for (int64_t i = 0; i < rows; i++)                                                        \
            memset(sum[i], 0, (size_t)columns * sizeof(wide));                                    \
        for (int64_t k0 = 0; k0 < g->k; k0 += DEPTH) {                                            \
            int64_t depth = g->k - k0 < DEPTH ? g->k - k0 : DEPTH;                                \
            name##_panel(g, k0, depth, j0, columns, panel);                                       \
            for (int64_t i = 0; i < rows; i++)                                                    \
                for (int64_t k = 0; k < depth; k++) {                                             \
                    int64_t at =                                                                  \
                        g->transpose_a ? (k0 + k) * g->lda + i0 + i : (i0 + i) * g->lda + k0 + k; \
                    wide x = load(a[at]);                                                         \
                    for (int64_t j = 0; j < columns; j++)                                         \
                        sum[i][j] += x * panel[k][j];                                             \
                }                                                                                 \
        }                                                                                         \
        for (int64_t i = 0; i < rows; i++)                                                        \
            for (int64_t j = 0; j < columns; j++)                                                 \
                c[(i0 + i) * g->ldc + j0 + j] = store(sum[i][j]);                                 \
    }                                                                                             \
    static void name(const struct sheaf__gemm *g)                                                 \
    {                                                                                             \
        for (int64_t i = 0; i < g->m; i += ROWS)                                                  \
            for (int64_t j = 0; j < g->n; j += COLUMNS)                                           \
                name##_block(g, i, g->m - i < ROWS ? g->m - i : ROWS, j,                          \
                             g->n - j < COLUMNS ? g->n - j : COLUMNS);                            \
    }

REFERENCE(gemm_f32, float, float, ITSELF, ITSELF)
REFERENCE(gemm_f64, double, double, ITSELF, ITSELF)
REFERENCE(gemm_bf16, uint16_t, float, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float)

void sheaf__reference_gemm(const struct sheaf__gemm *g)
{
    if (g->dtype == SHEAF_FLOAT32)
        gemm_f32(g);
    else if (g->dtype == SHEAF_FLOAT64)
        gemm_f64(g);
    else
        gemm_bf16(g);
}
