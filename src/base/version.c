/* SPDX-License-Identifier: Apache-2.0 */
#include <sheaf/version.h>

const char *sheaf_version(void)
{
    return SHEAF_VERSION;
}
