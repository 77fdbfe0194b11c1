/* SPDX-License-Identifier: Apache-2.0 */
/* Recording. The memory of a tape comes from the context's heap, so that a repeated step takes
 * nothing from the system. */
#include "ops/tape_internal.h"

#include "base/thread.h"
#include "ops/mode.h"
#include "tensor/frame.h"

#include <string.h>

static _Thread_local struct sheaf_tape *tapes; /* the recording ones, newest first */

/* ---- arrays and the table ---- */

/* Gives the array's memory back, unless it is the tape's own. */
static void release(struct sheaf_tape *t, const struct sheaf__tape_array *a)
{
    if ((uintptr_t)a->data - (uintptr_t)t >= t->bytes)
        sheaf__heap_free(t->heap, a->data, a->capacity);
}

/* Moves the array to room for `bytes`; false latches the loss. */
static bool move(struct sheaf_tape *t, struct sheaf__tape_array *a, size_t size, size_t bytes)
{
    size_t capacity = sheaf__heap_room(bytes);
    void *data = capacity ? sheaf__heap_alloc(t->heap, capacity) : NULL;
    if (!data) {
        if (t->error.status >= 0)
            sheaf__no_memory(&t->error, "a gradient tape");
        return false;
    }
    if (a->count)
        memcpy(data, a->data, a->count * size);
    release(t, a);
    a->data = data;
    a->capacity = capacity;
    return true;
}

/* Room for more items of `size` bytes. */
static bool reserve(struct sheaf_tape *t, struct sheaf__tape_array *a, size_t size, size_t more)
{
    size_t wanted = (a->count + more) * size;
    return wanted <= a->capacity || move(t, a, size, wanted < 1024 ? 2048 : 2 * wanted);
}

static size_t hash(const void *key, size_t mask)
{
    uint64_t x = (uint64_t)(uintptr_t)key >> 4;
    return (size_t)((x * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
}

/* Entries the table has room for: a power of two. */
static size_t table_size(const struct sheaf_tape *t)
{
    size_t entries = t->map.capacity / sizeof(struct sheaf__tape_entry);
    return entries ? (size_t)1 << (63 - __builtin_clzll(entries)) : 0;
}

static struct sheaf__tape_entry *probe(const struct sheaf_tape *t, const void *key)
{
    struct sheaf__tape_entry *entries = t->map.data;
    size_t mask = table_size(t) - 1, i = hash(key, mask);
    while (entries[i].key && entries[i].key != key)
        i = (i + 1) & mask;
    return &entries[i];
}

int32_t sheaf__tape_find(const struct sheaf_tape *t, const void *key)
{
    if (t->map.count == 0)
        return -1;
    const struct sheaf__tape_entry *e = probe(t, key);
    return e->key ? e->slot : -1;
}

/* At most half full. */
static bool grow_table(struct sheaf_tape *t)
{
    size_t size = table_size(t);
    if (2 * (t->map.count + 1) <= size)
        return true;
    struct sheaf__tape_array old = t->map;
    t->map = (struct sheaf__tape_array){0};
    if (!reserve(t, &t->map, sizeof(struct sheaf__tape_entry), size ? size : 128)) {
        t->map = old;
        return false;
    }
    memset(t->map.data, 0, t->map.capacity);
    const struct sheaf__tape_entry *entries = old.data;
    for (size_t i = 0; i < size; i++)
        if (entries[i].key)
            *probe(t, entries[i].key) = entries[i];
    t->map.count = old.count;
    release(t, &old);
    return true;
}

/* Takes a count that the tape gives back at its end, so that a key is never another object's. */
static bool keep(struct sheaf_tape *t, void *object)
{
    if (!reserve(t, &t->kept, sizeof(void *), 1))
        return false;
    ((void **)t->kept.data)[t->kept.count++] = sheaf__ref(object);
    return true;
}

static void map_to(struct sheaf_tape *t, void *key, int32_t slot)
{
    if (!grow_table(t) || !keep(t, key))
        return;
    *probe(t, key) = (struct sheaf__tape_entry){key, slot};
    t->map.count++;
}

static int32_t add_slot(struct sheaf_tape *t, sheaf_tensor *tensor, sheaf_variable *variable)
{
    if (!reserve(t, &t->slots, sizeof(struct sheaf__tape_slot), 1))
        return -1;
    int32_t i = (int32_t)t->slots.count++;
    *sheaf__tape_slot(t, i) = (struct sheaf__tape_slot){
        .tensor = tensor, .variable = variable, .maker = -1, .first_user = -1, .next_final = -1};
    map_to(t, variable ? (void *)variable : (void *)tensor, i);
    return i;
}

/* ---- nodes ---- */

/* Room for all of a node is made first, so that it is recorded whole or not at all. */
static struct sheaf__tape_node *add_node(struct sheaf_tape *t, size_t inputs)
{
    if (!reserve(t, &t->nodes, sizeof(struct sheaf__tape_node), 1) ||
        !reserve(t, &t->inputs, sizeof(struct sheaf__tape_input), inputs))
        return NULL;
    struct sheaf__tape_node *n = sheaf__tape_node(t, (int32_t)t->nodes.count++);
    *n = (struct sheaf__tape_node){.first_input = (uint32_t)t->inputs.count,
                                   .inputs = (uint32_t)inputs,
                                   .out_slot = -1,
                                   .finals = -1};
    t->inputs.count += inputs;
    return n;
}

static void set_input(struct sheaf_tape *t, struct sheaf__tape_node *n, size_t i,
                      sheaf_tensor *tensor, int32_t slot)
{
    sheaf__tape_inputs(t, n)[i] = (struct sheaf__tape_input){tensor, slot};
    if (tensor)
        keep(t, tensor);
    if (slot < 0)
        return;
    struct sheaf__tape_slot *s = sheaf__tape_slot(t, slot);
    s->uses++;
    if (s->first_user >= 0)
        return;
    s->first_user = (int32_t)t->nodes.count - 1;
    s->next_final = n->finals;
    n->finals = slot;
}

static void record_on(struct sheaf_tape *t, const struct sheaf__op_call *call)
{
    struct sheaf__tape_node *n = add_node(t, call->count);
    if (!n)
        return;
    n->op = call->op;
    n->attrs = *call->attrs;
    n->out = call->out;
    n->aux = call->aux;
    if (call->aux)
        keep(t, call->aux);
    for (size_t i = 0; i < call->count; i++)
        set_input(t, n, i, call->in[i], sheaf__tape_find(t, call->in[i]));
    n->out_slot = add_slot(t, call->out, NULL);
    if (n->out_slot >= 0)
        sheaf__tape_slot(t, n->out_slot)->maker = (int32_t)t->nodes.count - 1;
}

static bool follows(const struct sheaf_tape *t, sheaf_tensor *const *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sheaf__tape_find(t, in[i]) >= 0)
            return true;
    return false;
}

bool sheaf__tape_follows(sheaf_tensor *const *in, size_t count)
{
    for (const struct sheaf_tape *t = tapes; t; t = t->parent)
        if (!t->paused && follows(t, in, count))
            return true;
    return false;
}

void sheaf__tape_record(const struct sheaf__op_call *call)
{
    for (struct sheaf_tape *t = tapes; t; t = t->parent)
        if (!t->paused && follows(t, call->in, call->count))
            record_on(t, call);
    sheaf__unref(call->aux);
}

bool sheaf__tape_any(void)
{
    for (const struct sheaf_tape *t = tapes; t; t = t->parent)
        if (!t->paused)
            return true;
    return false;
}

static int32_t variable_slot(struct sheaf_tape *t, sheaf_variable *v)
{
    int32_t slot = sheaf__tape_find(t, v);
    return slot >= 0 ? slot : add_slot(t, NULL, v);
}

void sheaf__tape_read(sheaf_variable *v, sheaf_tensor *value)
{
    if (!v->trainable || !sheaf__dtype_is_float(v->dtype))
        return;
    for (struct sheaf_tape *t = tapes; t; t = t->parent) {
        if (t->paused || sheaf__tape_find(t, value) >= 0)
            continue;
        int32_t slot = variable_slot(t, v);
        if (slot < 0)
            continue;
        sheaf__tape_slot(t, slot)->tensor = value;
        map_to(t, value, slot);
    }
}

void sheaf__tape_lookup(sheaf_variable *v, sheaf_tensor *ids, sheaf_tensor *rows)
{
    if (!v->trainable || !sheaf__dtype_is_float(v->dtype))
        return;
    for (struct sheaf_tape *t = tapes; t; t = t->parent) {
        if (t->paused)
            continue;
        int32_t slot = variable_slot(t, v);
        struct sheaf__tape_node *n = slot < 0 ? NULL : add_node(t, 2);
        if (!n)
            continue;
        set_input(t, n, 0, NULL, slot);
        set_input(t, n, 1, ids, -1);
        n->out = rows;
        n->out_slot = add_slot(t, rows, NULL);
    }
}

/* A view that tensor/ made: its rows are a slice, all of its elements a reshape to the same shape. */
static void follow_view(sheaf_tensor *from, sheaf_tensor *to, int64_t first)
{
    if (!sheaf__tape_follows(&from, 1) || to->layout != SHEAF__DENSE)
        return;
    const struct sheaf__attrs attrs = {.shape = to->shape, .begin = {first < 0 ? 0 : first}};
    sheaf__tape_record(&(struct sheaf__op_call){
        .op = sheaf__op(first < 0 ? SHEAF__OP_RESHAPE : SHEAF__OP_SLICE),
        .in = &from,
        .count = 1,
        .attrs = &attrs,
        .device = to->device,
        .dtype = to->dtype,
        .shape = to->shape,
        .out = to,
    });
}

static struct sheaf__once view_once = SHEAF__ONCE_INIT;

static void watch_views(void)
{
    sheaf__tensor_on_derived(follow_view);
}

/* ---- plans ---- */

/* In the order of a plan. */
#define ARRAYS(t)                                                     \
    {                                                                 \
        &(t)->kept, &(t)->slots, &(t)->inputs, &(t)->nodes, &(t)->map \
    }

/* The bytes that an array needs for what it has; a table is at most half full. */
static size_t bytes_for(const struct sheaf__tape_array *a, size_t size, bool table)
{
    const size_t count = table ? (size_t)1 << (64 - __builtin_clzll(2 * a->count + 1)) : a->count;
    return (count * size + 7) / 8 * 8;
}

/* Room for as much, the next time. */
static void learn(struct sheaf_tape *t)
{
    const size_t bytes[] = {bytes_for(&t->kept, sizeof(void *), false),
                            bytes_for(&t->slots, sizeof(struct sheaf__tape_slot), false),
                            bytes_for(&t->inputs, sizeof(struct sheaf__tape_input), false),
                            bytes_for(&t->nodes, sizeof(struct sheaf__tape_node), false),
                            bytes_for(&t->map, sizeof(struct sheaf__tape_entry), true)};
    for (size_t i = 0; i < SHEAF__TAPE_ARRAYS; i++) {
        _Atomic uint32_t *most = &t->plan->bytes[i];
        if (bytes[i] > atomic_load_explicit(most, memory_order_relaxed) && bytes[i] <= UINT32_MAX)
            atomic_store_explicit(most, (uint32_t)bytes[i], memory_order_relaxed);
    }
}

/* A tape with room behind it for what a plan says; NULL: nothing. */
static struct sheaf_tape *make(struct sheaf__heap *heap, struct sheaf__step_plan *plan)
{
    uint32_t parts[SHEAF__TAPE_ARRAYS] = {0};
    size_t bytes = sizeof(struct sheaf_tape);
    for (size_t i = 0; plan && i < SHEAF__TAPE_ARRAYS; i++) {
        parts[i] = atomic_load_explicit(&plan->bytes[i], memory_order_relaxed);
        bytes += parts[i];
    }
    struct sheaf_tape *t = heap ? sheaf__heap_alloc(heap, bytes) : NULL;
    if (!t)
        return NULL;
    *t = (struct sheaf_tape){.heap = heap, .bytes = bytes, .plan = plan};
    struct sheaf__tape_array *arrays[] = ARRAYS(t);
    uint8_t *at = (uint8_t *)(t + 1);
    for (size_t i = 0; i < SHEAF__TAPE_ARRAYS; i++) {
        if (parts[i])
            *arrays[i] = (struct sheaf__tape_array){.data = at, .capacity = parts[i]};
        at += parts[i];
    }
    if (t->map.data)
        memset(t->map.data, 0, t->map.capacity);
    return t;
}

/* ---- life ---- */

void sheaf__tape_stop(struct sheaf_tape *t)
{
    for (struct sheaf_tape **at = &tapes; t->linked && *at; at = &(*at)->parent)
        if (*at == t) {
            *at = t->parent;
            break;
        }
    t->linked = false;
}

static void destroy(void *object)
{
    struct sheaf_tape *t = object;
    struct sheaf__heap *heap = t->heap;
    sheaf__tape_stop(t);
    if (t->plan)
        learn(t);
    for (size_t i = t->kept.count; i > 0; i--)
        sheaf__unref(((void **)t->kept.data)[i - 1]);
    struct sheaf__tape_array *arrays[] = ARRAYS(t);
    for (size_t i = 0; i < SHEAF__TAPE_ARRAYS; i++)
        release(t, arrays[i]);
    sheaf__heap_free(heap, t, t->bytes);
}

static const struct sheaf__class tape_class = {"tape", destroy};

static sheaf_tape *start(bool persistent)
{
    sheaf_error err = {0};
    struct sheaf__heap *heap = sheaf__heap_current(&err);
    struct sheaf_tape *t = make(heap, sheaf__mode_current()->plan);
    if (!t) {
        sheaf__no_memory(&err, "a gradient tape");
        sheaf__frame_latch(&err);
        return NULL;
    }
    t->persistent = persistent;
    sheaf__object_init(&t->object, &tape_class);
    if (!sheaf__frame_own(t))
        return NULL;
    sheaf__once(&view_once, watch_views);
    t->parent = tapes;
    t->linked = true;
    tapes = t;
    return t;
}

sheaf_tape *sheaf_tape_start(void)
{
    return start(false);
}

sheaf_tape *sheaf_tape_start_persistent(void)
{
    return start(true);
}

void sheaf_tape_watch(sheaf_tape *t, sheaf_tensor *tensor)
{
    if (t && sheaf__tensor_ok(tensor) && sheaf__dtype_is_float(tensor->dtype) &&
        tensor->layout == SHEAF__DENSE && sheaf__tape_find(t, tensor) < 0)
        add_slot(t, tensor, NULL);
}
