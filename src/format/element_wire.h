/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_ELEMENT_WIRE_H
#define SHEAF_FORMAT_ELEMENT_WIRE_H

/* An element as bytes, which are read where they lie: tensors of the result are views of them.
 *
 *     element  pattern (byte), number of tensors, tensors
 *     tensor   size of the name, name, body
 *     body     dtype, layout (byte), plain (byte), number of axes, size + 1 of each (0: unknown), then
 *              dense numbers: zeros up to an address that fits them, the numbers
 *              dense strings: size of each, then the bytes of all
 *              any other layout: the bodies of its two parts
 *
 * Numbers without a size given are varints. */

#include "base/buf.h"
#include "base/object.h"
#include "tensor/element.h"

/* Addresses are counted from the start of the bytes, which stands `phase` bytes after a multiple of
 * this. */
#define SHEAF__ELEMENT_ALIGN 64

/* Appends `e` to a buffer whose byte `start` is the first of the bytes. */
sheaf_status sheaf__element_wire_put(struct sheaf__buf *buf, size_t start, size_t phase,
                                     const sheaf_element *e, sheaf_error *err);
/* The element that begins at the cursor, which moves behind it; `c->start` is the first of the
 * bytes, `owner` (counted) keeps them alive. The caller's count. SHEAF_ERR_DATA_LOSS: the bytes are
 * no element. */
sheaf_status sheaf__element_wire_get(struct sheaf__cursor *c, size_t phase, void *owner,
                                     sheaf_element **e, sheaf_error *err);

#endif
