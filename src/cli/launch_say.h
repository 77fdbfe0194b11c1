/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_LAUNCH_SAY_H
#define SHEAF_CLI_LAUNCH_SAY_H

/* "sheaf run: …" on standard error. */
void sheaf__launch_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
