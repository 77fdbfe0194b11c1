/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/device_table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Full names, made for the task the context is. Should it become another, names handed out before
 * stay valid. */
struct sheaf__device_names {
    struct sheaf__device_names *older;
    sheaf_task task;
    char text[][80];
};

void sheaf__device_names_free(struct sheaf__devices *devices)
{
    struct sheaf__device_names *names = atomic_load(&devices->names);
    while (names) {
        struct sheaf__device_names *older = names->older;
        sheaf__free(names);
        names = older;
    }
}

/* TensorFlow calls the task of a program without cluster localhost. */
static sheaf_task task_of(const struct sheaf__devices *devices)
{
    sheaf_task task = sheaf__context_task(devices->world->context);
    if (!task.job[0] || task.index < 0) {
        memset(&task, 0, sizeof(task));
        snprintf(task.job, sizeof(task.job), "localhost");
    }
    return task;
}

static bool is_same_task(const sheaf_task *a, const sheaf_task *b)
{
    return a->index == b->index && !strcmp(a->job, b->job);
}

static struct sheaf__device_names *make_names(struct sheaf__devices *devices,
                                              const sheaf_task *task)
{
    struct sheaf__device_names *names = NULL;
    size_t count = (size_t)devices->count;
    names = sheaf__calloc(1, sizeof(*names) + count * sizeof(names->text[0]));
    if (!names)
        return NULL;
    names->task = *task;
    for (size_t i = 0; i < count; i++)
        snprintf(names->text[i], sizeof(names->text[i]), "/job:%s/replica:0/task:%d%s", task->job,
                 (int)task->index, devices->items[i].info.name);
    names->older = atomic_load(&devices->names);
    atomic_store_explicit(&devices->names, names, memory_order_release);
    return names;
}

static struct sheaf__device_names *find_names(struct sheaf__devices *devices,
                                              const sheaf_task *task)
{
    struct sheaf__device_names *names = atomic_load_explicit(&devices->names, memory_order_acquire);
    while (names && !is_same_task(&names->task, task))
        names = names->older;
    return names;
}

const char *sheaf__device_full_name(struct sheaf__device *device)
{
    struct sheaf__devices *devices = device->table;
    sheaf_task task = task_of(devices);
    struct sheaf__device_names *names = find_names(devices, &task);
    if (!names) {
        sheaf__mutex_lock(&devices->lock);
        names = find_names(devices, &task);
        if (!names)
            names = make_names(devices, &task);
        sheaf__mutex_unlock(&devices->lock);
    }
    return names ? names->text[device->number] : device->info.name;
}

/* ---- reading names ---- */

struct parsed {
    char type[8];
    int64_t index;
    bool has_type;
    const char *job; /* NULL: not named */
    int64_t task;    /* negative: not named */
};

/* "CPU:1", "cpu" or "CPU" into type and index. */
static bool parse_kind(const char *text, struct parsed *out)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (!length || length >= sizeof(out->type))
        return false;
    for (size_t i = 0; i < length; i++)
        out->type[i] = (char)(text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]);
    out->type[length] = '\0';
    out->has_type = true;
    return !colon || !strcmp(colon + 1, "*") ||
           (sheaf__str_to_int(colon + 1, &out->index) && out->index >= 0);
}

static bool parse_part(char *part, struct parsed *out)
{
    char *value = strchr(part, ':');
    int64_t number = 0;
    if (value && !strncasecmp(part, "job:", 4)) {
        out->job = value + 1;
        return true;
    }
    if (value && !strncasecmp(part, "replica:", 8))
        return sheaf__str_to_int(value + 1, &number) && number == 0;
    if (value && !strncasecmp(part, "task:", 5))
        return sheaf__str_to_int(value + 1, &out->task) && out->task >= 0;
    if (value && !strncasecmp(part, "device:", 7))
        return parse_kind(value + 1, out);
    return !out->has_type && parse_kind(part, out);
}

/* `copy` is the name's, and what is parsed points into it. */
static bool parse_name(char *copy, size_t size, const char *name, struct parsed *out)
{
    if (sheaf__str_copy(copy, size, name) >= size)
        return false;
    char *rest = copy;
    for (char *part; (part = strsep(&rest, "/"));)
        if (*part && !parse_part(part, out))
            return false;
    return true;
}

/* "localhost" is this process in every task, as strategies within a process call it. */
static bool is_elsewhere(const struct parsed *p, const sheaf_task *task)
{
    if (p->job && !strcmp(p->job, "localhost"))
        return p->task > 0;
    return (p->job && strcmp(p->job, task->job) != 0) || (p->task >= 0 && p->task != task->index);
}

static sheaf_status unknown(const struct sheaf__devices *devices, const char *name,
                            const char *problem, sheaf_error *err)
{
    char list[128] = "";
    size_t n = 0;
    for (int i = 0; i < devices->count && n < sizeof(list) - 32; i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
                              devices->items[i].info.name);
    return sheaf__error(err, SHEAF_ERR_NOT_FOUND, "%s '%s', there are %s%s", problem, name, list,
                        n >= sizeof(list) - 32 ? ", …" : "");
}

struct sheaf__device *sheaf__device_find(const char *name, sheaf_error *err)
{
    struct sheaf__devices *devices = sheaf__devices_made(err);
    if (!devices)
        return NULL;
    sheaf_task task = task_of(devices);
    struct parsed parsed = {.type = "CPU", .task = -1};
    char copy[96];
    if (!name || !*name || !parse_name(copy, sizeof(copy), name, &parsed)) {
        unknown(devices, name ? name : "", "malformed device name", err);
        return NULL;
    }
    if (is_elsewhere(&parsed, &task)) {
        unknown(devices, name, "a device of another task:", err);
        return NULL;
    }
    for (int i = 0; i < devices->count; i++) {
        struct sheaf__device *d = &devices->items[i];
        if (d->info.index == parsed.index && !strcmp(d->info.type, parsed.type))
            return d;
    }
    unknown(devices, name, "unknown device", err);
    return NULL;
}

/* ---- where the calling thread computes ---- */

/* sheaf_device_scope.device: a position in the table, or one of these. */
#define OUTER   (-1) /* as without any block */
#define UNKNOWN (-2)

static _Thread_local sheaf_device_scope *scope_of_thread;
static _Thread_local struct sheaf__device *own;

bool sheaf_device_scope_enter(sheaf_device_scope *scope, const char *name)
{
    if (scope->open) {
        sheaf_device_scope_leave(scope);
        return false;
    }
    struct sheaf__device *device = name ? sheaf__device_find(name, NULL) : NULL;
    scope->name = name;
    scope->device = !name ? OUTER : device ? device->number : UNKNOWN;
    scope->parent = scope_of_thread;
    scope->open = 1;
    scope_of_thread = scope;
    return true;
}

void sheaf_device_scope_leave(sheaf_device_scope *scope)
{
    if (scope->open != 1)
        return;
    scope->open = 2; /* left: a cleanup that follows is nothing */
    /* A block inside that a longjmp skipped goes, too. */
    for (sheaf_device_scope *s = scope_of_thread; s; s = s->parent)
        if (s == scope) {
            scope_of_thread = scope->parent;
            break;
        }
}

struct sheaf__device *sheaf__device_set_own(struct sheaf__device *device)
{
    struct sheaf__device *before = own;
    own = device;
    return before;
}

struct sheaf__device *sheaf__device_current(sheaf_error *err)
{
    struct sheaf__devices *devices = sheaf__devices_made(err);
    if (!devices)
        return NULL;
    const sheaf_device_scope *scope = scope_of_thread;
    if (scope && scope->device == UNKNOWN) {
        /* Says why; or it is a device of the context entered meanwhile. */
        return sheaf__device_find(scope->name, err);
    }
    if (scope && scope->device >= 0) {
        if (scope->device < devices->count)
            return &devices->items[scope->device];
        return sheaf__device_find(scope->name, err);
    }
    return own && own->table == devices ? own : &devices->items[0];
}
