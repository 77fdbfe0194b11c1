/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/checkpoint.h"

#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/directory.h"
#include "format/bundle.h"
#include "tensor/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNTER "save_counter"

/* Groups. */

static bool group_child(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child)
{
    const struct sheaf__ckpt_group *g = t->object;
    if (i >= g->count)
        return false;
    *name = g->edges[i]->name;
    *child = g->edges[i]->child;
    return true;
}

static const struct sheaf__trackable_class group_class = {.child = group_child};

static void clear_group(struct sheaf__ckpt_group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        struct sheaf__ckpt_edge *edge = g->edges[i];
        if (edge->group)
            clear_group(edge->group);
        sheaf__free(edge->group);
        sheaf__free(edge->name);
        sheaf__free(edge);
    }
    sheaf__free(g->edges);
    sheaf__strmap_clear(&g->by_name, NULL);
}

static struct sheaf__ckpt_edge *find_edge(const struct sheaf__ckpt_group *g, const char *name,
                                          size_t size)
{
    return sheaf__strmap_get_bytes(&g->by_name, name, size);
}

/* Where an edge comes in: those of the root are sorted, as keywords are; others come at the end. */
static size_t place_of(const struct sheaf__ckpt_group *g, const char *name, bool sorted)
{
    size_t low = sorted ? 0 : g->count, high = g->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(g->edges[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: no memory. */
static struct sheaf__ckpt_edge *add_edge(struct sheaf__ckpt_group *g, const char *name, size_t size,
                                         bool sorted)
{
    struct sheaf__ckpt_edge *edge = sheaf__calloc(1, sizeof(*edge));
    char *copy = sheaf__strndup(name, size);
    if (!edge || !copy ||
        !sheaf__array_reserve(&g->edges, &g->capacity, g->count + 1, sizeof(*g->edges)) ||
        !sheaf__strmap_set_bytes(&g->by_name, name, size, edge, NULL)) {
        sheaf__free(edge);
        sheaf__free(copy);
        return NULL;
    }
    edge->name = copy;
    size_t at = place_of(g, copy, sorted);
    memmove(g->edges + at + 1, g->edges + at, (g->count - at) * sizeof(*g->edges));
    g->edges[at] = edge;
    g->count++;
    return edge;
}

/* The root: its edges, and the counter once there is one. */

static bool root_child(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child)
{
    sheaf_checkpoint *c = t->object;
    if (i == c->root.count && c->counter.made) {
        *name = COUNTER;
        *child = &c->counter.trackable;
        return true;
    }
    return group_child(&c->root.trackable, i, name, child);
}

static const struct sheaf__trackable_class root_class = {.child = root_child};

static bool counter_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    (void)t;
    *out = (struct sheaf__saveable){
        .attribute = "VARIABLE_VALUE", .full_name = COUNTER, .dtype = SHEAF_INT64};
    return i == 0;
}

static sheaf_tensor *counter_read(sheaf_trackable *t, size_t i)
{
    const struct sheaf__ckpt_counter *counter = t->object;
    (void)i;
    return sheaf_long(counter->value);
}

static sheaf_status counter_write(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                  sheaf_error *err)
{
    struct sheaf__ckpt_counter *counter = t->object;
    (void)i;
    (void)err;
    counter->value = sheaf_tensor_integer(value, 0);
    return SHEAF_OK;
}

static const struct sheaf__trackable_class counter_class = {
    .saveable = counter_saveable, .read = counter_read, .write = counter_write};

/* The object. */

sheaf_checkpoint *sheaf_checkpoint_new(void)
{
    sheaf_checkpoint *c = sheaf__calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->trackable = (sheaf_trackable){&root_class, c};
    c->root.trackable = (sheaf_trackable){&group_class, &c->root};
    c->counter.trackable = (sheaf_trackable){&counter_class, &c->counter};
    return c;
}

void sheaf_checkpoint_free(sheaf_checkpoint *c)
{
    if (!c)
        return;
    sheaf__ckpt_restored_free(c->restored);
    clear_group(&c->root);
    sheaf__strings_clear(&c->left_out);
    sheaf__free(c);
}

static void latch(sheaf_checkpoint *c, sheaf_status status, const char *name, const char *what)
{
    if (c->latched.status >= 0)
        sheaf__error(&c->latched, status, "checkpoint object '%s': %s", name ? name : "", what);
}

bool sheaf__checkpoint_step(const char **at, struct sheaf__str *step)
{
    const char *p = *at;
    sheaf__str_clear(step);
    for (; *p && *p != '/'; p++) {
        if (*p == '\\' && (p[1] == '/' || p[1] == '\\'))
            p++;
        sheaf__str_char(step, *p);
    }
    const bool more = *p == '/';
    *at = p + more;
    return more;
}

/* The group that the edge of this name leads to, made if it is not there. NULL: latched. */
static struct sheaf__ckpt_group *enter(sheaf_checkpoint *c, struct sheaf__ckpt_group *g,
                                       const struct sheaf__str *step, const char *name)
{
    struct sheaf__ckpt_edge *edge =
        step->size ? find_edge(g, sheaf__str_text(step), step->size) : NULL;
    if (!step->failed && (!step->size || (edge && !edge->group))) {
        latch(c, SHEAF_ERR_INVALID_ARGUMENT, name,
              step->size ? "a name before it is that of an object" : "a part of the name is empty");
        return NULL;
    }
    if (edge)
        return edge->group;
    struct sheaf__ckpt_group *made = step->failed ? NULL : sheaf__calloc(1, sizeof(*made));
    edge = made ? add_edge(g, sheaf__str_text(step), step->size, g == &c->root) : NULL;
    if (!edge) {
        sheaf__free(made);
        latch(c, SHEAF_ERR_RESOURCE_EXHAUSTED, name, "not enough memory");
        return NULL;
    }
    made->trackable = (sheaf_trackable){&group_class, made};
    edge->group = made;
    edge->child = &made->trackable;
    return made;
}

/* Why an object cannot have this name in its group; NULL: it can. */
static const char *misfit(const struct sheaf__ckpt_group *g, const struct sheaf__str *step,
                          bool root)
{
    const char *last = sheaf__str_text(step);
    if (!*last)
        return "a part of the name is empty";
    if (root && !strcmp(last, COUNTER))
        return "the name is that of the checkpoint's own counter of saves";
    return find_edge(g, last, step->size) ? "the name is taken" : NULL;
}

static void add_last(sheaf_checkpoint *c, struct sheaf__ckpt_group *g,
                     const struct sheaf__str *step, const char *name, sheaf_trackable *object)
{
    const char *last = sheaf__str_text(step);
    const bool root = g == &c->root;
    const char *wrong = step->failed ? NULL : misfit(g, step, root);
    if (wrong) {
        latch(c, SHEAF_ERR_INVALID_ARGUMENT, name, wrong);
        return;
    }
    const size_t at = place_of(g, last, root);
    struct sheaf__ckpt_edge *edge = step->failed ? NULL : add_edge(g, last, step->size, root);
    if (!edge) {
        latch(c, SHEAF_ERR_RESOURCE_EXHAUSTED, name, "not enough memory");
        return;
    }
    edge->child = object;
    sheaf__checkpoint_added(c, name, object, at);
}

void sheaf_checkpoint_add(sheaf_checkpoint *c, const char *name, sheaf_trackable *object)
{
    struct sheaf__str step = {0};
    const char *at = name;
    if (!c)
        return;
    if (!name || !*name || !object) {
        latch(c, SHEAF_ERR_INVALID_ARGUMENT, name, object ? "it has no name" : "there is none");
        return;
    }
    if (!sheaf__str_is_utf8(name, strlen(name))) { /* formats.md 3 */
        latch(c, SHEAF_ERR_INVALID_ARGUMENT, name,
              "its name is not UTF-8, without which TensorFlow opens no checkpoint");
        return;
    }
    struct sheaf__ckpt_group *g = &c->root;
    while (g && sheaf__checkpoint_step(&at, &step))
        g = enter(c, g, &step, name);
    if (g)
        add_last(c, g, &step, name, object);
    sheaf__str_free(&step);
}

/* Saving. */

static sheaf_status check_path(const char *path, sheaf_error *err)
{
    if (!path || !*path)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a checkpoint without a path");
    if (!strcmp(sheaf__path_name(path), "checkpoint"))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "save path '%s' conflicts with the path of the checkpoint state", path);
    return SHEAF_OK;
}

/* Raises the number of the next save above all that are there. */
static sheaf_status choose_number(const struct sheaf__ckpt_save *how, const char *prefix,
                                  int64_t *number, sheaf_error *err)
{
    struct sheaf__save_group *g = how->group;
    int64_t there = 0;
    sheaf_status status = SHEAF_OK;
    if (how->writes)
        status = sheaf__directory_highest(prefix, &there, err);
    if (status >= 0 && there == INT64_MAX)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "there is a checkpoint %s-%" PRId64 ", no number comes after it",
                              prefix, there);
    else if (status >= 0 && there >= *number)
        *number = there + 1;
    if (status >= 0 && how->writes && g && g->cls->turns)
        status = g->cls->turns->number(g, prefix, number, err);
    if (!g || !g->cls->agree)
        return status;
    /* The others wait for the number: they get the failure instead. */
    if (status < 0)
        return g->cls->finish ? g->cls->finish(g, status, err) : status;
    char text[24];
    const char *said = text;
    snprintf(text, sizeof(text), "%" PRId64, *number);
    SHEAF__TRY(g->cls->agree(g, &said, err));
    return said && sheaf__str_to_int(said, number)
               ? SHEAF_OK
               : sheaf__error(err, SHEAF_ERR_INTERNAL, "the number of a checkpoint is '%.20s'",
                              said ? said : "");
}

static sheaf_status check_save(const sheaf_checkpoint *c, sheaf_error *err)
{
    SHEAF__TRY(sheaf__checkpoint_check(c, err));
    return sheaf__ckpt_restored_check(c->restored, err);
}

sheaf_status sheaf__checkpoint_begin_next(sheaf_checkpoint *c, const struct sheaf__ckpt_save *how,
                                          const char *prefix, struct sheaf__next_save *next,
                                          sheaf_error *err)
{
    SHEAF__TRY(check_save(c, err));
    if (!prefix || !*prefix)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a checkpoint without a path");
    int64_t number = c->counter.value + 1;
    if (how->keeps)
        SHEAF__TRY(choose_number(how, prefix, &number, err));
    *next = (struct sheaf__next_save){.path = sheaf__printf("%s-%" PRId64, prefix, number),
                                      .before = c->counter};
    if (!next->path)
        return sheaf__no_memory(err, "saving a checkpoint");
    c->counter.value = number;
    c->counter.made = true;
    struct sheaf__ckpt_save save = *how;
    save.root = &c->trackable;
    save.path = next->path;
    sheaf_status status = sheaf__ckpt_save_begin(&save, &next->saving, err);
    if (status >= 0)
        return SHEAF_OK;
    c->counter = next->before;
    sheaf__free(next->path);
    *next = (struct sheaf__next_save){0};
    return status;
}

sheaf_status sheaf__checkpoint_end_next(sheaf_checkpoint *c, struct sheaf__next_save *next,
                                        const char **path, sheaf_error *err)
{
    bool skipped = false;
    sheaf_status status = sheaf__ckpt_save_end(next->saving, &skipped, err);
    if (status < 0 || skipped)
        c->counter = next->before;
    if (status >= 0)
        *path = skipped ? NULL : sheaf__frame_text(next->path, strlen(next->path));
    sheaf__free(next->path);
    *next = (struct sheaf__next_save){0};
    return status;
}

static sheaf_status note_latest(void *user, const char *path, sheaf_error *err)
{
    return sheaf__directory_note(path, sheaf__ckpt_leave, user, err);
}

sheaf_status sheaf_checkpoint_save(sheaf_checkpoint *c, const char *prefix,
                                   const sheaf_checkpoint_options *options, const char **path,
                                   sheaf_error *err)
{
    struct sheaf__ckpt_save how = {.options = options, .committed = note_latest};
    SHEAF__TRY(sheaf__checkpoint_writes(c, &how, err));
    how.user = how.group;
    struct sheaf__next_save next;
    const char *saved = NULL;
    SHEAF__TRY(sheaf__checkpoint_begin_next(c, &how, prefix, &next, err));
    SHEAF__TRY(sheaf__checkpoint_end_next(c, &next, &saved, err));
    if (path)
        *path = saved;
    return SHEAF_OK;
}

sheaf_status sheaf_checkpoint_write(sheaf_checkpoint *c, const char *path,
                                    const sheaf_checkpoint_options *options, sheaf_error *err)
{
    struct sheaf__ckpt_save how = {.options = options};
    bool skipped;
    SHEAF__TRY(check_save(c, err));
    SHEAF__TRY(check_path(path, err));
    SHEAF__TRY(sheaf__checkpoint_writes(c, &how, err));
    how.root = &c->trackable;
    how.path = path;
    return sheaf__ckpt_save(&how, &skipped, err);
}

sheaf_status sheaf__checkpoint_verify(const char *path, sheaf_error *err)
{
    sheaf_bundle *b = NULL;
    SHEAF__TRY(sheaf_bundle_open(path, &b, err));
    sheaf_status status = sheaf_bundle_verify(b, err);
    sheaf_bundle_free(b);
    return status;
}

/* A restore changes nothing unless it can read everything, so it is the test. */
sheaf_status sheaf__checkpoint_try(sheaf_checkpoint *c, const char *path, bool *damaged,
                                   sheaf_error *err)
{
    sheaf_error fault = {0}, damage = {0};
    *damaged = false;
    if (sheaf_checkpoint_restore(c, path, &fault) >= 0)
        return SHEAF_OK;
    /* If it is whole, it is of another program. */
    *damaged = sheaf__checkpoint_verify(path, &damage) < 0;
    return sheaf__error_copy(err, *damaged ? &damage : &fault);
}

void sheaf__checkpoint_leave_out(const char *path, const sheaf_error *damage)
{
    char text[512];
    sheaf_error_format(damage, text, sizeof(text));
    sheaf__log(SHEAF_LOG_WARN, "checkpoint '%s' cannot be read and is left out: %s", path, text);
}

sheaf_status sheaf__checkpoint_group(sheaf_checkpoint *c, struct sheaf__save_group **group,
                                     sheaf_error *err)
{
    struct sheaf__ckpt_objects objects;
    SHEAF__TRY(sheaf__checkpoint_check_objects(c, err));
    SHEAF__TRY(sheaf__objects_walk(&objects, &c->trackable, "", err));
    *group = objects.group;
    sheaf__objects_free(&objects);
    return SHEAF_OK;
}

sheaf_status sheaf__checkpoint_writes(sheaf_checkpoint *c, struct sheaf__ckpt_save *how,
                                      sheaf_error *err)
{
    SHEAF__TRY(sheaf__checkpoint_group(c, &how->group, err));
    how->writes = true;
    return how->group ? how->group->cls->writes(how->group, &how->writes, err) : SHEAF_OK;
}
