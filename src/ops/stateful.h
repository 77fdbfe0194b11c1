/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_STATEFUL_H
#define SHEAF_OPS_STATEFUL_H

/** @file
 *  Operations whose result depends on what was called before them: random numbers without a seed, assignments to variables.
 *
 *  They are the program's affair, but where a function must depend on its arguments alone: who calls such a function watches
 *  the thread meanwhile. Watches nest, the innermost one is told. */

struct sheaf__stateful_watch {
    const struct sheaf__stateful_watch *outer;
    void (*found)(const struct sheaf__stateful_watch *watch, const char *operation);
};
/** Until it is ended, in reverse order. */
void sheaf__stateful_watch(struct sheaf__stateful_watch *watch);
void sheaf__stateful_watch_end(const struct sheaf__stateful_watch *watch);

/** Such an operation is called. */
void sheaf__stateful_called(const char *operation);

#endif
