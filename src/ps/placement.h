/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_PLACEMENT_H
#define SHEAF_PS_PLACEMENT_H

/* Which parameter server holds a variable: pure arithmetic, the same in every process. */

#include <stdint.h>

/* The n-th variable goes to server n modulo the servers (R5.44). */
int sheaf__ps_round_robin(uint32_t number, int servers);

/* Greedy by load (R5.47): the least loaded of `servers`, the first of equals; adds `load` to
 * loads[that]. */
int sheaf__ps_greedy(uint64_t *loads, int servers, uint64_t load);

#endif
