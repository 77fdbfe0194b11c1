/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_FILES_H
#define SHEAF_DATA_FILES_H

#include "data/stage.h"

/* Stages that read the files which their input names, one after the other. */

/* The input of a stage `id` that a user made of names of files, or of an element that is one: both
 * are one stage for the user. */
sheaf_dataset *sheaf__files_of(enum sheaf__stage_id id, const char *const *paths, size_t count);
sheaf_dataset *sheaf__files_of_element(enum sheaf__stage_id id, const sheaf_element *e);

/* SHEAF_ERR_INVALID_ARGUMENT: the input gives no names. */
sheaf_status sheaf__files_check(const sheaf_dataset *d, sheaf_error *err);
/* The name of the next file, sheaf__free(); or SHEAF_END. */
sheaf_status sheaf__files_next(struct sheaf__iter *names, char **path, sheaf_error *err);

#endif
