/* SPDX-License-Identifier: Apache-2.0 */

/* Which logical devices a strategy's replicas run on. */

#include "base/error.h"
#include "base/mem.h"
#include "distribute/strategy.h"
#include "tensor/device.h"

char *sheaf__strategy_device_name(const char *job, int index, const char *type, int number)
{
    return sheaf__printf("/job:%s/replica:0/task:%d/device:%s:%d", job, index, type, number);
}

/* The devices replicas run on when the program names none: every simulated accelerator if there are
 * any, else every CPU (R4.50); or the first of them alone. */
static int default_devices(bool all, int *numbers)
{
    int count = 0, accelerators = 0;
    for (int i = 0; sheaf__device_at(i); i++)
        accelerators += sheaf__device_at(i)->info.type[0] != 'C';
    for (int i = 0; sheaf__device_at(i) && (all || count == 0); i++)
        if (accelerators == 0 || sheaf__device_at(i)->info.type[0] != 'C')
            numbers[count++] = i;
    return count;
}

static sheaf_status named_devices(const char *const *names, int *numbers, int *count,
                                  sheaf_error *err)
{
    *count = 0;
    for (int i = 0; names[i]; i++) {
        struct sheaf__device *device = sheaf__device_find(names[i], err);
        if (!device)
            return SHEAF_ERR_NOT_FOUND;
        for (int k = 0; k < *count; k++)
            if (numbers[k] == device->number)
                return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                    "device %s is named twice, expected each once", names[i]);
        numbers[(*count)++] = device->number;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__strategy_place(sheaf_strategy *s, const char *const *names, bool all,
                                   const char *job, int index, sheaf_error *err)
{
    if (sheaf_devices_count() < 1)
        return sheaf__no_memory(err, "the logical devices");
    size_t most = (size_t)sheaf_devices_count();
    for (size_t i = 0; names && names[i]; i++)
        most = most > i + 1 ? most : i + 1;
    s->device_index = sheaf__calloc(most, sizeof(*s->device_index));
    if (!s->device_index)
        return sheaf__no_memory(err, "a strategy");
    if (names && names[0])
        SHEAF__TRY(named_devices(names, s->device_index, &s->local, err));
    else
        s->local = default_devices(all, s->device_index);
    s->devices = sheaf__calloc((size_t)s->local, sizeof(*s->devices));
    if (!s->devices)
        return sheaf__no_memory(err, "a strategy");
    for (int i = 0; i < s->local; i++) {
        const struct sheaf__device *d = sheaf__device_at(s->device_index[i]);
        s->devices[i] = sheaf__strategy_device_name(job, index, d->info.type, d->info.index);
        if (!s->devices[i])
            return sheaf__no_memory(err, "a strategy");
    }
    s->total = s->local;
    if (s->local > SHEAF__MOST_REPLICAS)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%d local replicas, expected at most %d", s->local,
                            SHEAF__MOST_REPLICAS);
    return SHEAF_OK;
}
