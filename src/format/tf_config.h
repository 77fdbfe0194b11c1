/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_TF_CONFIG_H
#define SHEAF_FORMAT_TF_CONFIG_H

/* The text of TF_CONFIG as a plain struct (R6.35, R6.40, R6.41).
 *
 * What the text alone can tell is checked here: JSON without duplicate keys, a non-empty "cluster"
 * of jobs that are lists or maps of addresses, indices that are whole numbers >= 0 ("1" is taken
 * for 1, as TensorFlow does). What needs the whole cluster (names of jobs, this task's place,
 * addresses that occur twice) is checked by cluster/, for every source alike. Unknown keys are
 * accepted everywhere (S19). */

#include <sheaf/status.h>

struct sheaf__tf_config_task {
    int32_t index;
    char *address; /* as written, not empty */
};

struct sheaf__tf_config_job {
    char *name;
    struct sheaf__tf_config_task *tasks; /* ascending by index; gaps are allowed in a map */
    size_t task_count;                   /* 0: the job is there and empty */
};

struct sheaf__tf_config {
    struct sheaf__tf_config_job *jobs; /* in the order of the text */
    size_t job_count;                  /* at least 1 */
    char *task_type;                   /* NULL: no "task", or one without "type" */
    int32_t task_index;
    bool has_task;        /* there is a "task" */
    bool has_task_index;  /* and it has an "index" */
    char *rpc_layer;      /* NULL: not given */
    char *session_master; /* NULL: not given */
    char *environment;    /* NULL: not given */
};

/* Parses `size` bytes of JSON. `source` names them in messages ("TF_CONFIG").
 * SHEAF_ERR_INVALID_ARGUMENT: empty, not JSON (line, column and what is wrong there), a duplicate
 * key, or the key that does not fit with what was found and what was expected. */
sheaf_status sheaf__tf_config_parse(const char *json, size_t size, const char *source,
                                    struct sheaf__tf_config **config, sheaf_error *err);
void sheaf__tf_config_free(struct sheaf__tf_config *config);

#endif
