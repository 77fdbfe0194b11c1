/* SPDX-License-Identifier: Apache-2.0 */
#include <sheaf/checkpoint.h>

/* The public calls that know variables and optimizers, through their public headers. */

void sheaf_checkpoint_add_variable(sheaf_checkpoint *c, const char *name, sheaf_variable *v)
{
    sheaf_checkpoint_add(c, name, sheaf_variable_trackable(v));
}

void sheaf_checkpoint_add_variables(sheaf_checkpoint *c, sheaf_variable *const *variables,
                                    size_t count)
{
    if (!variables && count > 0)
        sheaf_checkpoint_add_variable(c, NULL, NULL);
    for (size_t i = 0; variables && i < count; i++)
        sheaf_checkpoint_add_variable(c, sheaf_variable_name(variables[i]), variables[i]);
}

void sheaf_checkpoint_add_optimizer(sheaf_checkpoint *c, const char *name, sheaf_optimizer *o)
{
    sheaf_checkpoint_add(c, name, sheaf_optimizer_trackable(o));
}
