/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_BASE64_H
#define SHEAF_BASE_BASE64_H

/* Bytes as text (RFC 4648): for files that hold text alone. */

#include "base/buf.h"
#include "base/str.h"

void sheaf__base64_put(struct sheaf__str *str, const void *data, size_t size);
/* Bytes as a JSON value: a string if they are UTF-8, else {"b64":"…"}. */
void sheaf__base64_json(struct sheaf__str *str, const void *data, size_t size);
/* Appends the bytes of all of the text, padding included; false: it is no base64. Running out of
 * memory is latched in `buf`. */
bool sheaf__base64_get(struct sheaf__buf *buf, const char *text);

#endif
