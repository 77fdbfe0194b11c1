/* SPDX-License-Identifier: Apache-2.0 */

/* What workers say of themselves with their pushes, their place in the input: kept with the sequence
 * number of the push, saved with the tensors it updated, and given back to the worker that goes on. */

#include "base/base64.h"
#include "base/error.h"
#include "base/mem.h"
#include "ps/server.h"
#include "tensor/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* With the lock held. Without memory the one before stays: the worker does some steps again. */
void sheaf__ps_take_mark(struct sheaf__ps_worker *w, struct sheaf__bytes mark)
{
    void *copy = mark.size > 0 ? sheaf__memdup(mark.data, mark.size) : NULL;
    if (!copy)
        return;
    sheaf__free(w->mark);
    w->mark = copy;
    w->mark_size = mark.size;
}

const char *sheaf__ps_note_workers(struct sheaf__ps_server *server)
{
    struct sheaf__str note = {0};
    sheaf__mutex_lock(&server->lock);
    for (int i = 0; i < server->worker_count; i++) {
        const struct sheaf__ps_worker *w = &server->workers[i];
        if (w->sequence == 0 && !w->mark)
            continue;
        sheaf__str_printf(&note, "%s%s:%d %" PRIu64 " %" PRIu64 " ", note.size ? ";" : "",
                          w->task.job, w->task.index, w->incarnation, w->sequence);
        sheaf__base64_put(&note, w->mark, w->mark_size);
    }
    sheaf__mutex_unlock(&server->lock);
    return sheaf__frame_str(&note);
}

/* Restoring. */

sheaf_status sheaf__ps_hold_note(struct sheaf__ps_server *server, const char *note,
                                 sheaf_error *err)
{
    char *copy = note ? sheaf__strdup(note) : NULL;
    if (note && !copy)
        return sheaf__no_memory(err, "a note");
    sheaf__mutex_lock(&server->lock);
    sheaf__free(server->note);
    server->note = copy;
    sheaf__mutex_unlock(&server->lock);
    return SHEAF_OK;
}

/* One entry of a note; it is changed. What does not look like one is left alone. */
static void take_entry(struct sheaf__ps_server *server, char *entry)
{
    sheaf_task task = {.index = -1};
    int used = 0;
    if (sscanf(entry, "%19[^:]:%" SCNd32 " %*u %*u %n", task.job, &task.index, &used) != 2 ||
        used == 0)
        return;
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, task);
    struct sheaf__buf mark = {0};
    if (w && sheaf__base64_get(&mark, entry + used) && !mark.failed)
        sheaf__ps_take_mark(w, (struct sheaf__bytes){mark.data, mark.size});
    sheaf__buf_free(&mark);
}

void sheaf__ps_settle_note(struct sheaf__ps_server *server, bool take)
{
    sheaf__mutex_lock(&server->lock);
    char *note = server->note;
    server->note = NULL;
    for (char *entry = note, *next; take && entry; entry = next) {
        next = strchr(entry, ';');
        if (next)
            *next++ = 0;
        take_entry(server, entry);
    }
    sheaf__mutex_unlock(&server->lock);
    sheaf__free(note);
}

/* The caller's own. */
static void serve_mark(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__mutex_lock(&server->lock);
    const struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, sheaf__ps_caller(call));
    const size_t size = w ? w->mark_size : 0;
    void *copy = size > 0 ? sheaf__memdup(w->mark, size) : NULL;
    sheaf__mutex_unlock(&server->lock);
    sheaf_error err = {0};
    if (size > 0 && !copy) {
        sheaf__no_memory(&err, "the place of a worker");
        sheaf__call_fail(call, &err);
    } else {
        sheaf__call_reply(call, &(struct sheaf__reply){.meta = copy, .meta_size = size});
    }
    sheaf__free(copy);
}

sheaf_status sheaf__ps_serve_marks(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service service = {
        .kind = SHEAF__PS_MARK, .serve = serve_mark, .user = server};
    return sheaf__net_serve(server->net, &service, err);
}
