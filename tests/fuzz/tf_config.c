/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as TF_CONFIG: either an error in one line, or a config that is whole. */
#include "target.h"

#include "format/tf_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__tf_config *c = NULL;
    sheaf_error err = {0};
    sheaf_status status = sheaf__tf_config_parse((const char *)data, size, "TF_CONFIG", &c, &err);
    if (status < 0) {
        must(status == SHEAF_ERR_INVALID_ARGUMENT && err.status == status && !c);
        must(err.message[0] && !strchr(err.message, '\n'));
        return 0;
    }
    must(c->job_count > 0);
    for (size_t i = 0; i < c->job_count; i++) {
        const struct sheaf__tf_config_job *job = &c->jobs[i];
        must(job->name[0]);
        for (size_t k = 0; k < i; k++)
            must(strcmp(c->jobs[k].name, job->name) != 0);
        for (size_t k = 0; k < job->task_count; k++) {
            must(job->tasks[k].address[0]);
            must(job->tasks[k].index >= 0);
            must(k == 0 || job->tasks[k].index > job->tasks[k - 1].index);
        }
    }
    must(!c->has_task_index || (c->has_task && c->task_index >= 0));
    must(!c->task_type || c->has_task);
    sheaf__tf_config_free(c);
    return 0;
}
