/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/save.h"

#include "base/config.h"
#include "base/crc32c.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/trace.h"
#include "base/wait.h"
#include "ckpt/plan.h"
#include "ckpt/shard.h"
#include "ckpt/sweep.h"
#include "format/bundle.h"
#include "tensor/device.h"
#include "tensor/frame.h"

#include <stdio.h>
#include <string.h>

/* A save: plan, shards as bundles of their own in `<path>_temp`, merge, sidecar, index. Nothing has
 * its final name before every shard is durable; the index gets its name last. The program's thread
 * plans, looks at the objects and has the other tasks hold what they will write; the rest can be done by
 * another one. */

struct sheaf__ckpt_saving {
    struct sheaf__ckpt_save job; /* path and options are its own */
    sheaf_checkpoint_options options;
    struct sheaf__ckpt_objects objects;
    struct sheaf__ckpt_plan plan;
    char *path;
    char *temporary;             /* `<path>_temp` */
    struct sheaf__strings parts; /* of every shard: a prefix in it */
    bool holds;                  /* other tasks hold their shards: */
    struct sheaf__save_cut cut;  /* which */
    struct sheaf__sidecar sidecar;
    struct sheaf__thread *thread; /* NULL: it is done */
    sheaf_error fault;            /* status < 0: it failed */
};

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "saving a checkpoint");
}

sheaf_status sheaf__ckpt_check_options(const sheaf_checkpoint_options *options, sheaf_error *err)
{
    if (!options)
        return SHEAF_OK;
    for (size_t i = 0; i < sizeof(options->reserved) / sizeof(options->reserved[0]); i++) {
        if (options->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "checkpoint options: reserved[%zu] is not 0", i);
    }
    return sheaf_sharding_callback_check(options->sharding, err);
}

static const sheaf_sharding_callback *sharding_of(const struct sheaf__ckpt_saving *s)
{
    return s->options.sharding ? s->options.sharding : sheaf_shard_by_task();
}

static sheaf_status name_parts(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    s->temporary = sheaf__printf("%s_temp", s->path);
    bool named = s->temporary != NULL;
    for (size_t i = 0; i < s->plan.count && named; i++) {
        char *part = sheaf__printf("%s/part-%05zu-of-%05zu", s->temporary, i, s->plan.count);
        named = part && sheaf__strings_take(&s->parts, part);
    }
    return named ? SHEAF_OK : no_memory(err);
}

/* True for the first shard of a remote task. */
static bool is_first_of_task(const struct sheaf__ckpt_saving *s, size_t shard)
{
    if (s->plan.shards[shard].local)
        return false;
    for (size_t i = 0; i < shard; i++) {
        if (sheaf__shard_same_task(s->plan.shards[i].device, s->plan.shards[shard].device))
            return false;
    }
    return true;
}

/* Every other task that writes shows that it sees the same directory, before the first byte. */
static sheaf_status prove_directory(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    struct sheaf__save_group *g = s->objects.group;
    uint8_t random[16];
    char token[33], *path = NULL;
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < s->plan.count && status >= 0; i++) {
        if (!is_first_of_task(s, i) || !g->cls->prove)
            continue;
        if (!path) {
            SHEAF__TRY(sheaf__random_bytes(random, sizeof(random), err));
            for (size_t k = 0; k < sizeof(random); k++)
                snprintf(token + 2 * k, 3, "%02x", random[k]);
            path = sheaf__path_join(s->temporary, SHEAF__SWEEP_TOKEN);
            status = path ? sheaf__file_replace(path, token, 32, err) : no_memory(err);
        }
        if (status >= 0)
            status = g->cls->prove(g, s->plan.shards[i].device, path, token, err);
    }
    if (path)
        (void)sheaf__file_unlink(path, NULL);
    sheaf__free(path);
    return status;
}

/* What a task notes of its shards is kept once. */
static sheaf_status keep_note(struct sheaf__ckpt_saving *s, const char *device, const char *note,
                              sheaf_error *err)
{
    const char *task = sheaf__frame_text(device, sheaf__shard_task_size(device));
    if (!note || sheaf__sidecar_note(&s->sidecar, task))
        return SHEAF_OK;
    return sheaf__sidecar_add(&s->sidecar, task, note) ? SHEAF_OK : no_memory(err);
}

static bool has_task(const struct sheaf__shard *shards, size_t count, const char *device)
{
    size_t i = 0;
    while (i < count && !sheaf__shard_same_task(shards[i].device, device))
        i++;
    return i < count;
}

/* Has the other tasks hold their shards. */
static sheaf_status cut_remote(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    struct sheaf__save_group *g = s->objects.group;
    size_t count = 0, all = s->plan.count;
    struct sheaf__shard *shards = sheaf__frame_alloc((all + 1) * sizeof(*shards));
    const char **notes = sheaf__frame_alloc((all + 1) * sizeof(*notes));
    if (!shards || !notes)
        return no_memory(err);
    memset(notes, 0, (all + 1) * sizeof(*notes));
    for (size_t i = 0; i < all; i++) {
        const struct sheaf__ckpt_shard *shard = &s->plan.shards[i];
        if (shard->local)
            continue;
        shards[count++] =
            (struct sheaf__shard){shard->device, s->parts.items[i], shard->items, shard->count};
    }
    const char *keeper = g && g->cls->keeper ? g->cls->keeper(g) : NULL;
    if (keeper && !has_task(shards, count, keeper))
        shards[count++] = (struct sheaf__shard){.device = keeper, .path = ""};
    if (!count)
        return SHEAF_OK;
    SHEAF__TRY(g->cls->cut(g, shards, count, notes, &s->cut, err));
    s->holds = true;
    for (size_t i = 0; i < count; i++)
        SHEAF__TRY(keep_note(s, shards[i].device, notes[i], err));
    return SHEAF_OK;
}

static sheaf_status write_remote(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    struct sheaf__save_group *g = s->objects.group;
    if (!s->holds)
        return SHEAF_OK;
    s->holds = false;
    return g->cls->write(g, &s->cut, err);
}

struct local_shard {
    const struct sheaf__ckpt_objects *objects;
    const struct sheaf__ckpt_shard *shard;
};

static sheaf_tensor *local_value(void *user, const struct sheaf__shard_item *item)
{
    const struct local_shard *local = user;
    const struct sheaf__ckpt_tensor *t = local->shard->tensors[item - local->shard->items];
    sheaf_tensor *value = sheaf__objects_value(local->objects, t);
    return sheaf__shard_cut(value, t->item.saveable.offset, &item->saveable);
}

static sheaf_status write_local(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    for (size_t i = 0; i < s->plan.count; i++) {
        const struct sheaf__ckpt_shard *shard = &s->plan.shards[i];
        struct local_shard local = {&s->objects, shard};
        if (shard->local)
            SHEAF__TRY(sheaf__shard_write(s->parts.items[i], shard->items, shard->count,
                                          local_value, &local, err));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__ckpt_leave(void *group, sheaf_error *err)
{
    struct sheaf__save_group *g = group;
    return g && g->cls->turns ? g->cls->turns->leave(g, err) : SHEAF_OK;
}

static sheaf_status write_sidecar(void *user, const void *index, size_t size, sheaf_error *err)
{
    const struct sheaf__ckpt_saving *s = user;
    SHEAF__TRY(sheaf__ckpt_leave(s->objects.group, err));
    return sheaf__sidecar_write(s->path, sheaf__crc32c(index, size), &s->sidecar, err);
}

/* The objects that TensorFlow has no place for. */
static sheaf_status keep_blobs(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    for (size_t i = 0; i < s->objects.blob_count; i++) {
        const struct sheaf__ckpt_blob *b = &s->objects.blobs[i];
        sheaf_bytes bytes = {0};
        sheaf_status status = b->trackable->cls->save(b->trackable, &bytes, err);
        if (status < 0) {
            sheaf__error_prefix(err, "checkpoint object '%.60s'", b->path);
            return status;
        }
        if (!sheaf__sidecar_add_blob(&s->sidecar, b->path, bytes.data, bytes.size))
            return no_memory(err);
    }
    return SHEAF_OK;
}

static sheaf_status describe(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    s->sidecar.description = sheaf__strdup(sharding_of(s)->description);
    s->sidecar.run_id = sheaf__strdup(sheaf__config_text(SHEAF__CONFIG_RUN_ID));
    s->sidecar.last = s->options.last;
    s->sidecar.has_measure = s->job.has_measure;
    s->sidecar.measure = s->job.measure;
    return s->sidecar.description && s->sidecar.run_id ? SHEAF_OK : no_memory(err);
}

/* All that asks the program: its objects and its callback. */
static sheaf_status prepare(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    struct sheaf__device *host = sheaf__device_host(err);
    if (!host)
        return no_memory(err);
    SHEAF__TRY(sheaf__objects_add_graph(&s->objects, err));
    SHEAF__TRY(sheaf__ckpt_plan_make(&s->plan, &s->objects, sharding_of(s),
                                     sheaf__device_full_name(host), err));
    SHEAF__TRY(describe(s, err));
    SHEAF__TRY(name_parts(s, err));
    SHEAF__TRY(keep_blobs(s, err));
    SHEAF__TRY(cut_remote(s, err));
    return s->job.snapshot ? sheaf__snapshot_take(s->job.snapshot, &s->objects, err) : SHEAF_OK;
}

static sheaf_status write_all(struct sheaf__ckpt_saving *s, sheaf_error *err)
{
    if (!s->job.keeps) /* else its manager has swept the directory */
        sheaf__sweep_beside(s->path);
    SHEAF__TRY(sheaf__sweep_make_temporary(s->temporary, err));
    SHEAF__TRY(prove_directory(s, err));
    SHEAF__TRY(write_remote(s, err));
    SHEAF__TRY(write_local(s, err));
    struct sheaf__bundle_merge merge = {.prefix = s->path,
                                        .parts = (const char *const *)s->parts.items,
                                        .count = s->plan.count,
                                        .before = write_sidecar,
                                        .user = s};
    SHEAF__TRY(sheaf__bundle_merge(&merge, err));
    return s->job.committed ? s->job.committed(s->job.user, s->path, err) : SHEAF_OK;
}

/* What a save that failed fails with. Who has lost its turn finds its files gone, or has no answers:
 * that is not the cause. */
static void find_cause(struct sheaf__ckpt_saving *s)
{
    sheaf_error lost = {0};
    if (sheaf__ckpt_leave(s->objects.group, &lost) < 0)
        s->fault = lost;
    if (!s->fault.file[0])
        sheaf__str_copy(s->fault.file, sizeof(s->fault.file), s->path);
}

static void write_checkpoint(void *user)
{
    SHEAF__TRACE("checkpoint.write");
    struct sheaf__ckpt_saving *s = user;
    if (s->job.snapshot)
        sheaf__pool_set_alone(true); /* the pool is the steps' */
    SHEAF_FRAME
    {
        if (write_all(s, &s->fault) < 0)
            find_cause(s);
    }
    sheaf__sweep_temporary(s->temporary);
}

static void save_all(struct sheaf__ckpt_saving *s)
{
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        status = prepare(s, &s->fault);
    }
    if (status >= 0 && s->job.snapshot)
        status =
            sheaf__thread_start("checkpoint", write_checkpoint, s, NULL, &s->thread, &s->fault);
    else if (status >= 0)
        write_checkpoint(s);
    if (status < 0)
        find_cause(s);
}

static void free_saving(struct sheaf__ckpt_saving *s)
{
    if (s->holds)
        s->objects.group->cls->drop(s->objects.group, &s->cut);
    sheaf__strings_clear(&s->parts);
    sheaf__ckpt_plan_free(&s->plan);
    sheaf__sidecar_free(&s->sidecar);
    sheaf__objects_free(&s->objects);
    sheaf__free(s->temporary);
    sheaf__free(s->path);
    sheaf__free(s);
}

sheaf_status sheaf__ckpt_save_begin(const struct sheaf__ckpt_save *save,
                                    struct sheaf__ckpt_saving **saving, sheaf_error *err)
{
    SHEAF__TRACE("checkpoint.save");
    SHEAF__TRY(sheaf__ckpt_check_options(save->options, err));
    struct sheaf__ckpt_saving *s = sheaf__calloc(1, sizeof(*s));
    if (!s)
        return no_memory(err);
    s->job = *save;
    s->options = save->options ? *save->options : (sheaf_checkpoint_options){0};
    s->job.options = &s->options;
    s->path = sheaf__strdup(save->path);
    sheaf_status status =
        s->path ? sheaf__objects_walk(&s->objects, save->root, "", err) : no_memory(err);
    if (status < 0) {
        free_saving(s);
        return status;
    }
    const struct sheaf__save_group *g = s->objects.group;
    if (g && g->cls->finish)
        status = sheaf__objects_join(&s->objects, &s->fault);
    if (save->writes && status >= 0 && save->begun)
        save->begun(save->user, s->path);
    if (save->writes && status >= 0)
        save_all(s);
    *saving = s;
    return SHEAF_OK;
}

static void end_writing(struct sheaf__ckpt_saving *s)
{
    sheaf__thread_join(s->thread, SHEAF__NO_DEADLINE, NULL);
    if (s->fault.status < 0 && s->job.writes && s->job.given_up)
        s->job.given_up(s->job.user, s->path);
}

sheaf_status sheaf__ckpt_save_end(struct sheaf__ckpt_saving *s, bool *skipped, sheaf_error *err)
{
    struct sheaf__save_group *g = s->objects.group;
    const bool keeps_step = g && g->cls->finish;
    end_writing(s);
    *skipped = !s->job.writes && !keeps_step;
    sheaf_status status = s->fault.status < 0 ? sheaf__error_copy(err, &s->fault) : SHEAF_OK;
    if (keeps_step)
        status = g->cls->finish(g, status, err);
    free_saving(s);
    return status;
}

void sheaf__ckpt_save_drop(struct sheaf__ckpt_saving *s)
{
    if (!s)
        return;
    end_writing(s);
    if (s->fault.status < 0)
        sheaf__log(SHEAF_LOG_WARN, "checkpoint '%s' was not saved: %s", s->path, s->fault.message);
    free_saving(s);
}

sheaf_status sheaf__ckpt_save(const struct sheaf__ckpt_save *save, bool *skipped, sheaf_error *err)
{
    struct sheaf__ckpt_saving *saving = NULL;
    *skipped = false;
    SHEAF__TRY(sheaf__ckpt_save_begin(save, &saving, err));
    return sheaf__ckpt_save_end(saving, skipped, err);
}
