/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"

#include "base/mem.h"
#include "base/thread.h"

struct scratch {
    _Alignas(SHEAF__MEM_ALIGN) size_t size;
    _Alignas(SHEAF__MEM_ALIGN) char data[];
};

void *sheaf__scratch(size_t size)
{
    static struct sheaf__local mine = SHEAF__LOCAL_INIT(sheaf__free);
    struct scratch *s = sheaf__local_get(&mine);
    if (s && s->size >= size)
        return s->data;
    size_t whole;
    bool fits = !sheaf__add_overflows(size, sizeof(*s), &whole);
    struct scratch *larger = fits ? sheaf__alloc_aligned(whole) : NULL;
    if (!larger || !sheaf__local_set(&mine, larger)) {
        sheaf__free(larger);
        return NULL;
    }
    sheaf__free(s);
    larger->size = size;
    return larger->data;
}
