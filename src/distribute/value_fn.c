/* SPDX-License-Identifier: Apache-2.0 */

/* Values made by a function of the program, one for each local replica (R4.32). */

#include "base/error.h"
#include "distribute/strategy.h"
#include "distribute/values.h"
#include "tensor/called.h"
#include "tensor/frame.h"

static sheaf_status call_value_fn(const sheaf_strategy *s, int local, sheaf_value_fn fn, void *user,
                                  sheaf_element **made, sheaf_error *err)
{
    const sheaf_value_context context = {.replica_id_in_sync_group = s->first + local,
                                         .num_replicas_in_sync = s->total};
    SHEAF_FRAME
    {
        sheaf_element *e = sheaf_element_new();
        sheaf__error_listen();
        SHEAF__TRY(sheaf__called(fn(&context, e, user), err, "the value function of replica %d",
                                 s->first + local));
        SHEAF__TRY(sheaf__element_status(e, err));
        *made = sheaf_element_keep(e);
    }
    return SHEAF_OK;
}

sheaf_status sheaf_distribute_values_from_function(sheaf_strategy *s, sheaf_value_fn fn, void *user,
                                                   sheaf_values **out, sheaf_error *err)
{
    s = sheaf__strategy_or_current(s);
    SHEAF__TRY(sheaf__strategy_check_cross(s, "sheaf_distribute_values_from_function", err));
    if (!fn)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the value function is NULL");
    sheaf_element *made[SHEAF__MOST_REPLICAS] = {0};
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < s->local && status >= 0; i++)
        status = call_value_fn(s, i, fn, user, &made[i], err);
    if (status >= 0)
        status = sheaf__values_check(made, s->local, err);
    const bool bare =
        s->cls == &sheaf__strategy_default_class || s->cls == &sheaf__strategy_one_class;
    sheaf_values *v = status < 0 ? NULL : sheaf__values_new(made, s->local, !bare, err);
    for (int i = 0; i < s->local; i++)
        sheaf_element_free(made[i]);
    if (!v)
        return status < 0 ? status : SHEAF_ERR_RESOURCE_EXHAUSTED;
    v = sheaf__frame_own(v);
    if (!v)
        return sheaf__no_memory(err, "distributed values");
    *out = v;
    return SHEAF_OK;
}
