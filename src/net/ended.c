/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ended.h"

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

bool sheaf__ended_is_known(void)
{
    return *sheaf__config_text(SHEAF__CONFIG_ENDED_FILE) != '\0';
}

/* What the file says after "worker:1 ", up to the end of the line, which is written last. */
static const char *find(const char *text, const sheaf_task *task, int *length)
{
    char name[sizeof(task->job) + 16];
    const size_t size =
        (size_t)snprintf(name, sizeof(name), "%s:%" PRId32 " ", task->job, task->index);
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        if ((size_t)(end - text) > size && memcmp(text, name, size) == 0) {
            *length = (int)((size_t)(end - text) - size);
            return text + size;
        }
    return NULL;
}

bool sheaf__ended(const sheaf_task *task, bool *well, sheaf_error *err)
{
    static const char good[] = "ended with exit code 0";
    char *text = NULL;
    size_t size;
    int length = 0;
    if (!sheaf__ended_is_known() ||
        sheaf__file_read_all(sheaf__config_text(SHEAF__CONFIG_ENDED_FILE), MOST_BYTES, &text, &size,
                             NULL) < 0)
        return false;
    const char *how = find(text, task, &length);
    if (how)
        sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "it %.*s", length, how);
    if (how && well)
        *well = length == sizeof(good) - 1 && memcmp(how, good, sizeof(good) - 1) == 0;
    sheaf__free(text);
    return how != NULL;
}
