/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_DRAFT_H
#define SHEAF_PS_DRAFT_H

/* An update that is computed while its data come in: from the value as it is when they begin, into a
 * buffer that nobody sees before all of it is there. It saves holding the data back, and the time
 * that it takes to apply them afterwards. */

#include "ps/table.h"

/* Zeroed but for the variable until it begins. */
struct sheaf__ps_draft {
    struct sheaf__ps_variable *variable;
    int kind;                  /* of the update */
    struct sheaf__hyper hyper; /* of a gradient */
    struct sheaf__buffer *from, *to;
    size_t done; /* bytes */
};

/* True if the update is computed as fast as its data are copied, and takes no more memory than they
 * would: a dense gradient by a rule without slots, an assignment. */
bool sheaf__ps_draft_suits(const struct sheaf__ps_variable *v, const struct sheaf__ps_update *u,
                           const struct sheaf__hyper *h);
sheaf_status sheaf__ps_draft_begin(struct sheaf__ps_draft *d, const struct sheaf__ps_update *u,
                                   const struct sheaf__hyper *h, sheaf_error *err);
/* The next bytes of the data: whole elements. */
void sheaf__ps_draft_take(struct sheaf__ps_draft *d, const void *data, size_t size);
/* True if the value is still the one that it was computed from. */
bool sheaf__ps_draft_holds(const struct sheaf__ps_draft *d);
/* What was computed becomes the value. */
void sheaf__ps_draft_publish(struct sheaf__ps_draft *d);
/* The end, published or not. */
void sheaf__ps_draft_clear(struct sheaf__ps_draft *d);

#endif
