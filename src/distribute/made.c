/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/made.h"

#include "base/array.h"
#include "base/mem.h"
#include "base/thread.h"

struct sheaf__made {
    struct sheaf__object object;
    struct sheaf__mutex lock;
    struct sheaf__pointers variables;
};

static void destroy(void *object)
{
    struct sheaf__made *made = object;
    sheaf__pointers_clear(&made->variables);
    sheaf__free(made);
}

static const struct sheaf__class made_class = {"made", destroy};

struct sheaf__made *sheaf__made_new(void)
{
    struct sheaf__made *made = sheaf__calloc(1, sizeof(*made));
    if (made)
        sheaf__object_init(&made->object, &made_class);
    return made;
}

bool sheaf__made_add(struct sheaf__made *made, sheaf_variable *v)
{
    sheaf__mutex_lock(&made->lock);
    v->number = (uint32_t)made->variables.count;
    bool added = sheaf__pointers_add(&made->variables, v);
    sheaf__mutex_unlock(&made->lock);
    return added;
}

void sheaf__made_remove(struct sheaf__made *made, const sheaf_variable *v)
{
    sheaf__mutex_lock(&made->lock);
    if (v->number < made->variables.count && made->variables.items[v->number] == v)
        made->variables.items[v->number] = NULL;
    sheaf__mutex_unlock(&made->lock);
}

sheaf_variable *sheaf__made_get(struct sheaf__made *made, uint64_t number)
{
    sheaf__mutex_lock(&made->lock);
    sheaf_variable *v =
        number < made->variables.count ? made->variables.items[(size_t)number] : NULL;
    sheaf__mutex_unlock(&made->lock);
    return v;
}
