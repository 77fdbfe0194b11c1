/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_GEMM_H
#define SHEAF_OPS_GEMM_H

/** @file
 *  Matrix products over plain memory: the split over threads, and the kernels behind it. */

#include "tensor/device.h"

#include <sheaf/tensor.h>

/** C (m, n) = A (m, k) · B (k, n), row-major. A transposed matrix is stored the other way round,
 * (k, m) or (n, k). */
struct sheaf__gemm {
    sheaf_dtype dtype; /**< of all three: float32, bfloat16 (summed in float), float64 */
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;          /**< elements from row to row as stored */
    const void *bias;               /**< (n), added to every row; NULL: none */
    bool relu;                      /**< after a bias: negative elements become 0 */
    const void *mask;               /**< lies as C: where it is not positive, 0; NULL: none */
    const struct sheaf__sink *sink; /**< takes C in stretches of elements instead; NULL: to `c` */
};

/** Takes the elements of an array while they are computed and still in the cache, once each: on any of the device's
 * threads, stretch by stretch, row-major. */
struct sheaf__sink {
    void (*take)(const struct sheaf__sink *sink, const void *elements, size_t first, size_t count);
    void *user;
    size_t number; /**< which array, for the taker */
};

/** Computes on the device's threads. The pieces depend on the sizes alone, so that the bits depend neither on the number
 * of threads nor on whether a sink takes them. SHEAF_KERNELS says which kernels: by default oneDNN's where it
 * is installed and the product is worth it, else the reference. */
sheaf_status sheaf__gemm_run(struct sheaf__device *device, const struct sheaf__gemm *g,
                             sheaf_error *err);

/** One thread, portable; each element is summed over k in ascending order. Product alone. */
void sheaf__reference_gemm(const struct sheaf__gemm *g);

/** Opens oneDNN at first use; with the reason if it cannot be had. */
sheaf_status sheaf__onednn_open(sheaf_error *err);
/** Product alone, on the calling thread, whatever OpenMP was told. Only after open succeeded. False: not for
 * this dtype on this processor. */
bool sheaf__onednn_gemm(const struct sheaf__gemm *g);

#endif
