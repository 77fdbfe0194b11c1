/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_TENSOR_H
#define SHEAF_TENSOR_TENSOR_H

/** @file
 *  The tensor itself, and how the rest of the library makes one.
 *
 *  Constructors here return one count that is the *caller's*, and NULL with `err` on failure;
 * sheaf__tensor_give() hands the result to the innermost frame, which is how a public function
 * returns it. Whoever made a tensor may write its elements until others can see it. Headers and
 * buffers are pooled. */

#include "tensor/buffer.h"
#include "tensor/device.h"

#include <sheaf/tensor.h>

#include <stdatomic.h>

/** Our names of sheaf_layout. */
enum sheaf__layout {
    SHEAF__DENSE = SHEAF_LAYOUT_DENSE,
    /** parts: indices (n, rank) int64, values (n); `shape` is the dense one */
    SHEAF__SPARSE = SHEAF_LAYOUT_SPARSE,
    /** parts: values (rows of all, or ragged itself), row splits (rows + 1) int64; later sizes unknown */
    SHEAF__RAGGED = SHEAF_LAYOUT_RAGGED,
    /** gradient of a look-up; parts: indices (n), values (n, …); `shape` is the table's */
    SHEAF__ROWS = SHEAF_LAYOUT_ROWS
};
enum { SHEAF__INDICES = 0, SHEAF__VALUES = 1 };           /**< parts of SPARSE and ROWS */
enum { SHEAF__RAGGED_VALUES = 0, SHEAF__ROW_SPLITS = 1 }; /**< parts of RAGGED */

struct sheaf_tensor {
    struct sheaf__object object; /**< counted: sheaf__ref(), sheaf__unref() */
    sheaf_dtype dtype;
    uint8_t layout;  /**< enum sheaf__layout */
    bool plain;      /**< R4.17: a number, not a tensor in TensorFlow */
    bool contiguous; /**< strides are row-major without gaps */
    sheaf_shape shape;
    int64_t strides[SHEAF_MAX_RANK]; /**< of DENSE, in elements; may be 0 (broadcast) or negative */
    struct sheaf__buffer *buffer;    /**< of DENSE with elements or room; else NULL */
    void *data;                      /**< first element, in the memory of `device` */
    struct sheaf__device *device;    /**< NULL for failed tensors only */
    struct sheaf__heap *heap;        /**< where the header came from */
    _Atomic(struct sheaf__buffer *)
        gathered;           /**< contiguous host copy of a view with gaps, made on demand */
    sheaf_tensor *parts[2]; /**< counted, of the other layouts */
    sheaf_error *error;     /**< failed: the error; else NULL */
    _Atomic uint64_t id;    /**< sheaf__tensor_id(), 0 until asked */
};

/* ---- making ---- */

/** Uninitialised elements on `device` (NULL: the thread's current). String elements are empty. */
sheaf_tensor *sheaf__tensor_new(sheaf_dtype dtype, sheaf_shape shape, struct sheaf__device *device,
                                sheaf_error *err);
/** Elements in `buffer` from byte `offset` on, row-major; takes a count of its own. Fails if they
 * do not fit. */
sheaf_tensor *sheaf__tensor_over(sheaf_dtype dtype, sheaf_shape shape, struct sheaf__buffer *buffer,
                                 size_t offset, sheaf_error *err);
/** As sheaf_tensor_wrap(). */
sheaf_tensor *sheaf__tensor_wrap(sheaf_dtype dtype, sheaf_shape shape, const void *data,
                                 void (*release)(void *data, void *user), void *user,
                                 sheaf_error *err);
/** A view of a dense tensor's memory: `shape`, `strides` in elements (NULL: row-major, wants a
 * contiguous `t`), first element `offset` elements behind t's. The caller vouches for the bounds.
 * Same dtype; not plain. */
sheaf_tensor *sheaf__tensor_view(sheaf_tensor *t, sheaf_shape shape, const int64_t *strides,
                                 int64_t offset, sheaf_error *err);
/** The same tensor under another header, of its own plain flag. */
sheaf_tensor *sheaf__tensor_alias(sheaf_tensor *t, sheaf_error *err);

/** Rows [begin, end) of axis 0, as sheaf_tensor_rows(): a view of the elements of any layout but
 * ROWS. */
sheaf_tensor *sheaf__tensor_slice(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err);
/** A copy on `device`, an alias if it is there already. */
sheaf_tensor *sheaf__tensor_to(sheaf_tensor *t, struct sheaf__device *device, sheaf_error *err);

/** Other layouts; take counts of the parts, whose shapes and dtypes are checked. */
sheaf_tensor *sheaf__tensor_sparse(sheaf_tensor *indices, sheaf_tensor *values, sheaf_shape shape,
                                   sheaf_error *err);
sheaf_tensor *sheaf__tensor_ragged(sheaf_tensor *values, sheaf_tensor *row_splits,
                                   sheaf_error *err);
sheaf_tensor *sheaf__tensor_rows(sheaf_tensor *indices, sheaf_tensor *values, sheaf_shape shape,
                                 sheaf_error *err);

/** A header of another layout than DENSE over two parts, unchecked: what the three above are made
 * of. */
sheaf_tensor *sheaf__tensor_compose(enum sheaf__layout layout, sheaf_tensor *first,
                                    sheaf_tensor *second, sheaf_dtype dtype, sheaf_shape shape,
                                    sheaf_error *err);

/* ---- handing out ---- */

/** Hands the caller's count to the innermost frame and returns `t`. Of NULL: a failed tensor with
 * `err`, also latched in the frame: `return sheaf__tensor_give(sheaf__tensor_new(…, &err), &err);`.
 * Never NULL. */
sheaf_tensor *sheaf__tensor_give(sheaf_tensor *t, const sheaf_error *err);
/** A failed tensor of the frame with that message. */
sheaf_tensor *sheaf__tensor_fail(sheaf_status status, const char *format, ...) SHEAF_PRINTF(2, 3)
    __attribute__((cold));
/** The first failed one of `count` tensors (NULL counts as one), for a builder to return; else
 * NULL. */
sheaf_tensor *sheaf__tensor_first_failed(sheaf_tensor *const *tensors, size_t count);
static inline bool sheaf__tensor_ok(const sheaf_tensor *t)
{
    return t && !t->error;
}

/** Told when a public function gave `to` the elements of `from`: rows from `first` on, or all of them
 * (-1). So that gradients flow through views: ops/ sets it with the first tape. Any thread. */
typedef void (*sheaf__derived_fn)(sheaf_tensor *from, sheaf_tensor *to, int64_t first);
void sheaf__tensor_on_derived(sheaf__derived_fn fn);
/** Tells it, unless `to` failed, and returns `to`. */
sheaf_tensor *sheaf__tensor_derived(sheaf_tensor *from, sheaf_tensor *to, int64_t first);

/* ---- reaching the elements ---- */

/** For the maker: first element, writable, on `t`'s device. */
static inline void *sheaf__tensor_out(sheaf_tensor *t)
{
    return t->data;
}
/** Bytes of a dense tensor's elements. */
size_t sheaf__tensor_size(const sheaf_tensor *t);
/** As sheaf_tensor_data(), with the error: NULL only on failure (an empty tensor gives some
 * address). */
const void *sheaf__tensor_host(const sheaf_tensor *t, sheaf_error *err);
/** Copies the elements, row-major, to host memory `out`. */
sheaf_status sheaf__tensor_copy_out(const sheaf_tensor *t, void *out, sheaf_error *err);

/** Number of its own, never used twice in a process. Any thread. */
uint64_t sheaf__tensor_id(const sheaf_tensor *t);

#endif
