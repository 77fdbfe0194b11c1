/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_RECORDS_H
#define SHEAF_DATA_RECORDS_H

#include "data/stage.h"
#include "format/record.h"

/* Records of the files that `names` (used up) names, as stage `id`; fails with `err` if it holds
 * an error. */
sheaf_dataset *sheaf__records_of(enum sheaf__stage_id id, sheaf_dataset *names,
                                 const struct sheaf__record_options *options,
                                 const sheaf_error *err);

#endif
