/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/files.h"
#include "data/records.h"

/* Records of one size (R9.35). */

static sheaf_status check(const sheaf_fixed_records_options *o, sheaf_error *err)
{
    SHEAF__TRY(sheaf__reserved_check(o->reserved, err));
    if (o->record_bytes <= 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "record_bytes is %lld, it must be greater than 0",
                            (long long)o->record_bytes);
    if (o->header_bytes < 0 || o->footer_bytes < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s is %lld, it must not be negative",
                            o->header_bytes < 0 ? "header_bytes" : "footer_bytes",
                            (long long)(o->header_bytes < 0 ? o->header_bytes : o->footer_bytes));
    return SHEAF_OK;
}

static sheaf_dataset *records_of(sheaf_dataset *names, const sheaf_fixed_records_options *options)
{
    const sheaf_fixed_records_options o = options ? *options : (sheaf_fixed_records_options){0};
    const struct sheaf__record_options fixed = {
        .framing = &sheaf__framing_fixed,
        .compression = o.compression,
        .fixed = {(uint64_t)o.record_bytes, (uint64_t)o.header_bytes, (uint64_t)o.footer_bytes}};
    sheaf_error err = {0};
    check(&o, &err);
    return sheaf__records_of(SHEAF__STAGE_FIXED_RECORDS, names, &fixed, &err);
}

sheaf_dataset *sheaf_fixed_records_files(const char *const *paths, size_t count,
                                         const sheaf_fixed_records_options *options)
{
    return records_of(sheaf__files_of(SHEAF__STAGE_FIXED_RECORDS, paths, count), options);
}

sheaf_dataset *sheaf_fixed_records(const char *path, const sheaf_fixed_records_options *options)
{
    return sheaf_fixed_records_files(&path, 1, options);
}

sheaf_dataset *sheaf_open_fixed_records(const sheaf_element *in, void *user)
{
    return records_of(sheaf__files_of_element(SHEAF__STAGE_FIXED_RECORDS, in), user);
}
