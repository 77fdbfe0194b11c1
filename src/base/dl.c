/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dl.h"

#include "base/error.h"
#include "base/str.h"

#include <dlfcn.h>
#include <string.h>

sheaf_status sheaf__dl_open(const char *const *names, const char *what, void **library, int *found,
                            sheaf_error *err)
{
    struct sheaf__str tried = {0};
    sheaf_status status = SHEAF_ERR_NOT_FOUND;
    for (int i = 0; names[i]; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle) {
            *library = handle;
            if (found)
                *found = i;
            status = SHEAF_OK;
            break;
        }
        const char *said = dlerror();
        sheaf__str_printf(&tried, "%s%s", i ? "; " : "", said ? said : names[i]);
    }
    if (status < 0)
        sheaf__error(err, status, "library for %s not found: %s", what, sheaf__str_text(&tried));
    sheaf__str_free(&tried);
    return status;
}

sheaf_status sheaf__dl_symbols(void *library, const char *what,
                               const struct sheaf__dl_symbol *symbols, size_t count,
                               sheaf_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!dlsym(library, symbols[i].name))
            return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE,
                                "the library found for %s has no function %s", what,
                                symbols[i].name);
    for (size_t i = 0; i < count; i++)
        *symbols[i].address = dlsym(library, symbols[i].name);
    return SHEAF_OK;
}
