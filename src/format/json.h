/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_JSON_H
#define SHEAF_FORMAT_JSON_H

/* JSON read from front to back, for texts of any size from strangers: nothing is built, so that a
 * hostile one costs no more memory than its longest string, and errors say at which byte.
 *
 *     sheaf__json_begin(&j, text, size, path, 0, err);
 *     for (sheaf__json_enter(&j, '{'); sheaf__json_key(&j, &key);)
 *         …read or skip the value…
 *     status = sheaf__json_end(&j);
 *
 * What does not fit is latched: every later call is false, and the last one returns it. */

#include "base/buf.h"

#include <sheaf/tensor.h>

#define SHEAF__JSON_DEPTH 63 /* lists and objects in each other */

struct sheaf__json {
    const char *start, *at, *end;
    const char *path;       /* for errors; may be NULL */
    uint64_t base;          /* offset in it where the text begins */
    int depth;              /* of the list or object that is being read */
    uint64_t objects, used; /* bit of a depth: it is an object; something of it was read */
    struct sheaf__buf text; /* a string that has escapes */
    sheaf_status status;
    sheaf_error *err;
};

/* The text must be UTF-8. */
void sheaf__json_begin(struct sheaf__json *j, const char *text, size_t size, const char *path,
                       uint64_t base, sheaf_error *err);
/* Frees what reading took. Nothing but blanks may be left. SHEAF_ERR_DATA_LOSS with the offset. */
sheaf_status sheaf__json_end(struct sheaf__json *j);

/* Into an object ('{') or a list ('['), whose members follow. */
bool sheaf__json_enter(struct sheaf__json *j, char open);
/* Whether the list has one more item, which is read next. At its end it is left. */
bool sheaf__json_next(struct sheaf__json *j);
/* The same for an object: the key of the member whose value is read next. */
bool sheaf__json_key(struct sheaf__json *j, sheaf_bytes *key);
/* Strings, keys too, are valid until the next one is read. */
bool sheaf__json_text(struct sheaf__json *j, sheaf_bytes *text);
/* A whole number from 0 on. */
bool sheaf__json_uint(struct sheaf__json *j, uint64_t *value);
/* Passes any value, and checks it. */
bool sheaf__json_skip(struct sheaf__json *j);

/* Latches an error of the caller's at the present place; false. */
bool sheaf__json_fail(struct sheaf__json *j, const char *format, ...) SHEAF_PRINTF(2, 3)
    __attribute__((cold));

#endif
