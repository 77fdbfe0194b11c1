/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FUZZ_TARGET_H
#define SHEAF_FUZZ_TARGET_H

/* What fuzz targets have in common. */

#include "base/context.h"
#include "base/fs.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(bool holds)
{
    if (!holds)
        abort();
}

/* Enters a context whose files are in memory, once: true then. `log` may be NULL. */
static inline bool files_in_memory(sheaf_log_fn log)
{
    static sheaf_context *context;
    static struct sheaf__fs *fs;
    if (context)
        return false;
    fs = sheaf__fs_memory_new();
    must(fs && sheaf_context_new(&(sheaf_context_options){.log = log}, &context, NULL) == SHEAF_OK);
    sheaf__context_set_fs(context, fs);
    sheaf_context_enter(context);
    return true;
}

#endif
