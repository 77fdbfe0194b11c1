/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_RULE_NAMES_H
#define SHEAF_OPTIM_RULE_NAMES_H

/* What the checkpoints of TensorFlow's other optimizers call the slots of a rule (formats.md 5.2). */

#include "optim/rule.h"

struct sheaf__rule_names {
    const char *legacy; /* tf.keras.optimizers.legacy; NULL: it has none that means the same */
    const char *v1;     /* tf.compat.v1.train, likewise */
    int number;         /* of v1's in the names that its Saver writes: "w/Adam", "w/Adam_1" */
};

/* Of the slot that the rule's family calls `slot`. */
struct sheaf__rule_names sheaf__rule_names(const struct sheaf__hyper *h, const char *slot);
/* v1's optimizer of this rule, as its Saver names slots: "Momentum". NULL: there is none. */
const char *sheaf__rule_v1_name(const struct sheaf__hyper *h);

#endif
