/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_SLURM_LIST_H
#define SHEAF_CLUSTER_SLURM_LIST_H

/* The two list grammars of Slurm's variables. Pure text; what cannot be read is refused as a whole
 * and named. */

#include "base/array.h"
#include <sheaf/status.h>

/* Longest list either function makes: a typing error must not fill the memory. */
enum { SHEAF__SLURM_LIST_MAX = 65536 };

/* Expands a node list as `scontrol show hostnames` does, in the order written:
 *     list  = item {"," item}
 *     item  = prefix | prefix "[" range {"," range} "]"
 *     range = number | number "-" number
 * The digits of a range's lower end keep their width: n[009-011] is n009, n010, n011. */
sheaf_status sheaf__slurm_list_hosts(const char *text, struct sheaf__strings *hosts,
                                     sheaf_error *err);

/* Expands "3(x2),1" to 3, 3, 1. `*counts` is the caller's (sheaf__free). */
sheaf_status sheaf__slurm_list_counts(const char *text, int32_t **counts, size_t *count,
                                      sheaf_error *err);

#endif
