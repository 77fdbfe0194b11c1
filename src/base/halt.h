/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_HALT_H
#define SHEAF_BASE_HALT_H

/* Where a program that ends in order (base/context.h) stops when it is asked to.
 *
 * It does so at a *place*: a call that can tell it, such as that for the next step's data. Tasks that step together come to
 * the same places in the same order, so that the number of a place means the same in all of them. They agree on one: each
 * says how many places it has passed and promises to pass none until it hears the answer; all stop at the place after the
 * most that anybody has passed, which each can reach with nothing but what the others have done already. It costs
 * nothing until somebody asks.
 *
 * Reading can take long. It waits with the token of the halt, which is cancelled when nothing will be read any more: at the
 * place where the task stops, and for what would be read beyond the place that it is at. */

#include "base/wait.h"

struct sheaf__halt;

/* What whoever shares the halt with other tasks does about it. None waits. */
struct sheaf__halt_peers {
    /* The program ends in order: other tasks may be asked to stop from now on. May be NULL. */
    void (*begin)(void *user);
    /* This one was asked: tells the others, and brings about sheaf__halt_decide(). */
    void (*ask)(void *user);
    void *user;
};

/* Of the current context. `peers` is copied. */
sheaf_status sheaf__halt_new(const struct sheaf__halt_peers *peers, struct sheaf__halt **halt,
                             sheaf_error *err);
/* Asks nobody any more. */
void sheaf__halt_deafen(struct sheaf__halt *halt);
/* NULL is nothing. */
void sheaf__halt_free(struct sheaf__halt *halt);

/* ---- for who agrees; any thread ---- */

/* How many places are passed; none is any more before the decision. */
uint64_t sheaf__halt_promise(struct sheaf__halt *halt);
/* All stop at that place. The first decision counts. */
void sheaf__halt_decide(struct sheaf__halt *halt, uint64_t place);
/* The same for a task that agrees with nobody: at its next place. */
void sheaf__halt_next(struct sheaf__halt *halt);
/* There may be no decision, as a task is lost: what comes next will tell. */
void sheaf__halt_give_up(struct sheaf__halt *halt);

/* ---- for the program's thread; NULL: that of the current context, which shares nothing with other tasks ---- */

/* The program ends in order from now on. */
void sheaf__halt_begin(struct sheaf__halt *halt);
/* At a place: SHEAF_OK, go on; SHEAF_END: the program stops here. Waits for the decision if there is to be one. */
sheaf_status sheaf__halt_pass(struct sheaf__halt *halt, sheaf_error *err);
/* Whether a place has said so. */
bool sheaf__halt_is_over(struct sheaf__halt *halt);
/* For waits of reading; borrowed. */
struct sheaf__token *sheaf__halt_reading(struct sheaf__halt *halt);
/* What is read until the next call is for the place after the next. */
void sheaf__halt_read_ahead(struct sheaf__halt *halt, bool ahead);

#endif
