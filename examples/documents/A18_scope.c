/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, scope: a variable made inside, and one made outside (S88, S92, S97). */

#include "document.h"

int main(int argc, char **argv)
{
    sheaf_strategy *strategy = mirrored(argument(argc, argv, 1, 1));
    sheaf_variable *mirrored_variable = NULL;
    SHEAF_SCOPE(strategy)
    {
        mirrored_variable = sheaf_variable_new(NULL, sheaf_float(1), NULL);
    }
    printf("%s\n", sheaf_variable_str(mirrored_variable));

    sheaf_variable *regular_variable = sheaf_variable_new(NULL, sheaf_float(1), NULL);
    printf("%s\n", sheaf_variable_str(regular_variable));

    sheaf_variable_free(mirrored_variable);
    sheaf_variable_free(regular_variable);
    sheaf_strategy_free(strategy);
    return 0;
}
