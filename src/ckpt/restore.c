/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/save.h"

#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/trace.h"
#include "ckpt/match.h"
#include "ckpt/shard.h"
#include "format/bundle.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <string.h>

/* A restore: the objects of the program are matched with those of the file; everything is read; only
 * then is anything changed. An object that comes later is restored in the same way, by itself. */

/* The tensors that one task takes. */
struct task_items {
    const char *device; /* NULL: this process */
    struct sheaf__shard_item *items;
    const struct sheaf__ckpt_tensor **tensors;
    size_t count, item_capacity, tensor_capacity;
};

struct restoring {
    struct sheaf__restored *from;
    const sheaf_trackable *optional;
    bool later;   /* what else the program has is restored already */
    bool lenient; /* objects that the file does not have stay as they are */
    bool grown;   /* which is told: they are the children of one that was restored */
    struct sheaf__ckpt_objects objects;
    struct sheaf__ckpt_match match;
    struct task_items *tasks; /* the first is this process */
    size_t task_count, task_capacity;
    sheaf_tensor **values; /* of this process's items, counted */
    size_t value_count;
    struct sheaf__bundle_sums sums; /* of tensors that tasks read in parts */
    bool asked;                     /* other tasks hold values back */
    bool shared;                    /* some are restored by one task for all */
};

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "restoring a checkpoint");
}

static sheaf_status match(struct restoring *r, int32_t first, sheaf_error *err)
{
    r->match.file = r->from;
    r->match.objects = &r->objects;
    return sheaf__match_all(&r->match, first, err);
}

/* Who takes what. */

static struct task_items *find_task(struct restoring *r, const char *device)
{
    for (size_t i = 0; i < r->task_count; i++) {
        const char *known = r->tasks[i].device;
        if (device ? known && sheaf__shard_same_task(known, device) : !known)
            return &r->tasks[i];
    }
    if (!sheaf__array_reserve(&r->tasks, &r->task_capacity, r->task_count + 1, sizeof(*r->tasks)))
        return NULL;
    r->tasks[r->task_count] = (struct task_items){.device = device};
    return &r->tasks[r->task_count++];
}

static bool add_item(struct task_items *task, const struct sheaf__ckpt_tensor *t, const char *key)
{
    if (!sheaf__array_reserve(&task->items, &task->item_capacity, task->count + 1,
                              sizeof(*task->items)) ||
        !sheaf__array_reserve(&task->tensors, &task->tensor_capacity, task->count + 1,
                              sizeof(*task->tensors)))
        return false;
    task->items[task->count] = (struct sheaf__shard_item){key, t->item.saveable};
    task->tensors[task->count++] = t;
    return true;
}

static sheaf_status deal(struct restoring *r, sheaf_error *err)
{
    struct sheaf__save_group *g = r->objects.group;
    const bool restores = !g || g->cls->restores(g);
    if (!find_task(r, NULL))
        return no_memory(err);
    for (size_t i = 0; i < r->objects.tensor_count; i++) {
        const struct sheaf__ckpt_tensor *t = &r->objects.tensors[i];
        const bool local = sheaf__objects_is_local(&r->objects, t);
        const char *key = sheaf__match_key(&r->match, t);
        if (r->later && sheaf__restored_has_taken(r->from, t->owner))
            continue;
        if (!key && r->match.nodes[t->node] >= 0)
            r->match.nodes[t->node] = -1;
        r->shared |= key && !local;
        if (!local && !restores)
            continue; /* the chief has it restored */
        const bool excused = r->match.nodes[t->node] <= SHEAF__MATCH_LACKS;
        if (!key && (t->owner == r->optional || r->lenient || excused))
            continue;
        if (!key)
            return sheaf__match_missing(&r->match, t, err);
        struct task_items *task = find_task(r, local ? NULL : t->item.saveable.device);
        if (!task || !add_item(task, t, key))
            return no_memory(err);
    }
    return SHEAF_OK;
}

/* Names what stays as it is though a file without it can be restored. */
static void warn_of_lacks(const struct restoring *r)
{
    struct sheaf__str names = {0};
    for (size_t i = 0; i < r->objects.tensor_count && !r->from->partial; i++) {
        const struct sheaf__ckpt_tensor *t = &r->objects.tensors[i];
        const int32_t node = r->match.nodes[t->node];
        const bool taken = sheaf__restored_has_taken(r->from, t->owner);
        if (!taken && (node == SHEAF__MATCH_LACKS || (r->grown && node == -1)))
            sheaf__str_printf(&names, "%s'%s'", names.size ? ", " : "",
                              r->objects.nodes[t->node].path);
    }
    if (names.size)
        sheaf__log(SHEAF_LOG_WARN, "checkpoint %s has no value for %s, which stay as they are",
                   r->from->path, sheaf__str_text(&names));
    sheaf__str_free(&names);
}

/* Reading. */

static sheaf_status keep_value(void *user, const struct sheaf__shard_item *item,
                               sheaf_tensor *value, sheaf_error *err)
{
    struct restoring *r = user;
    (void)item;
    (void)err;
    r->values[r->value_count++] = sheaf_tensor_keep(value);
    return SHEAF_OK;
}

static sheaf_status read_local(struct restoring *r, sheaf_error *err)
{
    const struct task_items *task = &r->tasks[0];
    r->values = sheaf__calloc(task->count + 1, sizeof(sheaf_tensor *));
    if (!r->values)
        return no_memory(err);
    const struct sheaf__shard_taker taker = {keep_value, r, &r->sums};
    return sheaf__shard_read_from(r->from->bundle, task->items, task->count, &taker, err);
}

/* What the task of a device noted when it was saved. */
static const char *note_of(const struct restoring *r, const char *device)
{
    const char *task = sheaf__frame_text(device, sheaf__shard_task_size(device));
    return sheaf__sidecar_note(&r->from->bundle->sidecar, task);
}

/* Who keeps a note of the checkpoint gets it back. */
static sheaf_status find_keeper(struct restoring *r, sheaf_error *err)
{
    struct sheaf__save_group *g = r->objects.group;
    const bool asks = g && g->cls->keeper && g->cls->restores(g) && !r->later;
    const char *keeper = asks ? g->cls->keeper(g) : NULL;
    return !keeper || !note_of(r, keeper) || find_task(r, keeper) ? SHEAF_OK : no_memory(err);
}

static sheaf_status read_remote(struct restoring *r, sheaf_error *err)
{
    SHEAF__TRY(find_keeper(r, err));
    struct sheaf__save_group *g = r->objects.group;
    const size_t count = r->task_count - 1;
    struct sheaf__shard *shards = sheaf__frame_alloc((count + 1) * sizeof(*shards));
    const char **notes = sheaf__frame_alloc((count + 1) * sizeof(*notes));
    if (!shards || !notes)
        return no_memory(err);
    for (size_t i = 0; i < count; i++) {
        const struct task_items *task = &r->tasks[i + 1];
        shards[i] = (struct sheaf__shard){task->device, r->from->path, task->items, task->count};
        notes[i] = note_of(r, task->device);
    }
    r->asked = count > 0;
    if (r->asked)
        SHEAF__TRY(g->cls->read(g, shards, count, notes, &r->sums, err));
    return sheaf__bundle_sums_check(&r->sums, r->from->bundle, err);
}

static void warn_of_missing(const struct restoring *r, const struct sheaf__ckpt_blob *b)
{
    const bool has_file = r->from->bundle->sidecar.description != NULL;
    if (r->from->partial)
        return;
    sheaf__log(SHEAF_LOG_WARN, "checkpoint %s has nothing for object '%s', which begins anew%s%s%s",
               r->from->path, b->path, has_file ? "" : ": its file '.",
               has_file ? "" : sheaf__path_name(r->from->path),
               has_file ? "" : ".sheaf' is not beside it");
}

static sheaf_status check_blobs(const struct restoring *r, sheaf_error *err)
{
    for (size_t i = 0; i < r->objects.blob_count; i++) {
        const sheaf_trackable *t = r->objects.blobs[i].trackable;
        if (t->cls->check)
            SHEAF__TRY(t->cls->check(t, err));
    }
    return SHEAF_OK;
}

/* The objects beside TensorFlow's. One that comes later and is not in the file stays as it is. */
static sheaf_status accept_blobs(struct restoring *r, sheaf_error *err)
{
    const size_t count = r->objects.blob_count;
    r->objects.blob_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sheaf__ckpt_blob *b = &r->objects.blobs[i];
        const struct sheaf__sidecar_blob *found =
            sheaf__sidecar_blob(&r->from->bundle->sidecar, b->path);
        const sheaf_bytes bytes = {found ? (const char *)found->data : NULL,
                                   found ? found->size : 0};
        if (!found && r->later)
            continue;
        if (!found)
            warn_of_missing(r, b);
        r->objects.blobs[r->objects.blob_count++] = *b;
        sheaf_status status = b->trackable->cls->accept(b->trackable, found ? &bytes : NULL, err);
        if (status >= 0)
            continue;
        sheaf__error_prefix(err, "object '%s' of checkpoint '%s'", b->path, r->from->path);
        return status;
    }
    return SHEAF_OK;
}

static void settle_blobs(const struct restoring *r, bool take)
{
    for (size_t i = 0; i < r->objects.blob_count; i++)
        r->objects.blobs[i].trackable->cls->settle(r->objects.blobs[i].trackable, take);
}

static sheaf_status write_local(const struct restoring *r, sheaf_error *err)
{
    for (size_t i = 0; i < r->value_count; i++) {
        const struct sheaf__ckpt_tensor *t = r->tasks[0].tensors[i];
        SHEAF__TRY(t->owner->cls->write(t->owner, t->number, r->values[i], err));
    }
    return SHEAF_OK;
}

/* Notes who has what, and who needs nothing. */
static sheaf_status take(const struct restoring *r, sheaf_error *err)
{
    const bool named = !r->from->graph.count;
    for (size_t i = 0; i < r->objects.node_count; i++) {
        const int32_t node = r->match.nodes[i];
        if ((node >= 0 && !named) || node <= SHEAF__MATCH_LACKS)
            if (!sheaf__restored_take(r->from, r->objects.nodes[i].trackable, node, NULL))
                return no_memory(err);
    }
    for (size_t i = 0; i < r->objects.tensor_count && named; i++) {
        const struct sheaf__ckpt_tensor *t = &r->objects.tensors[i];
        const char *key = sheaf__match_key(&r->match, t);
        if (key && !sheaf__restored_take(r->from, t->owner, 0, key))
            return no_memory(err);
    }
    return SHEAF_OK;
}

static void end_restore(struct restoring *r)
{
    for (size_t i = 0; i < r->value_count; i++)
        sheaf_tensor_free(r->values[i]);
    for (size_t i = 0; i < r->task_count; i++) {
        sheaf__free(r->tasks[i].items);
        sheaf__free(r->tasks[i].tensors);
    }
    sheaf__bundle_sums_free(&r->sums);
    sheaf__free(r->values);
    sheaf__free(r->tasks);
    sheaf__match_free(&r->match);
    sheaf__objects_free(&r->objects);
}

static sheaf_status restore_matched(struct restoring *r, sheaf_error *err)
{
    SHEAF__TRY(check_blobs(r, err));
    SHEAF__TRY(deal(r, err));
    SHEAF__TRY(read_local(r, err));
    SHEAF__TRY(read_remote(r, err));
    SHEAF__TRY(accept_blobs(r, err));
    warn_of_lacks(r);
    SHEAF__TRY(take(r, err));
    return write_local(r, err);
}

/* Says the last word to all who hold values back, and to the tasks that restore alike. */
static sheaf_status settle_all(struct restoring *r, sheaf_status status, sheaf_error *err)
{
    struct sheaf__save_group *g = r->objects.group;
    if (r->asked && status >= 0)
        status = g->cls->settle(g, true, err);
    else if (r->asked)
        (void)g->cls->settle(g, false, NULL);
    settle_blobs(r, status >= 0);
    const struct sheaf_bundle *b = r->from ? r->from->bundle : NULL;
    const char *sharding = b ? b->sidecar.description : NULL;
    if (status < 0 && sharding && strcmp(sharding, sheaf_shard_by_task()->description) != 0)
        sheaf__error_suffix(err, "(saved with sharding '%s')", sharding);
    return status;
}

static sheaf_status finish(struct restoring *r, sheaf_status status, sheaf_error *err)
{
    struct sheaf__save_group *g = r->objects.group;
    return g && g->cls->finish ? g->cls->finish(g, status, err) : status;
}

/* Objects whose children come later. */

struct watch {
    struct sheaf__trackable_watch watch;
    struct sheaf__restored *from;
    sheaf_trackable *object;
    int32_t node;
    char *path;
};

static void drop_watch(struct sheaf__trackable_watch *watch)
{
    struct watch *w = (struct watch *)watch;
    struct sheaf__pointers *all = &w->from->watches;
    size_t i = 0;
    while (i < all->count && all->items[i] != w)
        i++;
    if (i < all->count)
        all->items[i] = all->items[--all->count];
    sheaf__free(w->path);
    sheaf__free(w);
}

static sheaf_status restore_grown(struct sheaf__trackable_watch *watch, sheaf_error *err)
{
    const struct watch *w = (const struct watch *)watch;
    const struct sheaf__ckpt_later later = {w->object, w->path, w->node, true};
    return sheaf__ckpt_restore_later(w->from, &later, err);
}

static sheaf_status add_watch(const struct restoring *r, size_t i, sheaf_error *err)
{
    sheaf_trackable *t = r->objects.nodes[i].trackable;
    struct watch *w = sheaf__calloc(1, sizeof(*w));
    char *path = sheaf__strdup(r->objects.nodes[i].path);
    if (!w || !path || !sheaf__pointers_add(&r->from->watches, w)) {
        sheaf__free(w);
        sheaf__free(path);
        return no_memory(err);
    }
    *w = (struct watch){{restore_grown, drop_watch}, r->from, t, r->match.nodes[i], path};
    if (!t->cls->watch(t, &w->watch))
        drop_watch(&w->watch);
    return SHEAF_OK;
}

static sheaf_status watch_all(const struct restoring *r, sheaf_error *err)
{
    for (size_t i = 0; i < r->objects.node_count; i++) {
        if (r->match.nodes[i] >= 0 && r->objects.nodes[i].trackable->cls->watch)
            SHEAF__TRY(add_watch(r, i, err));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__ckpt_restored_check(const struct sheaf__restored *from, sheaf_error *err)
{
    if (!from || from->partial || !from->watches.count || !from->graph.count)
        return SHEAF_OK;
    const struct watch *w = from->watches.items[0];
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "object '%s' was restored from %s but takes its values when it is built, "
                        "which it was not yet: a "
                        "save would lose them (sheaf_optimizer_build() builds it)",
                        w->path, from->path);
}

void sheaf__ckpt_restored_free(struct sheaf__restored *from)
{
    while (from && from->watches.count) {
        struct watch *w = from->watches.items[from->watches.count - 1];
        (void)w->object->cls->watch(w->object, NULL);
        drop_watch(&w->watch);
    }
    sheaf__restored_free(from);
}

/* The whole, and what comes later. */

static sheaf_status restore_all(struct restoring *r, const struct sheaf__ckpt_restore *how,
                                sheaf_error *err)
{
    SHEAF__TRY(sheaf__restored_open(how->path, &r->from, err));
    r->from->partial = how->partial;
    r->from->speaks = !r->objects.group || r->objects.group->cls->restores(r->objects.group);
    SHEAF__TRY(match(r, 0, err));
    SHEAF__TRY(restore_matched(r, err));
    return watch_all(r, err);
}

sheaf_status sheaf__ckpt_restore(const struct sheaf__ckpt_restore *how,
                                 struct sheaf__restored **restored, sheaf_error *err)
{
    SHEAF__TRACE("checkpoint.restore");
    struct restoring r = {.optional = how->optional, .lenient = how->partial};
    SHEAF__TRY(sheaf__objects_walk(&r.objects, how->root, "", err));
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        status = restore_all(&r, how, err);
        status = settle_all(&r, status, err);
    }
    status = finish(&r, status, err);
    end_restore(&r);
    if (status >= 0) {
        sheaf__restored_rest(r.from);
        *restored = r.from;
    } else if (r.from) {
        r.from->partial = true; /* nothing was restored: nothing is left of it */
        sheaf__ckpt_restored_free(r.from);
    }
    return status;
}

static sheaf_status restore_one(struct restoring *r, int32_t node, sheaf_error *err)
{
    SHEAF__TRY(sheaf__restored_reopen(r->from, err));
    SHEAF__TRY(match(r, node, err));
    SHEAF__TRY(restore_matched(r, err));
    return watch_all(r, err);
}

/* Nobody sees what the one task has yet to restore. */
static sheaf_status follow(const struct restoring *r, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        const char *path = r->from->path;
        status = r->objects.group->cls->follow(r->objects.group, &path, err);
    }
    return status;
}

sheaf_status sheaf__ckpt_restore_later(struct sheaf__restored *from,
                                       const struct sheaf__ckpt_later *later, sheaf_error *err)
{
    const bool named = !from->graph.count;
    if (later->node < 0 && !named && !later->object->cls->save)
        return SHEAF_OK;
    struct restoring r = {
        .from = from, .later = true, .lenient = from->partial || named, .grown = later->grown};
    SHEAF__TRY(sheaf__objects_walk(&r.objects, later->object, later->path, err));
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        status = restore_one(&r, later->node, err);
        status = settle_all(&r, status, err);
    }
    if (status < 0)
        sheaf__error_prefix(err, "object '%s', which came after the restore", later->path);
    status = finish(&r, status, err);
    if (status >= 0 && r.shared && r.objects.group->cls->follow)
        status = follow(&r, err);
    end_restore(&r);
    sheaf__restored_rest(from);
    return status;
}
