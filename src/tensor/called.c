/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/called.h"

#include "base/error.h"
#include "base/str.h"

#include <sheaf/frame.h>

#include <stdio.h>
#include <string.h>

enum { WHAT = 128 };

/* What failed in the frame, and the function's words for it, which may quote it. */
static void put_before(sheaf_error *err, const sheaf_error *said)
{
    if (strstr(said->message, err->message))
        sheaf__str_copy(err->message, sizeof(err->message), said->message);
    else
        sheaf__error_prefix(err, "%s", said->message);
}

sheaf_status sheaf__called(sheaf_status returned, sheaf_error *err, const char *format, ...)
{
    sheaf_error own, said;
    err = err ? err : &own;
    const bool told = sheaf__error_heard(&said) && said.status == returned;
    const sheaf_status latched = sheaf_frame_status(err);
    if (latched < 0 && told)
        put_before(err, &said);
    if (latched < 0 || returned >= 0)
        return latched < 0 ? latched : returned;
    char what[WHAT];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (!told)
        return sheaf__error(err, returned, "%s returned %s", what, sheaf_status_name(returned));
    *err = said;
    sheaf__error_prefix(err, "%s failed", what);
    return returned;
}

sheaf_status sheaf__called_mute(sheaf_error *err, const char *format, ...)
{
    char what[WHAT];
    va_list args;
    sheaf_error own;
    err = err ? err : &own;
    if (!sheaf__error_heard(err))
        return SHEAF_OK;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    sheaf__error_prefix(err, "%s failed", what);
    return err->status;
}
