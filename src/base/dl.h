/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_DL_H
#define SHEAF_BASE_DL_H

/* Libraries opened at first use, so that a task pays only for what its role needs. Never closed.
 * Any thread. */

#include <sheaf/status.h>

/* A symbol to find and the pointer to set. */
struct sheaf__dl_symbol {
    const char *name;
    void **address;
};

/* Opens the first of `names` (NULL-terminated sonames, e.g. {"libdnnl.so.3", "libdnnl.so.2", NULL})
 * that the system has and says which one in `*found` (an index; may be NULL). NOT_FOUND lists what
 * was tried and what the loader said; `what` says what it is needed for. */
sheaf_status sheaf__dl_open(const char *const *names, const char *what, void **library, int *found,
                            sheaf_error *err);
/* Sets all pointers, or none and INCOMPATIBLE naming the first symbol that is missing. */
sheaf_status sheaf__dl_symbols(void *library, const char *what,
                               const struct sheaf__dl_symbol *symbols, size_t count,
                               sheaf_error *err);

#endif
