/* SPDX-License-Identifier: Apache-2.0 */
#include "base/object.h"

void sheaf__unref(void *object)
{
    struct sheaf__object *o = object;
    if (o && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1)
        o->cls->destroy(o);
}
