/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_DIST_DATASET_H
#define SHEAF_DISTRIBUTE_DIST_DATASET_H

/* Inside of distributed datasets: the dataset of this worker after it was split, or as its function
 * made it, and how its iterators end (R3.1). */

#include "base/object.h"
#include "distribute/forecast.h"
#include "distribute/progress.h"
#include "distribute/strategy.h"

struct sheaf_dist_dataset {
    struct sheaf__object object; /* counted; immutable once made, but for the progress */
    sheaf_strategy *strategy;    /* counted */
    sheaf_dataset *source;       /* what was split; counted. NULL: from a function */
    sheaf_dataset **datasets;    /* one, or one a replica (R3.38) */
    int dataset_count;
    sheaf_element_spec *spec;        /* of one replica's part; NULL: not known */
    char *why;                       /* the policy that was applied, and why; NULL with an error */
    int64_t cardinality;             /* before it was split (R3.28) */
    bool fills;                      /* replicas without data get empty parts (R3.1) */
    struct sheaf__certainty certain; /* of whole passes; changed by the thread that iterates */
    sheaf_error latched;
    struct sheaf__progress progress;
};

/* "<kind element_spec=…>", text of the frame. */
const char *sheaf__dist_str(const char *kind, const sheaf_dist_dataset *d);

#endif
