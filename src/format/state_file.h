/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_STATE_FILE_H
#define SHEAF_FORMAT_STATE_FILE_H

/* The text file "checkpoint" of a directory, which names its checkpoints (formats.md 4.8). */

#include "base/array.h"

#include <sheaf/status.h>

struct sheaf__state_file {
    char *latest;                /* model_checkpoint_path; NULL: not there */
    struct sheaf__strings paths; /* all_model_checkpoint_paths, oldest first */
    double *times;               /* all_model_checkpoint_timestamps; may be fewer than paths */
    size_t time_count, time_capacity;
    double last_preserved;
    bool has_last_preserved;
};

/* SHEAF_ERR_DATA_LOSS: the text does not parse, has a field that is none, or no latest checkpoint;
 * names `file` and the offset. */
sheaf_status sheaf__state_file_parse(struct sheaf__state_file *s, const char *text, size_t size,
                                     const char *file, sheaf_error *err);
/* Reads `<directory>/checkpoint`. SHEAF_ERR_NOT_FOUND too. */
sheaf_status sheaf__state_file_read(struct sheaf__state_file *s, const char *directory,
                                    sheaf_error *err);
/* Puts it in place, durably; `before` and `user` as in sheaf__file_replace_if(). */
sheaf_status sheaf__state_file_write(const struct sheaf__state_file *s, const char *directory,
                                     sheaf_status (*before)(void *user, sheaf_error *err),
                                     void *user, sheaf_error *err);
/* Appends a path with its time (seconds since 1970). Times that older paths lack are filled up with
 * `time`. False: no memory. */
bool sheaf__state_file_add(struct sheaf__state_file *s, const char *path, double time);
/* The same at place `at`, at most the number of paths. */
bool sheaf__state_file_insert(struct sheaf__state_file *s, size_t at, const char *path,
                              double time);
/* Appends one that is the latest from now on. */
bool sheaf__state_file_add_latest(struct sheaf__state_file *s, const char *path, double time);
/* Takes path `i` out. */
void sheaf__state_file_drop(struct sheaf__state_file *s, size_t i);
void sheaf__state_file_free(struct sheaf__state_file *s);

#endif
