/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file "checkpoint" of a directory: an error that says where, or a state; written, it
 * reads the same. */
#include "format/state_file.h"
#include "base/context.h"
#include "base/file.h"
#include "base/fs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void set_up(void)
{
    static sheaf_context *context;
    static struct sheaf__fs *fs;
    if (context)
        return;
    fs = sheaf__fs_memory_new();
    must(fs && sheaf_context_new(NULL, &context, NULL) == SHEAF_OK);
    sheaf__context_set_fs(context, fs);
    sheaf_context_enter(context);
    must(sheaf__file_mkdir("/d", 0, NULL) == SHEAF_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__state_file s, again;
    sheaf_error err = {0};
    set_up();
    if (sheaf__state_file_parse(&s, (const char *)data, size, "/d/checkpoint", &err) < 0) {
        must(err.status == SHEAF_ERR_DATA_LOSS && err.message[0] && err.offset <= size);
        return 0;
    }
    must(sheaf__state_file_write(&s, "/d", NULL, NULL, &err) == SHEAF_OK);
    must(sheaf__state_file_read(&again, "/d", &err) == SHEAF_OK);
    must(!strcmp(s.latest, again.latest) && s.paths.count == again.paths.count &&
         s.time_count == again.time_count);
    for (size_t i = 0; i < s.paths.count; i++)
        must(!strcmp(s.paths.items[i], again.paths.items[i]));
    for (size_t i = 0; i < s.time_count; i++)
        must(fabs(s.times[i]) >= 9e11 || isnan(s.times[i]) ||
             fabs(s.times[i] - again.times[i]) < 1e-7 + fabs(s.times[i]) * 1e-15);
    sheaf__state_file_free(&s);
    sheaf__state_file_free(&again);
    return 0;
}
