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

/* One entry of a note, up to ';', for `mark`. False: it does not look like one. */
static bool read_entry(const char *entry, sheaf_task *task, struct sheaf__buf *mark)
{
    int used = 0;
    sheaf__buf_clear(mark);
    if (sscanf(entry, "%19[^:]:%" SCNd32 " %*u %*u %n", task->job, &task->index, &used) != 2 ||
        used == 0)
        return false;
    char *text = sheaf__strndup(entry + used, strcspn(entry + used, ";"));
    const bool read = text && sheaf__base64_get(mark, text) && !mark->failed;
    sheaf__free(text);
    return read;
}

static const char *next_entry(const char *entry)
{
    const char *end = strchr(entry, ';');
    return end ? end + 1 : NULL;
}

void sheaf__ps_settle_note(struct sheaf__ps_server *server, bool take)
{
    struct sheaf__buf mark = {0};
    sheaf__mutex_lock(&server->lock);
    for (const char *e = take ? server->note : NULL; e; e = next_entry(e)) {
        sheaf_task task;
        struct sheaf__ps_worker *w =
            read_entry(e, &task, &mark) ? sheaf__ps_worker_of(server, task) : NULL;
        if (w)
            sheaf__ps_take_mark(w, (struct sheaf__bytes){mark.data, mark.size});
    }
    sheaf__free(server->note);
    server->note = NULL;
    sheaf__mutex_unlock(&server->lock);
    sheaf__buf_free(&mark);
}

/* What there is of a worker. With the lock held. */
static void find_mark(struct sheaf__ps_server *server, sheaf_task task, struct sheaf__buf *mark)
{
    for (const char *e = server->note; e; e = next_entry(e)) {
        sheaf_task found;
        if (read_entry(e, &found, mark) && sheaf__ps_same_task(found, task))
            return;
    }
    const struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, task);
    sheaf__buf_clear(mark);
    if (w && !server->note)
        sheaf__buf_bytes(mark, w->mark, w->mark_size);
}

/* The caller's own. */
static void serve_mark(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    struct sheaf__buf mark = {0};
    sheaf_error err = {0};
    sheaf__mutex_lock(&server->lock);
    find_mark(server, sheaf__ps_caller(call), &mark);
    sheaf__mutex_unlock(&server->lock);
    if (sheaf__buf_check(&mark, "the place of a worker", &err) < 0)
        sheaf__call_fail(call, &err);
    else
        sheaf__call_reply(call, &(struct sheaf__reply){.meta = mark.data, .meta_size = mark.size});
    sheaf__buf_free(&mark);
}

sheaf_status sheaf__ps_serve_marks(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service service = {
        .kind = SHEAF__PS_MARK, .serve = serve_mark, .user = server};
    return sheaf__net_serve(server->net, &service, err);
}
