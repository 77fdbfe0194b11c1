/* SPDX-License-Identifier: Apache-2.0 */

/* Strategies within one process: one device, and a replica on each of several (0.7). */

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "distribute/mirrored.h"
#include "distribute/sync.h"

#include <string.h>

/* One device. */

static sheaf_status one_start(sheaf_strategy *s, const sheaf_strategy_options *o, sheaf_error *err)
{
    SHEAF__TRY(sheaf__strategy_place(s, o->devices, false, "localhost", 0, err));
    if (s->local != 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "OneDeviceStrategy on %d devices, expected one", s->local);
    return SHEAF_OK;
}

const struct sheaf__strategy_class sheaf__strategy_one_class = {
    .name = "OneDeviceStrategy",
    .aliases = "one onedevice",
    .start = one_start,
};

/* Mirrored. */

/* "('/job:localhost/…', …)", as the documents' log lines show it (P6.7). */
static void log_devices(const sheaf_strategy *s)
{
    struct sheaf__str names = {0};
    for (int i = 0; i < s->local; i++)
        sheaf__str_printf(&names, "%s'%s'", i ? ", " : "", s->devices[i]);
    sheaf__log(SHEAF_LOG_INFO, "Using %s with devices (%s%s)", s->cls->name,
               sheaf__str_text(&names), s->local == 1 ? "," : "");
    sheaf__str_free(&names);
}

static sheaf_status mirrored_start(sheaf_strategy *s, const sheaf_strategy_options *o,
                                   sheaf_error *err)
{
    SHEAF__TRY(sheaf__strategy_place(s, o->devices, true, "localhost", 0, err));
    s->partial_batches = true;
    s->rebatches = true;
    log_devices(s);
    struct sheaf__team_options alone = {.size = 1};
    return s->local > 1 ? sheaf__sync_open(s, &alone, err) : SHEAF_OK;
}

const struct sheaf__strategy_class sheaf__strategy_mirrored_class = {
    .name = "MirroredStrategy",
    .aliases = "mirrored",
    .start = mirrored_start,
    .create = sheaf__mirrored_create,
};
