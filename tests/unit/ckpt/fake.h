/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_CKPT_FAKE_H
#define SHEAF_TEST_CKPT_FAKE_H

/* Objects, and several tasks in one process, to save and restore. */

#include "rig.h"

#include "base/mem.h"
#include "ckpt/restored.h"
#include "ckpt/save.h"
#include "ckpt/shard.h"
#include "format/bundle.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_MOST 64

/* An object with children, tensors and slot variables. */
struct fake {
    sheaf_trackable trackable;
    struct {
        const char *name;
        sheaf_trackable *child;
    } children[FAKE_MOST];
    size_t child_count;
    struct sheaf__slot_ref slots[FAKE_MOST];
    size_t slot_count;
    struct sheaf__saveable saveables[FAKE_MOST];
    sheaf_tensor *values[FAKE_MOST]; /* counted */
    size_t count;
    int refuse; /* write number `refuse` - 1 fails */
};

static inline bool fake_child(sheaf_trackable *t, size_t i, const char **name,
                              sheaf_trackable **child)
{
    struct fake *f = t->object;
    if (i >= f->child_count)
        return false;
    *name = f->children[i].name;
    *child = f->children[i].child;
    return true;
}

static inline bool fake_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    struct fake *f = t->object;
    if (i < f->count)
        *out = f->saveables[i];
    return i < f->count;
}

static inline bool fake_slot(sheaf_trackable *t, size_t i, struct sheaf__slot_ref *out)
{
    struct fake *f = t->object;
    if (i < f->slot_count)
        *out = f->slots[i];
    return i < f->slot_count;
}

static inline sheaf_tensor *fake_read(sheaf_trackable *t, size_t i)
{
    struct fake *f = t->object;
    return sheaf__frame_own(sheaf_tensor_keep(f->values[i]));
}

static inline sheaf_status fake_write(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                      sheaf_error *err)
{
    struct fake *f = t->object;
    if (f->refuse == (int)i + 1)
        return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "refused");
    sheaf_tensor_free(f->values[i]);
    f->values[i] = sheaf_tensor_keep(value);
    return SHEAF_OK;
}

static const struct sheaf__trackable_class fake_class = {
    .child = fake_child,
    .saveable = fake_saveable,
    .slot = fake_slot,
    .read = fake_read,
    .write = fake_write,
};

static inline struct fake *fake_new(void)
{
    struct fake *f = calloc(1, sizeof(*f));
    f->trackable = (sheaf_trackable){&fake_class, f};
    return f;
}

static inline void fake_free(struct fake *f)
{
    for (size_t i = 0; i < f->count; i++)
        sheaf_tensor_free(f->values[i]);
    free(f);
}

static inline void fake_add_child(struct fake *f, const char *name, struct fake *child)
{
    assert_true(f->child_count < FAKE_MOST);
    f->children[f->child_count].name = name;
    f->children[f->child_count++].child = &child->trackable;
}

/* Adds a tensor that is saved whole under VARIABLE_VALUE. */
static inline struct sheaf__saveable *fake_add(struct fake *f, sheaf_tensor *value)
{
    assert_true(f->count < FAKE_MOST);
    struct sheaf__saveable *s = &f->saveables[f->count];
    *s = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                  .full_name = "",
                                  .dtype = sheaf_tensor_dtype(value),
                                  .shape = sheaf_tensor_shape(value),
                                  .full = sheaf_tensor_shape(value)};
    f->values[f->count++] = sheaf_tensor_keep(value);
    return s;
}

/* A variable of floats `first`, `first` + 1, … */
static inline struct fake *fake_floats(sheaf_shape shape, float first)
{
    struct fake *f = fake_new();
    int64_t count = sheaf_shape_elements(shape);
    float *data = calloc((size_t)count + 1, sizeof(*data));
    for (int64_t i = 0; i < count; i++)
        data[i] = first + (float)i;
    fake_add(f, sheaf_tensor_new(SHEAF_FLOAT32, shape, data));
    free(data);
    return f;
}

static inline bool fake_equal(const sheaf_tensor *a, const sheaf_tensor *b)
{
    int64_t count = sheaf_tensor_elements(a);
    if (sheaf_tensor_dtype(a) != sheaf_tensor_dtype(b) ||
        !sheaf_shape_equal(sheaf_tensor_shape(a), sheaf_tensor_shape(b)))
        return false;
    if (sheaf_tensor_dtype(a) != SHEAF_STRING)
        return count == 0 || !memcmp(sheaf_tensor_data(a), sheaf_tensor_data(b),
                                     (size_t)count * sheaf_dtype_size(sheaf_tensor_dtype(a)));
    for (int64_t i = 0; i < count; i++) {
        sheaf_bytes x = sheaf_tensor_bytes(a, i), y = sheaf_tensor_bytes(b, i);
        if (x.size != y.size || (x.size && memcmp(x.data, y.data, x.size) != 0))
            return false;
    }
    return true;
}

/* Restores everything below `root`. */
static inline sheaf_status fake_restore(sheaf_trackable *root, const char *path, sheaf_error *err)
{
    struct sheaf__restored *restored = NULL;
    const struct sheaf__ckpt_restore how = {.root = root, .path = path};
    sheaf_status status = sheaf__ckpt_restore(&how, &restored, err);
    if (restored)
        restored->partial = true; /* no word of what is left */
    sheaf__ckpt_restored_free(restored);
    return status;
}

/* A group of tasks in this process. Handles are positions in a table of tensors; each task's are
 * written and read through ckpt/shard.h, as a server would. */

#define FAKE_DEVICE(job, task) "/job:" job "/replica:0/task:" task "/device:CPU:0"

struct fake_group {
    struct sheaf__save_group group;
    const char *here; /* device of the task that this process is; NULL: all are here */
    struct fake_held {
        struct sheaf__saveable saveable;
        sheaf_tensor *value;
        sheaf_tensor *staged;
    } held[512];
    size_t count;
    bool not_writer;
    int leaves;           /* that are given; then the turn is lost, as it is to `not_writer` */
    int64_t last;         /* number that was given */
    int taken;            /* how often the directory was */
    const char *blind;    /* a device whose task does not see the directory */
    const char *broken;   /* a device whose task cannot write */
    struct fake_cut *cut; /* what is held for a save; NULL: nothing */
    uint64_t cuts;
    int proofs, writes, drops, reads, fetches, settles;
    const char *last_note;
};

/* Shards with the values of one moment. */
struct fake_cut {
    struct sheaf__shard *shards;
    size_t count;
    sheaf_tensor *values[512]; /* by handle, counted */
};

static inline struct fake_group *fake_group_of(struct sheaf__save_group *g)
{
    return (struct fake_group *)g;
}

static inline bool fake_group_restores(struct sheaf__save_group *g)
{
    return !fake_group_of(g)->not_writer;
}

static inline sheaf_status fake_group_writes(struct sheaf__save_group *g, bool *now,
                                             sheaf_error *err)
{
    (void)err;
    *now = !fake_group_of(g)->not_writer;
    return SHEAF_OK;
}

static inline bool fake_group_is_local(struct sheaf__save_group *g, const char *device)
{
    const char *here = fake_group_of(g)->here;
    return !here || !device || sheaf__shard_same_task(here, device);
}

static inline sheaf_status fake_group_prove(struct sheaf__save_group *g, const char *device,
                                            const char *path, const char *token, sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    char *found = NULL;
    size_t size = 0;
    f->proofs++;
    if (f->blind && sheaf__shard_same_task(f->blind, device))
        return sheaf_error_set(err, SHEAF_ERR_FAILED_PRECONDITION, "%s does not see %s", device,
                               path);
    sheaf_status status = sheaf__file_read_all(path, 999, &found, &size, err);
    if (status >= 0 && strcmp(found, token) != 0)
        status = sheaf_error_set(err, SHEAF_ERR_INTERNAL, "another token");
    sheaf__free(found);
    return status;
}

/* One at a time is enough. */
static inline void fake_let_go(struct fake_group *f)
{
    for (size_t i = 0; f->cut && i < f->count; i++)
        sheaf_tensor_free(f->cut->values[i]);
    if (f->cut)
        free(f->cut->shards);
    free(f->cut);
    f->cut = NULL;
}

static inline sheaf_status fake_group_cut(struct sheaf__save_group *g,
                                          const struct sheaf__shard *shards, size_t count,
                                          const char **notes, struct sheaf__save_cut *cut,
                                          sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    (void)err;
    assert_null(f->cut);
    f->cut = calloc(1, sizeof(*f->cut));
    f->cut->shards = calloc(count, sizeof(*shards));
    f->cut->count = count;
    for (size_t i = 0; i < count; i++) {
        f->cut->shards[i] = shards[i];
        assert_false(fake_group_is_local(g, shards[i].device));
        char note[128];
        int size = snprintf(note, sizeof(note), "pushes of %.60s", shards[i].device);
        notes[i] = sheaf__frame_text(note, (size_t)size);
    }
    for (size_t i = 0; i < f->count; i++)
        f->cut->values[i] = sheaf_tensor_keep(f->held[i].value);
    cut->number = ++f->cuts;
    return SHEAF_OK;
}

static inline sheaf_tensor *fake_held_value(void *user, const struct sheaf__shard_item *item)
{
    struct fake_group *f = user;
    const uint64_t handle = item->saveable.handle;
    sheaf_tensor *whole = sheaf__frame_own(sheaf_tensor_keep(f->cut->values[handle]));
    return sheaf__shard_cut(whole, f->held[handle].saveable.offset, &item->saveable);
}

static inline sheaf_status fake_group_write(struct sheaf__save_group *g,
                                            const struct sheaf__save_cut *cut, sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    sheaf_status status =
        cut->number == f->cuts ? SHEAF_OK : sheaf_error_set(err, SHEAF_ERR_INTERNAL, "another cut");
    for (size_t i = 0; i < f->cut->count && status >= 0; i++) {
        const struct sheaf__shard *shard = &f->cut->shards[i];
        f->writes++;
        if (f->broken && sheaf__shard_same_task(f->broken, shard->device))
            status = sheaf_error_set(err, SHEAF_ERR_IO, "%s cannot write", shard->device);
        else
            status = sheaf__shard_write(shard->path, shard->items, shard->count, fake_held_value, f,
                                        err);
    }
    fake_let_go(f);
    return status;
}

static inline void fake_group_drop(struct sheaf__save_group *g, const struct sheaf__save_cut *cut)
{
    struct fake_group *f = fake_group_of(g);
    assert_int_equal(cut->number, f->cuts);
    f->drops++;
    fake_let_go(f);
}

static inline sheaf_status fake_stage(void *user, const struct sheaf__shard_item *item,
                                      sheaf_tensor *value, sheaf_error *err)
{
    struct fake_group *f = user;
    struct fake_held *h = &f->held[item->saveable.handle];
    (void)err;
    sheaf_tensor_free(h->staged);
    h->staged = sheaf_tensor_keep(value);
    return SHEAF_OK;
}

static inline sheaf_status fake_group_read(struct sheaf__save_group *g,
                                           const struct sheaf__shard *shards, size_t count,
                                           const char *const *notes,
                                           struct sheaf__bundle_sums *sums, sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    const struct sheaf__shard_taker taker = {fake_stage, f, sums};
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        f->reads++;
        f->last_note = notes[i] ? sheaf__frame_text(notes[i], strlen(notes[i])) : NULL;
        status = sheaf__shard_read(shards[i].path, shards[i].items, shards[i].count, &taker, err);
    }
    return status;
}

static inline sheaf_status fake_group_settle(struct sheaf__save_group *g, bool take,
                                             sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    (void)err;
    f->settles++;
    for (size_t i = 0; i < f->count; i++) {
        struct fake_held *h = &f->held[i];
        if (take && h->staged) {
            sheaf_tensor_free(h->value);
            h->value = h->staged;
        } else {
            sheaf_tensor_free(h->staged);
        }
        h->staged = NULL;
    }
    return SHEAF_OK;
}

static inline sheaf_tensor *fake_group_fetch(struct sheaf__save_group *g,
                                             const struct sheaf__saveable *s)
{
    struct fake_group *f = fake_group_of(g);
    f->fetches++;
    return sheaf__frame_own(sheaf_tensor_keep(f->held[s->handle].value));
}

static inline sheaf_status fake_turn(const struct fake_group *f, sheaf_error *err)
{
    return f->not_writer ? sheaf_error_set(err, SHEAF_ERR_UNAVAILABLE, "another one writes")
                         : SHEAF_OK;
}

static inline sheaf_status fake_take(struct sheaf__save_group *g, const char *prefix, int64_t *last,
                                     sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    (void)prefix;
    f->taken++;
    *last = f->last;
    return fake_turn(f, err);
}

static inline sheaf_status fake_number(struct sheaf__save_group *g, const char *prefix,
                                       int64_t *number, sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    (void)prefix;
    f->last = *number > f->last ? *number : f->last + 1;
    *number = f->last;
    return fake_turn(f, err);
}

static inline sheaf_status fake_leave(struct sheaf__save_group *g, sheaf_error *err)
{
    struct fake_group *f = fake_group_of(g);
    f->not_writer = f->not_writer || f->leaves == 0;
    f->leaves--;
    return fake_turn(f, err);
}

static const struct sheaf__save_turns fake_turns = {
    .take = fake_take, .number = fake_number, .leave = fake_leave};

static const struct sheaf__save_group_class fake_group_class = {
    .restores = fake_group_restores,
    .writes = fake_group_writes,
    .is_local = fake_group_is_local,
    .prove = fake_group_prove,
    .cut = fake_group_cut,
    .write = fake_group_write,
    .drop = fake_group_drop,
    .read = fake_group_read,
    .settle = fake_group_settle,
    .fetch = fake_group_fetch,
};

/* Where writers take turns. */
static const struct sheaf__save_group_class fake_turns_class = {
    .restores = fake_group_restores,
    .writes = fake_group_writes,
    .turns = &fake_turns,
    .is_local = fake_group_is_local,
    .prove = fake_group_prove,
    .cut = fake_group_cut,
    .write = fake_group_write,
    .drop = fake_group_drop,
    .read = fake_group_read,
    .settle = fake_group_settle,
    .fetch = fake_group_fetch,
};

static inline struct fake_group *fake_group_new(const char *here)
{
    struct fake_group *g = calloc(1, sizeof(*g));
    g->group.cls = &fake_group_class;
    g->here = here;
    return g;
}

static inline void fake_group_free(struct fake_group *g)
{
    fake_let_go(g);
    for (size_t i = 0; i < g->count; i++)
        sheaf_tensor_free(g->held[i].value);
    free(g);
}

/* Lets the task of `device` hold rows [first, first + rows) of `whole` as a tensor of `f`. */
static inline void fake_hold(struct fake_group *g, struct fake *f, const char *device,
                             sheaf_tensor *whole, int64_t first, int64_t rows)
{
    sheaf_shape full = sheaf_tensor_shape(whole);
    sheaf_tensor *part =
        full.rank && rows != full.dims[0] ? sheaf_tensor_rows(whole, first, first + rows) : whole;
    assert_true(g->count < 512);
    struct sheaf__saveable *s = fake_add(f, part);
    s->full = full;
    s->offset[0] = first;
    s->device = device;
    s->group = &g->group;
    s->handle = g->count;
    g->held[g->count++] =
        (struct fake_held){.saveable = *s, .value = sheaf_tensor_keep(part), .staged = NULL};
}

#endif
