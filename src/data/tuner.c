/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tuner.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"

#include <math.h>

/* Pieces of work that are measured before the number of threads changes. */
#define PIECES 16
/* Where nobody knows how much memory there is. */
#define SOME_BYTES (UINT64_C(1) << 30)
/* So little of a thread is none: times are uneven, and sums of fractions are rounded. */
#define LITTLE 0.01

/* What the program says, or the user, or a quarter of the memory: training has other uses for it. */
static uint64_t bytes_of(const sheaf_dataset_options *options)
{
    if (options->memory_bytes > 0)
        return options->memory_bytes;
    const int64_t configured = sheaf__config_int(SHEAF__CONFIG_INPUT_BYTES);
    if (configured > 0)
        return (uint64_t)configured;
    const uint64_t total = sheaf__memory_total();
    return total > 0 ? total / 4 : SOME_BYTES;
}

sheaf_status sheaf__tuner_check(int parallel, sheaf_error *err)
{
    if (parallel >= SHEAF_AUTOTUNE && parallel <= SHEAF_MOST_PARALLEL)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "parallel is %d, expected 0 to %d, or SHEAF_AUTOTUNE", parallel,
                        SHEAF_MOST_PARALLEL);
}

void sheaf__tuner_start(struct sheaf__tuner *tuner, const sheaf_dataset_options *options,
                        const struct sheaf__file_maps *maps)
{
    *tuner = (struct sheaf__tuner){
        .cores = sheaf__config_threads(), .bytes = bytes_of(options), .maps = maps};
    sheaf__list_init(&tuner->crews);
}

uint64_t sheaf__tuner_share(const struct sheaf__tuner *tuner)
{
    const int ahead = atomic_load_explicit(&tuner->ahead, memory_order_relaxed);
    const uint64_t kept = sheaf__file_maps_bytes(tuner->maps);
    const uint64_t left = kept < tuner->bytes ? tuner->bytes - kept : 0;
    return left / (uint64_t)(ahead > 0 ? ahead : 1);
}

size_t sheaf__piece_rows(size_t rows, size_t most, int64_t goal, int64_t row_ns)
{
    const int64_t fit = goal / (row_ns + 1);
    const size_t next = 2 * rows < most ? 2 * rows : most;
    return fit < 1 ? 1 : (size_t)fit < next ? (size_t)fit : next;
}

/* ---- threads ---- */

/* Divides the cores; under the tuner's lock. Who is busy for a part of the time has a whole thread
 * for it, which takes no core while it waits. */
static void divide(struct sheaf__tuner *tuner)
{
    double sum = 0;
    struct sheaf__list_node *node = sheaf__list_first(&tuner->crews);
    for (; node; node = sheaf__list_next(&tuner->crews, node))
        sum += SHEAF__CONTAINER(node, struct sheaf__crew_size, node)->need;
    for (node = sheaf__list_first(&tuner->crews); node;
         node = sheaf__list_next(&tuner->crews, node)) {
        struct sheaf__crew_size *size = SHEAF__CONTAINER(node, struct sheaf__crew_size, node);
        const double part = sum <= tuner->cores ? size->need : size->need * tuner->cores / sum;
        const int threads = (int)ceil(part - LITTLE);
        atomic_store_explicit(&size->now, threads > 1 ? threads : 1, memory_order_relaxed);
    }
}

void sheaf__crew_size_start(struct sheaf__crew_size *size, struct sheaf__tuner *tuner, int most)
{
    *size = (struct sheaf__crew_size){
        .tuner = tuner, .most = most, .need = most, .now = most, .idle = most};
    if (!tuner)
        return;
    sheaf__mutex_lock(&tuner->lock);
    sheaf__list_append(&tuner->crews, &size->node);
    divide(tuner);
    sheaf__mutex_unlock(&tuner->lock);
}

void sheaf__crew_size_stop(struct sheaf__crew_size *size)
{
    struct sheaf__tuner *tuner = size->tuner;
    if (!tuner)
        return;
    sheaf__mutex_lock(&tuner->lock);
    sheaf__list_remove(&size->node);
    divide(tuner);
    sheaf__mutex_unlock(&tuner->lock);
    size->tuner = NULL;
}

bool sheaf__crew_size_idle(struct sheaf__crew_size *size, int number)
{
    if (number < sheaf__crew_size_now(size))
        return false;
    if (number < size->idle)
        size->idle = number;
    return true;
}

/* Other stages change the number at any time, so it is no use to compare it with the last one seen. */
bool sheaf__crew_size_hires(struct sheaf__crew_size *size)
{
    if (size->idle >= sheaf__crew_size_now(size))
        return false;
    size->idle = size->most;
    return true;
}

void sheaf__crew_size_made(struct sheaf__crew_size *size, uint64_t elements, int64_t feed_ns,
                           int64_t call_ns)
{
    size->made += elements;
    size->feed_ns += feed_ns;
    size->call_ns += call_ns;
}

/* Calls at once that keep up, all the time: less than one is a thread that mostly waits. */
static double enough(const struct sheaf__crew_size *size)
{
    const double call = (double)size->call_ns / (double)size->made;
    const double feed = (double)size->feed_ns / (double)size->made;
    const double outside = (double)size->outside_ns / (double)size->taken;
    const double slower = feed > outside ? feed : outside, need = 1.25 * call;
    return need >= slower * size->most ? size->most : need / slower;
}

static void tune(struct sheaf__crew_size *size)
{
    struct sheaf__tuner *tuner = size->tuner;
    const double need = enough(size);
    size->pieces = 0;
    size->made = size->taken = 0;
    size->call_ns = size->feed_ns = size->outside_ns = 0;
    sheaf__mutex_lock(&tuner->lock);
    size->need = need;
    divide(tuner);
    sheaf__mutex_unlock(&tuner->lock);
}

void sheaf__crew_size_arrive(struct sheaf__crew_size *size)
{
    if (!size->tuner)
        return;
    if (size->left > 0)
        size->outside_ns += sheaf__clock_now() - size->left;
    if (size->pieces >= PIECES && size->made > 0 && size->taken > 0)
        tune(size);
}

void sheaf__crew_size_leave(struct sheaf__crew_size *size, uint64_t elements)
{
    if (!size->tuner)
        return;
    size->pieces++;
    size->taken += elements;
    size->left = sheaf__clock_now();
}
