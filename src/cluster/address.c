/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/address.h"

#include "base/error.h"

#include <string.h>

static sheaf_status bad(const char *text, const char *whose, const char *why, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s: address \"%s\" %s", whose, text, why);
}

static bool read_port(const char *text, int32_t *port)
{
    int64_t value;
    if (*text < '0' || *text > '9' || !sheaf__str_to_int(text, &value) || value < 1 ||
        value > 65535)
        return false;
    *port = (int32_t)value;
    return true;
}

sheaf_status sheaf__address_parse(const char *text, const char *whose,
                                  struct sheaf__address *address, sheaf_error *err)
{
    struct sheaf__address a;
    const char *end;
    if (text[strcspn(text, " \t\r\n/")])
        return bad(text, whose, "has a blank or a slash, expected \"host:port\"", err);
    if (*text == '[') {
        a.host = text + 1;
        end = strchr(text, ']');
        if (!end || end[1] != ':')
            return bad(text, whose, "does not end like \"[address]:port\"", err);
        a.host_size = (size_t)(end - a.host);
        end++;
    } else {
        a.host = text;
        end = strrchr(text, ':');
        if (!end)
            return bad(text, whose, "has no port, expected \"host:port\"", err);
        a.host_size = (size_t)(end - text);
        if (memchr(text, ':', a.host_size))
            return bad(text, whose, "is ambiguous, expected \"[address]:port\" for IPv6", err);
    }
    if (a.host_size == 0)
        return bad(text, whose, "has no host, expected \"host:port\"", err);
    if (!read_port(end + 1, &a.port))
        return bad(text, whose, "has a bad port, expected 1 to 65535", err);
    *address = a;
    return SHEAF_OK;
}

void sheaf__address_key(const struct sheaf__address *address, struct sheaf__str *key)
{
    for (size_t i = 0; i < address->host_size; i++) {
        char c = address->host[i];
        sheaf__str_char(key, c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c);
    }
    sheaf__str_printf(key, ":%d", address->port);
}
