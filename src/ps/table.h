/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_TABLE_H
#define SHEAF_PS_TABLE_H

/* What a parameter server holds: variables, their slots, and how updates are applied to them.
 *
 * A value that is being read (sent to a worker, written to a checkpoint) is never changed: the
 * buffer is counted, and an update that finds readers writes into another one. So a pull is one
 * version, and a save is one moment, without stopping anybody. Any thread; each variable has its
 * lock. */

#include "base/map.h"
#include "base/thread.h"
#include "ps/proto.h"
#include "tensor/buffer.h"
#include "tensor/kernel.h"

struct sheaf__ps_slot {
    char *name; /* NULL: not made */
    double fill;
    struct sheaf__buffer *buffer;
};

/* Which rule a worker's gradients are for. */
struct sheaf__ps_used {
    uint32_t rule, family, flags;
    sheaf_task by; /* no job: none has come */
};

struct sheaf__ps_variable {
    struct sheaf__mutex lock;
    uint32_t number;
    char *name;
    sheaf_dtype dtype;
    sheaf_shape full, shape;
    int64_t first_row;
    size_t bytes;
    uint64_t version;                                      /* updates applied */
    uint32_t expected;                                     /* updates on their way here */
    struct sheaf__buffer *value;                           /* NULL: not initialised */
    struct sheaf__buffer *restored[1 + SHEAF__RULE_SLOTS]; /* held back until a restore settles */
    struct sheaf__ps_slot slots[SHEAF__RULE_SLOTS];
    struct sheaf__ps_used used; /* by the last gradient */
};

struct sheaf__ps_table {
    struct sheaf__mutex lock;              /* of the list */
    struct sheaf__ps_variable **variables; /* by number; NULL where another ps has it */
    size_t count, capacity;
    _Atomic bool told; /* that workers use different rules */
};

void sheaf__ps_table_free(struct sheaf__ps_table *t);

/* The variable of that definition, made if there is none. INCOMPATIBLE: another process defined it
 * otherwise; names the first difference. */
sheaf_status sheaf__ps_define(struct sheaf__ps_table *t, const struct sheaf__ps_definition *d,
                              struct sheaf__ps_variable **v, sheaf_error *err);
/* For a process that does not make values: SHEAF_OK if there is such a variable with a value,
 * SHEAF_PENDING if not yet, INCOMPATIBLE if it is another. */
sheaf_status sheaf__ps_attach(struct sheaf__ps_table *t, const struct sheaf__ps_definition *d,
                              sheaf_error *err);
/* NOT_FOUND: no such variable here; FAILED_PRECONDITION: it has no value yet. */
sheaf_status sheaf__ps_find(struct sheaf__ps_table *t, uint32_t number,
                            struct sheaf__ps_variable **v, sheaf_error *err);
/* Gives it its first value, unless it has one. True if it took it. */
bool sheaf__ps_initialise(struct sheaf__ps_variable *v, struct sheaf__buffer *value);

/* Makes slot `slot` (from 1) filled with `fill`, or checks that it is the one that is there. */
sheaf_status sheaf__ps_make_slot(struct sheaf__ps_variable *v, uint32_t slot, const char *name,
                                 double fill, sheaf_error *err);

/* The value (slot 0) or a slot as it is now, with a count. */
struct sheaf__buffer *sheaf__ps_snapshot(struct sheaf__ps_variable *v, uint32_t slot,
                                         uint64_t *version);

/* Applies one update with its data. */
sheaf_status sheaf__ps_apply(struct sheaf__ps_variable *v, const struct sheaf__ps_update *u,
                             const struct sheaf__hyper *h, const void *data, sheaf_error *err);

/* Notes the rule of a gradient, and warns once if another worker's gradients are for another: where the two have no slots that
 * are at odds, training would go on and be neither's. */
void sheaf__ps_note_rule(struct sheaf__ps_table *t, struct sheaf__ps_variable *v,
                         const struct sheaf__hyper *h, sheaf_task worker);

/* What an ADD or SUB of this variable does with its elements; NULL for other kinds and if the dtype
 * has none. */
sheaf__kernel_binary sheaf__ps_assign_kernel(const struct sheaf__ps_variable *v, int kind);

/* A large update of it begins to come in; true if no other is on its way. Then that it has come, or
 * will not. */
bool sheaf__ps_expect(struct sheaf__ps_variable *v);
void sheaf__ps_expected(struct sheaf__ps_variable *v);

/* Rows `ids` of the part copied to `out`. INVALID_ARGUMENT names an id that is out of range. */
sheaf_status sheaf__ps_rows(struct sheaf__ps_variable *v, const int64_t *ids, size_t count,
                            void *out, sheaf_error *err);

/* Restoring: holds a value back, then takes or drops what is held of all variables. */
void sheaf__ps_hold(struct sheaf__ps_variable *v, uint32_t slot, struct sheaf__buffer *value);
void sheaf__ps_settle(struct sheaf__ps_table *t, bool take);

#endif
