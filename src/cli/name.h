/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_NAME_H
#define SHEAF_CLI_NAME_H

/* Names out of files, which may hold anything: what would steer the terminal, or is no UTF-8, is printed as "\x1b", and
 * "\\" for a "\". */

/* Prints the name to standard output; returns how many characters were printed. */
int sheaf__name_print(const char *name);
/* How many it would be. */
int sheaf__name_size(const char *name);

#endif
