/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_OBJECT_H
#define SHEAF_BASE_OBJECT_H

/* Counted objects. The struct is the first member of every object that is shared. */

#include <stdatomic.h>
#include <stdint.h>

struct sheaf__class {
    const char *name;
    void (*destroy)(void *object); /* frees the object; the count is 0, nobody else has it */
};

struct sheaf__object {
    _Atomic int64_t refs;
    const struct sheaf__class *cls;
};

/* Gives the object its class and one count, the caller's. */
static inline void sheaf__object_init(struct sheaf__object *object, const struct sheaf__class *cls)
{
    atomic_init(&object->refs, 1);
    object->cls = cls;
}
/* Any thread that has a count. Returns the object; NULL is nothing. */
static inline void *sheaf__ref(void *object)
{
    struct sheaf__object *o = object;
    if (o)
        atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return object;
}
/* Gives a count back and destroys the object with the last. NULL is nothing. */
void sheaf__unref(void *object);
/* True if the caller's count is the only one: it may change the object in place. */
static inline int sheaf__object_unique(const void *object)
{
    const struct sheaf__object *o = object;
    return atomic_load_explicit(&((struct sheaf__object *)(uintptr_t)o)->refs,
                                memory_order_acquire) == 1;
}

#endif
