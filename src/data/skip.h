/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SKIP_H
#define SHEAF_DATA_SKIP_H

#include <sheaf/dataset.h>

/* A skip() that never makes what it skips, whatever functions that leaves uncalled. */
sheaf_dataset *sheaf__skip_unread(sheaf_dataset *d, int64_t count);

#endif
