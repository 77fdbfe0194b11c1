/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_SCHEDULE_H
#define SHEAF_OPTIM_SCHEDULE_H

/* Inside of a schedule. Immutable and counted; any thread. */

#include "base/object.h"

#include <sheaf/optimizer.h>

struct sheaf_schedule {
    struct sheaf__object object;
    const char *name; /* "cosine"; static storage */
    double (*at)(const struct sheaf_schedule *s, double step);
    double initial, decay_steps, rate, end, power;
    double warmup_steps, warmup_target;
    bool staircase, cycle;
    sheaf_error latched; /* status 0: none */
    size_t count;        /* of boundaries; there is one value more */
    double *values;
    int64_t boundaries[];
};

#endif
