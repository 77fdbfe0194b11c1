/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file "checkpoint" of a directory: an error that says where, or a state; written, it
 * reads the same. */
#include "target.h"

#include "base/file.h"
#include "format/state_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__state_file s, again;
    sheaf_error err = {0};
    if (files_in_memory(NULL))
        must(sheaf__file_mkdir("/d", 0, NULL) == SHEAF_OK);
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
