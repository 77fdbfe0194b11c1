/* SPDX-License-Identifier: Apache-2.0 */
#include "net/frame.h"

#include "base/error.h"

#include <inttypes.h>

/* Whether a type has a meta part and a payload. */
static bool may_carry(uint8_t type)
{
    return type == SHEAF__FRAME_REQUEST || type == SHEAF__FRAME_POST || type == SHEAF__FRAME_REPLY;
}

sheaf_status sheaf__frame_check(const struct sheaf__frame *f, sheaf_error *err)
{
    if (f->type == 0 || f->type >= SHEAF__FRAME_TYPES || f->zero != 0 || f->reserved != 0)
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS, "message of unknown type %d", f->type);
    if (f->meta_size > SHEAF__META_MOST || f->payload_size > SHEAF__PAYLOAD_MOST)
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                            "message of %" PRIu32 " + %" PRIu64 " bytes is too large", f->meta_size,
                            f->payload_size);
    const bool bye = f->type == SHEAF__FRAME_GOODBYE && f->meta_size > 0;
    if (f->type == SHEAF__FRAME_FAILURE || bye) {
        if (f->meta_size != sizeof(sheaf_error) || f->payload_size != 0)
            return sheaf__error(err, SHEAF_ERR_DATA_LOSS, "%s of %" PRIu32 " bytes, not %zu",
                                bye ? "goodbye" : "failure", f->meta_size, sizeof(sheaf_error));
    } else if (!may_carry(f->type) && (f->meta_size != 0 || f->payload_size != 0)) {
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                            "message of type %d with %" PRIu32 " bytes that it cannot have",
                            f->type, f->meta_size);
    }
    return SHEAF_OK;
}
