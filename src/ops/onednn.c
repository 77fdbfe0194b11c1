/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows oneDNN. Its matrix products are the same C functions in versions 2 and
 * 3; they are called from our own threads, each of which must look to OpenMP (which Debian's oneDNN
 * runs on) like a program that wants one thread, or idle OpenMP threads would spin beside ours. The
 * setting is per thread and put back after each call, since the program may use OpenMP itself. So are the signals, which
 * wait meanwhile. */
#include "ops/gemm.h"

#include "base/dl.h"
#include "base/error.h"
#include "base/thread.h"
#include "tensor/half.h"

/* Of dnnl.h; ours so that the headers are not needed to build. */
typedef int (*sgemm_fn)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                        const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                        float *c, int64_t ldc);
typedef int (*bf16_gemm_fn)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                            const uint16_t *a, int64_t lda, const uint16_t *b, int64_t ldb,
                            float beta, float *c, int64_t ldc);
struct dnnl_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
};
typedef const struct dnnl_version *(*version_fn)(void);

static struct {
    sgemm_fn sgemm;
    bf16_gemm_fn bf16_gemm; /* NULL: not offered */
    version_fn version;
    void (*set_threads)(int n); /* NULL: not built on OpenMP */
    int (*get_threads)(void);
    sheaf_error error;
} dnnl;

static void open_library(void)
{
    /* Debian 13 calls its version 3.7 so.3.6; the last is of the package for developers. */
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2",
                                        "libdnnl.so", NULL};
    const struct sheaf__dl_symbol needed[] = {
        {"dnnl_sgemm", (void **)&dnnl.sgemm},
        {"dnnl_version", (void **)&dnnl.version},
    };
    const struct sheaf__dl_symbol bf16 = {"dnnl_gemm_bf16bf16f32", (void **)&dnnl.bf16_gemm};
    const struct sheaf__dl_symbol openmp[] = {
        {"omp_set_num_threads", (void **)&dnnl.set_threads},
        {"omp_get_max_threads", (void **)&dnnl.get_threads},
    };
    void *library = NULL;
    int found = 0;
    if (sheaf__dl_open(names, "matrix products", &library, &found, &dnnl.error) < 0 ||
        sheaf__dl_symbols(library, names[found], needed, 2, &dnnl.error) < 0)
        return;
    int major = dnnl.version()->major;
    if (major != 2 && major != 3) {
        sheaf__error(&dnnl.error, SHEAF_ERR_INCOMPATIBLE,
                     "%s is oneDNN version %d, expected 2 or 3", names[found], major);
        return;
    }
    /* Optional ones leave NULL behind. */
    (void)sheaf__dl_symbols(library, names[found], &bf16, 1, NULL);
    (void)sheaf__dl_symbols(library, names[found], openmp, 2, NULL);
}

sheaf_status sheaf__onednn_open(sheaf_error *err)
{
    static struct sheaf__once once = SHEAF__ONCE_INIT;
    sheaf__once(&once, open_library);
    return dnnl.error.status < 0 ? sheaf__error_copy(err, &dnnl.error) : SHEAF_OK;
}

/* What a call of the library changes on this thread. */
struct entered {
    int threads;
    sigset_t signals;
};

/* Makes OpenMP single-threaded, and keeps signals away: the library's kernels use the stack pointer as a pointer to data, and
 * a handler that runs meanwhile would have its frame in the middle of somebody's memory. */
static struct entered enter(void)
{
    struct entered before = {.threads = dnnl.set_threads ? dnnl.get_threads() : 1};
    sheaf__signals_hold(&before.signals);
    if (before.threads != 1)
        dnnl.set_threads(1);
    return before;
}

static void leave(const struct entered *before)
{
    if (before->threads != 1)
        dnnl.set_threads(before->threads);
    sheaf__signals_release(&before->signals);
}

static char letter(bool transpose)
{
    return transpose ? 'T' : 'N';
}

static bool gemm_f32(const struct sheaf__gemm *g, float *c, int64_t ldc)
{
    return dnnl.sgemm(letter(g->transpose_a), letter(g->transpose_b), g->m, g->n, g->k, 1, g->a,
                      g->lda, g->b, g->ldb, 0, c, ldc) == 0;
}

/* oneDNN's result is float: computed in blocks that fit the stack, then rounded. */
static bool gemm_bf16(const struct sheaf__gemm *g)
{
    enum { ROWS = 64, COLUMNS = 128 };
    _Alignas(64) float block[ROWS * COLUMNS];
    for (int64_t i = 0; i < g->m; i += ROWS)
        for (int64_t j = 0; j < g->n; j += COLUMNS) {
            int64_t rows = g->m - i < ROWS ? g->m - i : ROWS;
            int64_t columns = g->n - j < COLUMNS ? g->n - j : COLUMNS;
            const uint16_t *a = (const uint16_t *)g->a + (g->transpose_a ? i : i * g->lda);
            const uint16_t *b = (const uint16_t *)g->b + (g->transpose_b ? j * g->ldb : j);
            if (dnnl.bf16_gemm(letter(g->transpose_a), letter(g->transpose_b), rows, columns, g->k,
                               1, a, g->lda, b, g->ldb, 0, block, columns) != 0)
                return false;
            uint16_t *c = (uint16_t *)g->c + i * g->ldc + j;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++)
                    c[r * g->ldc + s] = sheaf__bfloat16_of_float(block[r * columns + s]);
        }
    return true;
}

/* Few rows times a transposed matrix: oneDNN would transpose the large one. Computing the
 * transposed result from the matrices as they are stored takes two thirds of the time. */
static bool gemm_narrow(const struct sheaf__gemm *g)
{
    enum { SCRATCH = 8192 };
    _Alignas(64) float scratch[SCRATCH];
    int64_t most = SCRATCH / g->m;
    for (int64_t j = 0; j < g->n; j += most) {
        int64_t columns = g->n - j < most ? g->n - j : most;
        const float *b = (const float *)g->b + j * g->ldb;
        if (dnnl.sgemm('N', 'T', columns, g->m, g->k, 1, b, g->ldb, g->a, g->lda, 0, scratch,
                       g->m) != 0)
            return false;
        float *c = (float *)g->c + j;
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t s = 0; s < columns; s++)
                c[i * g->ldc + s] = scratch[s * g->m + i];
    }
    return true;
}

bool sheaf__onednn_gemm(const struct sheaf__gemm *g)
{
    bool done = false;
    const struct entered before = enter();
    if (g->dtype == SHEAF_FLOAT32)
        done = g->transpose_b && !g->transpose_a && g->m <= 32 && g->n >= 64 && g->k >= 64
                   ? gemm_narrow(g)
                   : gemm_f32(g, g->c, g->ldc);
    else if (g->dtype == SHEAF_BFLOAT16 && dnnl.bf16_gemm)
        done = gemm_bf16(g);
    leave(&before);
    return done;
}
