/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "data/iterator.h"
#include "data/rewrite.h"
#include "tensor/frame.h"

#include <stdio.h>

/* What the stages of an iterator did, as text. */

/* A queue that may hold more has no limit to speak of. */
#define NO_LIMIT (UINT64_C(1) << 40)

static double seconds(int64_t ns)
{
    return (double)ns / (double)SHEAF__S;
}

static void add_queue(const struct sheaf__note *note, uint64_t capacity, struct sheaf__str *text)
{
    const uint64_t looks = atomic_load(&note->looks);
    char queue[48];
    if (looks == 0 || capacity == 0) {
        sheaf__str_printf(text, "  %15s", "-");
        return;
    }
    const double mean = (double)atomic_load(&note->fill) / (double)looks;
    if (capacity < NO_LIMIT)
        snprintf(queue, sizeof(queue), "%.1f/%llu", mean, (unsigned long long)capacity);
    else
        snprintf(queue, sizeof(queue), "%.1f/all", mean);
    sheaf__str_printf(text, "  %15s", queue);
}

static void add_note(struct sheaf__note *note, unsigned depth, struct sheaf__str *text)
{
    sheaf__mutex_lock(&note->lock);
    const uint64_t threads = note->threads, capacity = note->capacity;
    sheaf__mutex_unlock(&note->lock);
    sheaf__str_printf(text, "%8.3f", seconds(atomic_load(&note->work_ns)));
    if (threads > 0)
        sheaf__str_printf(text, "  %8.3f  %7llu", seconds(atomic_load(&note->wait_ns)),
                          (unsigned long long)threads);
    else
        sheaf__str_printf(text, "  %8s  %7s", "-", "-");
    add_queue(note, capacity, text);
    sheaf__str_printf(text, "  %10llu  %13llu  ", (unsigned long long)atomic_load(&note->elements),
                      (unsigned long long)atomic_load(&note->bytes));
    for (unsigned i = 0; i < depth; i++)
        sheaf__str_add(text, "  ");
    sheaf__str_printf(text, "%s\n", note->line);
}

/* Source first; what is beside the first input, and what a function made, stands deeper. */
static void add_notes(struct sheaf__note *note, unsigned depth, struct sheaf__str *text)
{
    for (struct sheaf__note *n = note->below; n; n = n->beside)
        add_notes(n, depth + (n->input > 0), text);
    add_note(note, depth, text);
}

void sheaf__profile_print(struct sheaf__profile *p, struct sheaf__str *text)
{
    sheaf__mutex_lock(&p->lock);
    sheaf__str_printf(text, "%llu element%s in %.3f s, of which the program waited %.3f s\n",
                      (unsigned long long)p->elements, p->elements == 1 ? "" : "s",
                      seconds(p->end - p->begin), seconds(p->asking_ns));
    sheaf__str_printf(text, "%8s  %8s  %7s  %15s  %10s  %13s  stage\n", "work s", "wait s",
                      "threads", "queue", "elements", "bytes");
    add_notes(p->root, 0, text);
    sheaf__mutex_unlock(&p->lock);
}

const char *sheaf_iterator_explain(sheaf_iterator *it)
{
    struct sheaf__str text = {0};
    if (!it || !it->root)
        return "";
    if (it->flow.profile) {
        sheaf__profile_print(it->flow.profile, &text);
    } else {
        char *stages = sheaf__dataset_explain(it->runs);
        sheaf__str_add(&text, stages ? stages : "");
        sheaf__free(stages);
    }
    return sheaf__frame_str(&text);
}
