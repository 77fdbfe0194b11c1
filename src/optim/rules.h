/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_RULES_H
#define SHEAF_OPTIM_RULES_H

/* THE table of update rules. A rule is a line here, at the end because its place is its number in pushes, and a file
 * `optim/rule_<name>.c` that defines sheaf__rule_<name>; its loop stands in rule_body.h. */

/* X(id, name) */
#define SHEAF__RULE_TABLE(X) \
    X(SGD, sgd)              \
    X(ADAM, adam)            \
    X(ADAGRAD, adagrad)      \
    X(RMSPROP, rmsprop)      \
    X(FTRL, ftrl)            \
    X(ADADELTA, adadelta)    \
    X(ADAMAX, adamax)        \
    X(NADAM, nadam)          \
    X(LION, lion)

enum sheaf__rule {
    SHEAF__RULE_NONE,
#define SHEAF__RULE_ID(id, name) SHEAF__RULE_##id,
    SHEAF__RULE_TABLE(SHEAF__RULE_ID)
#undef SHEAF__RULE_ID
        SHEAF__RULE_COUNT
};

#endif
