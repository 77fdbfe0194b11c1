/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_LOG_H
#define SHEAF_BASE_LOG_H

/* Log lines of the current context. The library is silent by default (level warn); an error that a
 * call returns is not logged as well. Any thread; not from a sink. */

#include <sheaf/context.h>

/* True if `level` is wanted: before work that only a log line needs. */
bool sheaf__log_wants(sheaf_log_level level);
void sheaf__log(sheaf_log_level level, const char *format, ...) SHEAF_PRINTF(2, 3);
/* Logs at most `limit` times in the life of the context; `key` names the place. */
void sheaf__log_limited(sheaf_log_level level, uint32_t limit, const char *key, const char *format,
                        ...) SHEAF_PRINTF(4, 5);
#define sheaf__log_once(level, key, ...) sheaf__log_limited((level), 1, (key), __VA_ARGS__)

#endif
