/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distributed datasets, cell 1: the library's version (S107). */

#include "document.h"

int main(void)
{
    printf("%s\n", sheaf_version());
    return 0;
}
