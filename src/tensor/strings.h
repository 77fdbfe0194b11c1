/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_STRINGS_H
#define SHEAF_TENSOR_STRINGS_H

/** @file
 *  String tensors: arrays of sheaf_bytes, views of bytes that live elsewhere.
 *
 *  sheaf__tensor_new(SHEAF_STRING, …) makes one with empty elements; the maker writes the views
 * through sheaf__tensor_out() and names what must live as long with sheaf__string_keep(): a mapped
 * file, a buffer, another string tensor's buffer. */

#include "tensor/tensor.h"

/** Lets `object` (counted; starts with struct sheaf__object) live as long as the elements of `t`.
 */
static inline sheaf_status sheaf__string_keep(sheaf_tensor *t, void *object, sheaf_error *err)
{
    return sheaf__buffer_keep(t->buffer, object, err);
}
/** Lets everything live on which the elements of the string tensor `from` rest: its views may be
 * copied to `t`. */
sheaf_status sheaf__string_keep_like(sheaf_tensor *t, const sheaf_tensor *from, sheaf_error *err);

/** Refuses strings that are NULL, and one that has a size and no bytes; `what` is what one is called. */
sheaf_status sheaf__strings_check(const sheaf_bytes *strings, size_t count, const char *what,
                                  sheaf_error *err);
/** A string tensor of copies of `count` = elements of `shape` strings (NULL: empty ones). */
sheaf_tensor *sheaf__string_copy(sheaf_shape shape, const sheaf_bytes *strings, sheaf_error *err);

/** Room for the bytes of strings whose number and size are not known before; its chunks are kept by
 * every tensor that sheaf__string_room_keep() names. Zeroed is empty. One thread. */
struct sheaf__string_room {
    struct sheaf__buffer **chunks;
    size_t count, capacity;
    size_t used; /**< of the last chunk */
};
/** `size` bytes, not cleared; NULL without memory. Stays where it is. */
char *sheaf__string_room_alloc(struct sheaf__string_room *room, size_t size, sheaf_error *err);
/** Lets every chunk there is now live as long as the elements of `t`. */
sheaf_status sheaf__string_room_keep(const struct sheaf__string_room *room, sheaf_tensor *t,
                                     sheaf_error *err);
/** Gives up the room's own counts. */
void sheaf__string_room_free(struct sheaf__string_room *room);

#endif
