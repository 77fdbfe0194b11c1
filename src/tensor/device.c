/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/device_table.h"

#include <stdio.h>
#include <string.h>

/* ---- devices that compute in host memory ---- */

static sheaf_status copy_in_host(struct sheaf__device *to_device, void *to,
                                 struct sheaf__device *from_device, const void *from, size_t size,
                                 sheaf_error *err)
{
    (void)to_device, (void)from_device, (void)err;
    if (size)
        memcpy(to, from, size);
    return SHEAF_OK;
}

static void run_on_pool(struct sheaf__device *device, size_t n, void (*fn)(size_t i, void *user),
                        void *user)
{
    sheaf__pool_run(n > 1 ? sheaf__device_pool(device) : NULL, n, fn, user);
}

static sheaf_status nothing_outstanding(struct sheaf__device *device, sheaf_error *err)
{
    (void)device, (void)err;
    return SHEAF_OK;
}

/* Simulated devices of other types differ from the CPU by their name only. */
static const struct sheaf__device_class host_class = {
    .type = "CPU",
    .host_memory = true,
    .allocate = sheaf__buffer_host,
    .copy = copy_in_host,
    .run = run_on_pool,
    .synchronise = nothing_outstanding,
};

/* ---- the table ---- */

struct sheaf__devices *sheaf__devices_new(struct sheaf__world *world, sheaf_error *err)
{
    struct sheaf__devices *devices = sheaf__calloc(1, sizeof(*devices));
    if (!devices) {
        sheaf__no_memory(err, "logical devices");
        return NULL;
    }
    devices->world = world;
    devices->plan[0] = (struct sheaf__device_plan){"CPU", 1};
    devices->plans = 1;
    return devices;
}

void sheaf__devices_delete(struct sheaf__devices *devices)
{
    if (!devices)
        return;
    for (int i = 0; i < devices->count; i++)
        sheaf__pool_free(atomic_load(&devices->items[i].pool));
    sheaf__device_names_free(devices);
    sheaf__free(devices->items);
    sheaf__free(devices->cpus);
    sheaf__free(devices);
}

/* Deals `total` into `count` even shares; where there is less than one each, shares are single and
 * go round. */
static void deal(int total, int count, int i, int *first, int *share)
{
    if (total < count) {
        *first = i % total;
        *share = 1;
        return;
    }
    *first = (int)((int64_t)total * i / count);
    *share = (int)((int64_t)total * (i + 1) / count) - *first;
}

static void fill_device(struct sheaf__devices *devices, int number,
                        const struct sheaf__device_plan *plan, int index, int cores)
{
    struct sheaf__device *d = &devices->items[number];
    int first, threads;
    deal(sheaf__config_threads(), plan->count, index, &first, &threads);
    d->cls = &host_class;
    d->info.index = index;
    d->info.threads = threads;
    snprintf(d->info.type, sizeof(d->info.type), "%s", plan->type);
    snprintf(d->info.name, sizeof(d->info.name), "/device:%s:%d", plan->type, index);
    d->number = number;
    d->heap = devices->world->heap;
    d->table = devices;
    /* A device alone of its type has the whole machine: nothing to keep its threads away from. */
    if (plan->count > 1 && cores > 0) {
        int share;
        deal(cores, plan->count, index, &first, &share);
        d->cpus = devices->cpus + first;
        d->cpu_count = (size_t)share;
    }
}

static sheaf_status make_table(struct sheaf__devices *devices, sheaf_error *err)
{
    int count = 0;
    for (int i = 0; i < devices->plans; i++)
        count += devices->plan[i].count;
    size_t cores = sheaf__cpu_list(NULL, 0);
    struct sheaf__device *items = sheaf__calloc((size_t)count, sizeof(*items));
    int *cpus = sheaf__calloc(cores + 1, sizeof(*cpus));
    if (!items || !cpus) {
        sheaf__free(items);
        sheaf__free(cpus);
        return sheaf__no_memory(err, "logical devices");
    }
    size_t found = sheaf__cpu_list(cpus, cores);
    devices->items = items;
    devices->cpus = cpus;
    for (int i = 0; i < devices->plans; i++)
        for (int k = 0; k < devices->plan[i].count; k++)
            fill_device(devices, devices->count++, &devices->plan[i], k,
                        (int)(found < cores ? found : cores));
    atomic_store_explicit(&devices->made, true, memory_order_release);
    return SHEAF_OK;
}

struct sheaf__devices *sheaf__devices_made(sheaf_error *err)
{
    struct sheaf__world *world = sheaf__world(err);
    if (!world)
        return NULL;
    struct sheaf__devices *devices = world->devices;
    if (atomic_load_explicit(&devices->made, memory_order_acquire))
        return devices;
    sheaf__mutex_lock(&devices->lock);
    sheaf_status status = atomic_load(&devices->made) ? SHEAF_OK : make_table(devices, err);
    sheaf__mutex_unlock(&devices->lock);
    return status < 0 ? NULL : devices;
}

/* ---- asking for devices ---- */

static sheaf_status put_plan(struct sheaf__devices *devices, const char *type, int count,
                             sheaf_error *err)
{
    int i = 0;
    while (i < devices->plans && strcmp(devices->plan[i].type, type))
        i++;
    if (i == (int)(sizeof(devices->plan) / sizeof(devices->plan[0])))
        return sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED,
                            "device type '%s' is one too many, at most %d can be simulated", type,
                            i - 1);
    snprintf(devices->plan[i].type, sizeof(devices->plan[i].type), "%s", type);
    devices->plan[i].count = count;
    if (i == devices->plans)
        devices->plans++;
    return SHEAF_OK;
}

#define MOST_DEVICES 1024

static sheaf_status plan_devices(const char *type, int count, sheaf_error *err)
{
    if (count < 1 || count > MOST_DEVICES)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%d logical devices of type %s asked for, expected 1 to %d", count,
                            type, MOST_DEVICES);
    struct sheaf__world *world = sheaf__world(err);
    if (!world)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    struct sheaf__devices *devices = world->devices;
    sheaf__mutex_lock(&devices->lock);
    sheaf_status status;
    if (atomic_load(&devices->made))
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "logical devices cannot be changed any more: the context uses its %d "
                              "already; configure them first",
                              devices->count);
    else
        status = put_plan(devices, type, count, err);
    sheaf__mutex_unlock(&devices->lock);
    return status;
}

sheaf_status sheaf_devices_configure(int count, sheaf_error *err)
{
    return plan_devices("CPU", count, err);
}

sheaf_status sheaf_devices_simulate(const char *type, int count, sheaf_error *err)
{
    size_t length = type ? strlen(type) : 0;
    bool letters = length > 0 && length < sizeof(((struct sheaf_device *)0)->type);
    for (size_t i = 0; letters && i < length; i++)
        letters = type[i] >= 'A' && type[i] <= 'Z';
    if (!letters || !strcmp(type, "CPU"))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "device type '%s', expected 1 to 7 capital letters other than CPU",
                            type ? type : "");
    return plan_devices(type, count, err);
}

int sheaf_devices_count(void)
{
    struct sheaf__devices *devices = sheaf__devices_made(NULL);
    return devices ? devices->count : 0;
}

sheaf_status sheaf_devices_get(int i, struct sheaf_device *device)
{
    struct sheaf__device *d = sheaf__device_at(i);
    if (!d)
        return SHEAF_ERR_OUT_OF_RANGE;
    if (!device)
        return SHEAF_ERR_INVALID_ARGUMENT;
    *device = d->info;
    return SHEAF_OK;
}

struct sheaf__device *sheaf__device_at(int i)
{
    struct sheaf__devices *devices = sheaf__devices_made(NULL);
    return devices && i >= 0 && i < devices->count ? &devices->items[i] : NULL;
}

struct sheaf__device *sheaf__device_host(sheaf_error *err)
{
    struct sheaf__devices *devices = sheaf__devices_made(err);
    return devices ? &devices->items[0] : NULL;
}

/* ---- its threads ---- */

static struct sheaf__pool *start_pool(struct sheaf__device *device)
{
    struct sheaf__pool *pool = NULL;
    sheaf_error err;
    struct sheaf__pool_options options = {
        .threads = device->info.threads,
        .cpus = device->cpus,
        .cpu_count = device->cpu_count,
        .name = "sheaf-device",
    };
    /* Without threads the work is done all the same, on the caller alone. */
    if (sheaf__pool_new(&options, &pool, &err) < 0)
        sheaf__log(SHEAF_LOG_WARN, "device %s computes on one thread: %s", device->info.name,
                   err.message);
    return pool;
}

struct sheaf__pool *sheaf__device_pool(struct sheaf__device *device)
{
    if (device->info.threads < 2)
        return NULL;
    if (!atomic_load_explicit(&device->pool_ready, memory_order_acquire)) {
        struct sheaf__devices *devices = device->table;
        sheaf__mutex_lock(&devices->lock);
        if (!atomic_load(&device->pool_ready)) {
            sheaf_context *before = sheaf_context_enter(devices->world->context);
            atomic_store(&device->pool, start_pool(device));
            sheaf_context_enter(before);
            atomic_store_explicit(&device->pool_ready, true, memory_order_release);
        }
        sheaf__mutex_unlock(&devices->lock);
    }
    return atomic_load_explicit(&device->pool, memory_order_relaxed);
}
