/* SPDX-License-Identifier: Apache-2.0 */
#include "data/files.h"
#include "data/records.h"

/* Lines of text files (R9.34). */

static sheaf_dataset *lines_of(sheaf_dataset *names, const sheaf_text_lines_options *options)
{
    const sheaf_text_lines_options o = options ? *options : (sheaf_text_lines_options){0};
    const struct sheaf__record_options lines = {.framing = &sheaf__framing_lines,
                                                .compression = o.compression};
    sheaf_error err = {0};
    sheaf__reserved_check(o.reserved, &err);
    return sheaf__records_of(SHEAF__STAGE_TEXT_LINES, names, &lines, &err);
}

sheaf_dataset *sheaf_text_lines_files(const char *const *paths, size_t count,
                                      const sheaf_text_lines_options *options)
{
    return lines_of(sheaf__files_of(SHEAF__STAGE_TEXT_LINES, paths, count), options);
}

sheaf_dataset *sheaf_text_lines(const char *path, const sheaf_text_lines_options *options)
{
    return sheaf_text_lines_files(&path, 1, options);
}

sheaf_dataset *sheaf_open_text_lines(const sheaf_element *in, void *user)
{
    return lines_of(sheaf__files_of_element(SHEAF__STAGE_TEXT_LINES, in), user);
}
