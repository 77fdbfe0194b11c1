/* SPDX-License-Identifier: Apache-2.0 */
#include "data/files.h"
#include "data/records.h"

/* TFRecord files. */

static sheaf_dataset *records_of(sheaf_dataset *names)
{
    const struct sheaf__record_options options = {.framing = &sheaf__framing_tfrecord};
    return sheaf__records_of(SHEAF__STAGE_TFRECORD, names, &options, &(sheaf_error){0});
}

sheaf_dataset *sheaf_tfrecord_files(const char *const *paths, size_t count)
{
    return records_of(sheaf__files_of(SHEAF__STAGE_TFRECORD, paths, count));
}

sheaf_dataset *sheaf_tfrecord(const char *path)
{
    return sheaf_tfrecord_files(&path, 1);
}

sheaf_dataset *sheaf_open_tfrecord(const sheaf_element *in, void *user)
{
    (void)user;
    return records_of(sheaf__files_of_element(SHEAF__STAGE_TFRECORD, in));
}
