/* SPDX-License-Identifier: Apache-2.0 */
#include "base/object.h"

void sheaf__unref(void *object)
{
    struct sheaf__object *o = object;
    if (!o)
        return;
    /* Who has the only count has the object: nobody is left to race with. */
    if (sheaf__object_unique(o))
        atomic_store_explicit(&o->refs, 0, memory_order_relaxed);
    else if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    o->cls->destroy(o);
}
