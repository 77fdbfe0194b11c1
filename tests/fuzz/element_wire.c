/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an element: reading ends and stays in them; what was read, written and read again is the same,
 * byte for byte, wherever it lies. */
#include "target.h"

#include "format/element_wire.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Reads the bytes where they lie, or one byte further. */
static sheaf_element *get(const void *data, size_t size, size_t shift, uint8_t **copy, size_t *used)
{
    sheaf_error err = {0};
    sheaf_element *e = NULL;
    uint8_t *bytes = sheaf__alloc_aligned(size + shift);
    must(bytes);
    if (size)
        memcpy(bytes + shift, data, size);
    struct sheaf__cursor c = sheaf__cursor_of(bytes + shift, size);
    sheaf_status status = sheaf__element_wire_get(&c, 0, NULL, &e, &err);
    must((status == SHEAF_OK) == (e != NULL));
    must(status == SHEAF_OK || (status == SHEAF_ERR_DATA_LOSS && err.message[0]));
    *used = sheaf__cursor_offset(&c);
    *copy = bytes;
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copies[3];
    size_t used;
    struct sheaf__buf one = {0}, two = {0};
    sheaf_error err;
    sheaf_element *e = get(data, size, 0, &copies[0], &used), *again;
    if (e) {
        must(sheaf__element_wire_put(&one, 0, 0, e, &err) == SHEAF_OK);
        for (size_t shift = 0; shift < 2; shift++) {
            again = get(one.data, one.size, shift, &copies[1 + shift], &used);
            must(again && used == one.size && again->count == e->count);
            must(sheaf__element_wire_put(&two, 0, 0, again, &err) == SHEAF_OK);
            must(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
            sheaf__unref(again);
            sheaf__buf_clear(&two);
            sheaf__free(copies[1 + shift]);
        }
    }
    sheaf__unref(e);
    sheaf__buf_free(&one);
    sheaf__buf_free(&two);
    sheaf__free(copies[0]);
    return 0;
}
