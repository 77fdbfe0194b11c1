/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CONFIG_FILE_H
#define SHEAF_BASE_CONFIG_FILE_H

/* The file that SHEAF_CONFIG names: lines "NAME = value" with the names of the table, empty lines and lines that begin
 * with "#". Everything after the "=" is the value, without blanks at its ends. */

#include "base/config.h"

/* What the file says of a variable. */
struct sheaf__config_line {
    const char *text; /* NULL: nothing */
    size_t number;    /* of the line, from 1 */
};

/* Fills `lines`; their texts point into `*memory`, which is freed with sheaf__free(), also after a failure. An unknown
 * name, one that is there twice, or a line of another form is SHEAF_ERR_INVALID_ARGUMENT. */
sheaf_status sheaf__config_file_read(const char *path,
                                     struct sheaf__config_line lines[SHEAF__CONFIG_COUNT],
                                     char **memory, sheaf_error *err);

#endif
