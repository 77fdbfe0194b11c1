/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_ROUTE_H
#define SHEAF_PS_ROUTE_H

/* Rows of a variable dealt to the parts that have them: those of a look-up, or of a gradient. */

#include "ps/variable.h"

/* In the frame. Rows of one part keep their order. */
struct sheaf__ps_route {
    size_t *starts; /* part `p` has the rows [starts[p], starts[p + 1]) of what follows */
    int64_t *ids;   /* number of a row in its part */
    size_t *from;   /* its place among the rows that were dealt */
};

/* INVALID_ARGUMENT: an id that is no row; `what` says whose, "a look-up in". */
sheaf_status sheaf__ps_route(const struct sheaf__ps_variable_ref *v, const int64_t *ids,
                             size_t count, const char *what, struct sheaf__ps_route *route,
                             sheaf_error *err);

#endif
