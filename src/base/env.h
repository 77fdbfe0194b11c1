/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_ENV_H
#define SHEAF_BASE_ENV_H

/* The environment of the current context: the process's, or the strings its options gave. */

#include <sheaf/export.h>

/* Value of variable `name`, NULL if it is not set. Valid as long as the context; the process's
 * environment must not be changed meanwhile. */
const char *sheaf__env_get(const char *name);
/* The i-th "NAME=value" string, NULL past the end. */
const char *sheaf__env_at(size_t i);

#endif
