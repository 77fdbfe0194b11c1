/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_JSON_H
#define SHEAF_CLI_JSON_H

/* The few pieces of JSON that the command prints. */

/* Prints the text as a JSON string with its quotes; what is no UTF-8 becomes U+FFFD. */
void sheaf__json_text(const char *text);

#endif
