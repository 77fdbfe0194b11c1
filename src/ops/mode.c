/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/mode.h"

#include <stddef.h>

static const struct sheaf__mode default_mode = {.kind = SHEAF__MODE_DEFAULT};
static _Thread_local const struct sheaf__mode *current;

const struct sheaf__mode *sheaf__mode_current(void)
{
    return current ? current : &default_mode;
}

void sheaf__mode_push(struct sheaf__mode *mode)
{
    mode->parent = current;
    current = mode;
}

void sheaf__mode_pop(struct sheaf__mode *mode)
{
    if (current == mode)
        current = mode->parent;
}
