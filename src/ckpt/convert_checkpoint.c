/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/convert.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "ckpt/plan.h"
#include "ckpt/shard.h"
#include "ckpt/sweep.h"
#include "format/bundle.h"
#include "tensor/device.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <string.h>

/* Tensors as a checkpoint: planned, written and put in place as a save does it (save.c), but that values come from a
 * file, in pieces. */

struct writing {
    const struct sheaf__convert *c;
    sheaf_trackable owner; /* of every tensor: to show a policy the values of strings */
    struct sheaf__ckpt_objects objects;
    struct sheaf__ckpt_plan plan;
    char *temporary;
    char **parts; /* of every shard: a prefix in it */
    struct sheaf__sidecar sidecar;
};

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "converting to a checkpoint");
}

static const sheaf_sharding_callback *sharding_of(const struct writing *w)
{
    const sheaf_sharding_callback *given = w->c->options->sharding;
    return given ? given : sheaf_shard_all_in_one();
}

/* ---- the plan ---- */

static sheaf_tensor *read_value(sheaf_trackable *t, size_t i)
{
    const struct writing *w = t->object;
    const struct sheaf__convert_item *item = &w->c->items[i];
    sheaf_error err = {0};
    return item->out.dtype == SHEAF_STRING
               ? sheaf__convert_strings(w->c, item)
               : sheaf__tensor_give(sheaf__tensor_file_whole(w->c->from, item->in, &err), &err);
}

static const struct sheaf__trackable_class stored = {.read = read_value};

static sheaf_status make_plan(struct writing *w, sheaf_error *err)
{
    struct sheaf__ckpt_objects *o = &w->objects;
    struct sheaf__device *host = sheaf__device_host(err);
    o->tensors = sheaf__calloc(w->c->count + 1, sizeof(*o->tensors));
    if (!o->tensors || !host)
        return no_memory(err);
    w->owner = (sheaf_trackable){&stored, w};
    for (size_t i = 0; i < w->c->count; i++) {
        const struct sheaf__tensor_entry *e = &w->c->items[i].out;
        struct sheaf__ckpt_tensor *t = &o->tensors[o->tensor_count++];
        t->item.key = (char *)(uintptr_t)e->name;
        t->item.saveable =
            (struct sheaf__saveable){.dtype = e->dtype, .shape = e->shape, .full = e->shape};
        t->owner = &w->owner;
        t->number = i;
    }
    return sheaf__ckpt_plan_make(&w->plan, o, sharding_of(w), sheaf__device_full_name(host), err);
}

/* ---- shards ---- */

static sheaf_status put(void *user, const void *data, size_t size, sheaf_error *err)
{
    return sheaf__bundle_writer_put(user, data, size, err);
}

static sheaf_status write_strings(struct writing *w, struct sheaf__bundle_writer *out,
                                  const struct sheaf__shard_item *item, size_t number,
                                  sheaf_error *err)
{
    static const int64_t start[SHEAF_MAX_RANK];
    const struct sheaf__saveable *s = &item->saveable;
    struct sheaf__slice slice = {.full = s->full, .shape = s->shape};
    struct sheaf__extent extents[SHEAF_MAX_RANK];
    sheaf_status status = SHEAF_OK;
    memcpy(slice.offset, s->offset, sizeof(slice.offset));
    sheaf__slice_spell(&slice, extents);
    SHEAF_FRAME
    {
        sheaf_tensor *t = sheaf__shard_cut(read_value(&w->owner, number), start, s);
        status = sheaf_tensor_status(t, err);
        if (status >= 0)
            status = sheaf__bundle_writer_add(out, item->key, strlen(item->key),
                                              sheaf__slice_is_all(&slice) ? NULL : &s->full,
                                              extents, t, err);
    }
    return status;
}

static sheaf_status write_item(struct writing *w, struct sheaf__bundle_writer *out,
                               const struct sheaf__shard_item *item, size_t number,
                               sheaf_error *err)
{
    const struct sheaf__saveable *s = &item->saveable;
    struct sheaf__slice slice = {.full = s->full, .shape = s->shape};
    if (s->dtype == SHEAF_STRING)
        return write_strings(w, out, item, number, err);
    memcpy(slice.offset, s->offset, sizeof(slice.offset));
    SHEAF__TRY(sheaf__bundle_writer_begin(out, item->key, s->dtype, &slice, err));
    SHEAF__TRY(sheaf__convert_copy(w->c, &w->c->items[number], &slice, put, out, err));
    return sheaf__bundle_writer_end(out, err);
}

static sheaf_status write_shard(struct writing *w, size_t shard, sheaf_error *err)
{
    const struct sheaf__ckpt_shard *s = &w->plan.shards[shard];
    struct sheaf__bundle_writer *out = NULL;
    SHEAF__TRY(sheaf__bundle_writer_open(w->parts[shard], &out, err));
    for (size_t i = 0; i < s->count; i++) {
        const sheaf_status status = write_item(w, out, &s->items[i], s->tensors[i]->number, err);
        if (status < 0) {
            sheaf__bundle_writer_free(out);
            return status;
        }
    }
    return sheaf__bundle_writer_finish(out, err);
}

static sheaf_status write_shards(struct writing *w, sheaf_error *err)
{
    w->temporary = sheaf__printf("%s_temp", w->c->to);
    w->parts = sheaf__calloc(w->plan.count + 1, sizeof(*w->parts));
    if (!w->temporary || !w->parts)
        return no_memory(err);
    sheaf__sweep_beside(w->c->to);
    SHEAF__TRY(sheaf__sweep_make_temporary(w->temporary, err));
    for (size_t i = 0; i < w->plan.count; i++) {
        w->parts[i] = sheaf__printf("%s/part-%05zu-of-%05zu", w->temporary, i, w->plan.count);
        if (!w->parts[i])
            return no_memory(err);
        SHEAF__TRY(write_shard(w, i, err));
    }
    return SHEAF_OK;
}

/* ---- the commit ---- */

/* What stands beside a checkpoint goes on to the new one. */
static sheaf_status copy_sidecar(struct writing *w, sheaf_error *err)
{
    sheaf_bundle *b = sheaf__tensor_bundle(w->c->from);
    struct sheaf__sidecar *s = &w->sidecar;
    bool made = (s->description = sheaf__strdup(sharding_of(w)->description));
    if (b && b->sidecar.run_id)
        made = made && (s->run_id = sheaf__strdup(b->sidecar.run_id));
    s->last = b && b->sidecar.last;
    s->has_measure = b && b->sidecar.has_measure;
    s->measure = b ? b->sidecar.measure : 0;
    for (size_t i = 0; made && b && i < b->sidecar.note_count; i++)
        made = sheaf__sidecar_add(s, b->sidecar.notes[i].task, b->sidecar.notes[i].text);
    for (size_t i = 0; made && b && i < b->sidecar.blob_count; i++)
        made = sheaf__sidecar_add_blob(s, b->sidecar.blobs[i].name, b->sidecar.blobs[i].data,
                                       b->sidecar.blobs[i].size);
    return made ? SHEAF_OK : no_memory(err);
}

static sheaf_status write_sidecar(void *user, const void *index, size_t size, sheaf_error *err)
{
    const struct writing *w = user;
    SHEAF__TRY(sheaf__convert_goes_on(err));
    return sheaf__sidecar_write(w->c->to, sheaf__crc32c(index, size), &w->sidecar, err);
}

static sheaf_status write_all(struct writing *w, sheaf_error *err)
{
    SHEAF__TRY(make_plan(w, err));
    SHEAF__TRY(copy_sidecar(w, err));
    SHEAF__TRY(write_shards(w, err));
    const struct sheaf__bundle_merge merge = {.prefix = w->c->to,
                                              .parts = (const char *const *)w->parts,
                                              .count = w->plan.count,
                                              .before = write_sidecar,
                                              .user = w};
    return sheaf__bundle_merge(&merge, err);
}

sheaf_status sheaf__convert_to_checkpoint(const struct sheaf__convert *c, sheaf_error *err)
{
    struct writing w = {.c = c};
    const sheaf_status status = write_all(&w, err);
    if (w.temporary)
        sheaf__sweep_temporary(w.temporary);
    for (size_t i = 0; w.parts && i < w.plan.count; i++)
        sheaf__free(w.parts[i]);
    sheaf__free(w.parts);
    sheaf__free(w.temporary);
    sheaf__free(w.objects.tensors);
    sheaf__ckpt_plan_free(&w.plan);
    sheaf__sidecar_free(&w.sidecar);
    return status;
}
