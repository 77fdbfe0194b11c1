/* SPDX-License-Identifier: Apache-2.0 */
#include "data/function.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/called.h"
#include "tensor/element.h"

#include <sheaf/frame.h>

#include <string.h>

sheaf_status sheaf__function_status(sheaf_status status, const char *what, sheaf_error *err)
{
    if (status == SHEAF_OK || status == SHEAF_END) {
        sheaf__error_listen(); /* what it said of what did not fail is not for who comes next */
        return status;
    }
    if (status > 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s returned %d, expected SHEAF_OK, SHEAF_END or an error", what,
                            (int)status);
    if (err->status >= 0)
        (void)sheaf__called(status, err, "%s", what);
    err->status = status;
    return status;
}

char *sheaf__path_of(const sheaf_element *e, sheaf_error *err)
{
    const sheaf_tensor *t = e && e->count == 1 ? e->items[0].tensor : NULL;
    if (!t || t->dtype != SHEAF_STRING || sheaf_tensor_elements(t) != 1) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "the name of a file must be an element of one string");
        return NULL;
    }
    sheaf_bytes name = sheaf_tensor_bytes(t, 0);
    if (name.size > 0 && memchr(name.data, '\0', name.size)) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the name of a file has a zero byte in it");
        return NULL;
    }
    char *path = sheaf__strndup(name.size > 0 ? name.data : "", name.size);
    if (!path)
        sheaf__no_memory(err, "the name of a file");
    return path;
}

static void warn_of_state(const struct sheaf__stateful_watch *watch, const char *operation)
{
    const struct sheaf__function_watch *w = (const struct sheaf__function_watch *)watch;
    char name[64];
    sheaf__log_once(SHEAF_LOG_WARN, "data.stateful",
                    "%s: its function calls %s, whose state is this worker's own: elements that "
                    "workers divide among them depend on how many there are; make a seed of the "
                    "element instead",
                    sheaf__dataset_name(w->stage, name), operation);
}

void sheaf__function_watch(struct sheaf__function_watch *w, const struct sheaf__iter *it)
{
    w->stage = it->flow->divided ? it->dataset : NULL;
    w->watch.found = warn_of_state;
    if (w->stage)
        sheaf__stateful_watch(&w->watch);
}

void sheaf__function_watch_end(struct sheaf__function_watch *w)
{
    if (w->stage)
        sheaf__stateful_watch_end(&w->watch);
}
