/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_TURNS_H
#define SHEAF_DATA_TURNS_H

#include <sheaf/dataset.h>

/* An element of each input in turn, as long as it has any. Uses up every input. */
sheaf_dataset *sheaf__turns(sheaf_dataset *const *inputs, size_t count);

#endif
