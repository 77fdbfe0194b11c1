/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_LOCATE_H
#define SHEAF_DATA_LOCATE_H

#include "data/stage.h"

/* Adds to an error of a stage about `bytes`, a string of `t`, the file, record and offset that they are of, if they
 * are a view of what records were read from. */
void sheaf__locate(const struct sheaf__iter *stage, const sheaf_tensor *t, sheaf_bytes bytes,
                   sheaf_error *err);

#endif
