/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_DISTRIBUTE_TABLES_H
#define SHEAF_TEST_DISTRIBUTE_TABLES_H

/* A small model of a table that is looked up in and dense variables, which parameter servers may cut: what it does must not
 * depend on that. */

#include <sheaf/sheaf.h>

enum { TABLE_ROWS = 13, TABLE_COLUMNS = 4, TABLE_OUTPUTS = 3, TABLE_VARIABLES = 3 };

struct tables_rule {
    const char *name;
    sheaf_optimizer_options options;
};

struct tables {
    sheaf_variable *v[TABLE_VARIABLES]; /* "table", "w", "b" */
    sheaf_optimizer *optimizer;
    sheaf_checkpoint *checkpoint; /* of all of it */
};

/* Makes the model in the scope of `s`, with slots; trains some steps from step `first` on, each of which looks up a few of the rows;
 * frees it, whatever has become of it. */
sheaf_status tables_make(struct tables *t, sheaf_strategy *s, const struct tables_rule *rule,
                         sheaf_error *err);
sheaf_status tables_train(struct tables *t, sheaf_strategy *s, int first, int steps,
                          sheaf_error *err);
void tables_free(struct tables *t);

#endif
