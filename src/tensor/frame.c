/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/frame.h"

#include "base/error.h"
#include "base/log.h"
#include "base/object.h"
#include "base/thread.h"
#include "tensor/heap.h"

#include <stdint.h>
#include <string.h>

/* Entries of a frame are in chunks, the newest first; frame->entries is the newest, frame->count
 * what it holds. Most frames are small, so the first chunk is. */
struct chunk {
    struct chunk *older;
    struct sheaf__heap *heap;
    sheaf_error *error; /* of the frame; moves to the newest chunk */
    size_t bytes;
    size_t before; /* entries in older chunks */
    void *items[];
};
#define FIRST_BYTES 512
#define NEXT_BYTES  8192

#define ROOT_LIMIT 65536

/* frame->open */
#define OPEN      1
#define NO_MEMORY 2 /* an error that there was no memory to keep */

static _Thread_local sheaf_frame *innermost;
static _Thread_local sheaf_frame root;
static _Thread_local bool root_warned;

static void release_root(void *value);
static struct sheaf__local root_local = SHEAF__LOCAL_INIT(release_root);

static sheaf_frame *current_frame(void)
{
    if (innermost)
        return innermost;
    if (!root.open) {
        root.open = OPEN;
        /* Without memory for it the root's entries stay until the process ends. */
        sheaf__local_set(&root_local, &root);
    }
    return &root;
}

/* Takes everything out of the frame first, since what is released may run code of the program,
 * which may open frames and make tensors. */
static void release_entries(sheaf_frame *frame)
{
    struct chunk *chunk = frame->entries;
    uint32_t count = frame->count;
    frame->entries = NULL;
    frame->count = frame->capacity = 0;
    if (chunk && chunk->error)
        sheaf__heap_free(chunk->heap, chunk->error, sizeof(*chunk->error));
    while (chunk) {
        struct chunk *older = chunk->older;
        while (count-- > 0)
            sheaf__unref(chunk->items[count]);
        count = (uint32_t)(older ? chunk->before - older->before : 0);
        sheaf__heap_free(chunk->heap, chunk, chunk->bytes);
        chunk = older;
    }
}

/* The end of the thread: frames that are still open were skipped by a longjmp, their memory is
 * gone. */
static void release_root(void *value)
{
    innermost = NULL;
    root.open = 0;
    release_entries(value);
}

static bool grow(sheaf_frame *frame)
{
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    struct chunk *older = frame->entries;
    size_t bytes = sheaf__heap_room(older ? NEXT_BYTES : FIRST_BYTES);
    struct chunk *chunk = heap ? sheaf__heap_alloc(heap, bytes) : NULL;
    if (!chunk)
        return false;
    chunk->older = older;
    chunk->heap = heap;
    chunk->error = older ? older->error : NULL;
    chunk->bytes = bytes;
    chunk->before = older ? older->before + frame->count : 0;
    if (older)
        older->error = NULL;
    frame->entries = chunk;
    frame->count = 0;
    frame->capacity = (uint32_t)((bytes - offsetof(struct chunk, items)) / sizeof(void *));
    return true;
}

static void warn_of_root(const sheaf_frame *frame)
{
    const struct chunk *chunk = frame->entries;
    if (root_warned || chunk->before + frame->count <= ROOT_LIMIT)
        return;
    root_warned = true;
    sheaf__log(
        SHEAF_LOG_WARN,
        "more than %d results wait for the end of this thread; open a frame around the loop that "
        "makes them (SHEAF_FRAME)",
        ROOT_LIMIT);
}

void *sheaf__frame_own_in(sheaf_frame *frame, void *object)
{
    if (!object)
        return NULL;
    if (frame->count == frame->capacity && !grow(frame)) {
        frame->open |= NO_MEMORY;
        sheaf__unref(object);
        return NULL;
    }
    struct chunk *chunk = frame->entries;
    chunk->items[frame->count++] = object;
    if (frame == &root)
        warn_of_root(frame);
    return object;
}

void *sheaf__frame_own(void *object)
{
    return sheaf__frame_own_in(current_frame(), object);
}

/* ---- memory of a frame ---- */

struct memory {
    struct sheaf__object object;
    struct sheaf__heap *heap;
    size_t bytes;
};
#define MEMORY_HEAD 64
_Static_assert(sizeof(struct memory) <= MEMORY_HEAD, "what is handed out starts behind");

static void destroy_memory(void *object)
{
    struct memory *memory = object;
    sheaf__heap_free(memory->heap, memory, memory->bytes);
}

static const struct sheaf__class memory_class = {"frame memory", destroy_memory};

void *sheaf__frame_alloc(size_t size)
{
    sheaf_frame *frame = current_frame();
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    struct memory *memory = NULL;
    if (heap && size <= SIZE_MAX - MEMORY_HEAD)
        memory = sheaf__heap_alloc(heap, MEMORY_HEAD + size);
    if (!memory) {
        frame->open |= NO_MEMORY;
        return NULL;
    }
    sheaf__object_init(&memory->object, &memory_class);
    memory->heap = heap;
    memory->bytes = MEMORY_HEAD + size;
    return sheaf__frame_own_in(frame, memory) ? (char *)memory + MEMORY_HEAD : NULL;
}

const char *sheaf__frame_text(const char *text, size_t size)
{
    char *copy = sheaf__frame_alloc(size + 1);
    if (!copy)
        return "";
    if (size)
        memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

const char *sheaf__frame_str(struct sheaf__str *str)
{
    if (str->failed)
        current_frame()->open |= NO_MEMORY;
    const char *text = str->failed ? "" : sheaf__frame_text(sheaf__str_text(str), str->size);
    sheaf__str_free(str);
    return text;
}

/* ---- errors ---- */

void sheaf__frame_latch(const sheaf_error *err)
{
    sheaf_frame *frame = current_frame();
    struct chunk *chunk = frame->entries;
    if (!err || err->status >= 0 || (frame->open & NO_MEMORY) || (chunk && chunk->error))
        return;
    if (!chunk && grow(frame))
        chunk = frame->entries;
    if (chunk)
        chunk->error = sheaf__heap_alloc(chunk->heap, sizeof(*chunk->error));
    if (chunk && chunk->error)
        *chunk->error = *err;
    else
        frame->open |= NO_MEMORY;
}

sheaf_status sheaf_frame_status(sheaf_error *err)
{
    const sheaf_frame *frame = current_frame();
    const struct chunk *chunk = frame->entries;
    if (chunk && chunk->error)
        return sheaf__error_copy(err, chunk->error);
    if (frame->open & NO_MEMORY)
        return sheaf__no_memory(err, "a result");
    return SHEAF_OK;
}

/* ---- opening and closing ---- */

void sheaf_frame_open(sheaf_frame *frame)
{
    if (!frame || frame->open)
        return;
    *frame = (sheaf_frame){.parent = innermost, .rounds = frame->rounds, .open = OPEN};
    innermost = frame;
}

static bool is_in_stack(const sheaf_frame *frame)
{
    for (const sheaf_frame *f = innermost; f; f = f->parent)
        if (f == frame)
            return true;
    return false;
}

static void close_one(sheaf_frame *frame)
{
    frame->open = 0;
    release_entries(frame);
}

void sheaf_frame_close(sheaf_frame *frame)
{
    if (!frame || !frame->open)
        return;
    if (is_in_stack(frame)) {
        while (innermost != frame) {
            sheaf_frame *inner = innermost;
            innermost = inner->parent;
            close_one(inner);
        }
        innermost = frame->parent;
    }
    close_one(frame);
}

void sheaf_frame_clear(void)
{
    sheaf_frame *frame = current_frame();
    frame->open = OPEN;
    release_entries(frame);
}

bool sheaf_frame_enter(sheaf_frame *frame)
{
    if (!frame || frame->rounds) {
        sheaf_frame_close(frame);
        return false;
    }
    frame->rounds = 1;
    sheaf_frame_open(frame);
    return true;
}

sheaf_frame *sheaf__frame_current(void)
{
    return innermost;
}

sheaf_frame *sheaf__frame_swap(sheaf_frame *frame)
{
    sheaf_frame *before = innermost;
    innermost = frame;
    return before;
}
