/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the position of an iterator: an error that says what is wrong, or a position; written, it reads the
 * same. Every input is tried as it is, and with the checksum that it should have. */
#include "target.h"

#include "base/crc32c.h"
#include "data/position.h"

#include <stdlib.h>
#include <string.h>

static void read_and_write(const void *data, size_t size)
{
    struct sheaf__position p, again;
    struct sheaf__buf buf = {0};
    sheaf_error err = {0};
    if (sheaf__position_read(&p, data, size, &err) < 0) {
        must((err.status == SHEAF_ERR_DATA_LOSS || err.status == SHEAF_ERR_UNIMPLEMENTED) &&
             err.message[0]);
        return;
    }
    must(sheaf__position_write(&p, &buf, &err) == SHEAF_OK);
    must(sheaf__position_read(&again, buf.data, buf.size, &err) == SHEAF_OK);
    must(!strcmp(p.pipeline, again.pipeline) && p.elements == again.elements &&
         p.errors == again.errors && p.draw_count == again.draw_count &&
         p.file_count == again.file_count && p.distributed == again.distributed);
    must(!p.distributed || (p.passes == again.passes && p.leg_count == again.leg_count));
    for (size_t i = 0; p.distributed && i < p.leg_count; i++)
        must(!memcmp(&p.legs[i], &again.legs[i], sizeof(p.legs[i])));
    must(sheaf__position_fits(&p, again.pipeline, &err) == SHEAF_OK);
    must(sheaf__position_fits(&p, "range(0, 1, 1)\n", &err) == SHEAF_OK ||
         err.status == SHEAF_ERR_FAILED_PRECONDITION);
    for (size_t i = 0; i < p.draw_count; i++)
        must(!memcmp(&p.draws[i], &again.draws[i], sizeof(p.draws[i])));
    for (size_t i = 0; i < p.file_count; i++)
        must(!memcmp(&p.files[i], &again.files[i], sizeof(p.files[i])));
    sheaf__buf_free(&buf);
    sheaf__position_free(&p);
    sheaf__position_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_and_write(data, size);
    uint8_t *fixed = malloc(size + 1);
    must(fixed != NULL);
    if (size > 4) {
        memcpy(fixed, data, size);
        sheaf__store32(fixed + size - 4, sheaf__crc32c(fixed, size - 4));
        read_and_write(fixed, size);
    }
    free(fixed);
    return 0;
}
