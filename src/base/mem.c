/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t live_bytes;
static _Atomic int64_t live_blocks;
static _Atomic uint64_t allocations;
static _Atomic uint64_t fail_countdown; /* 0: off */
static _Atomic bool fail_hit;

/* Counts down to the allocation that a test wants to fail; true for that one. */
static bool refuse(void)
{
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) {
            if (left > 1)
                return false;
            atomic_store(&fail_hit, true);
            return true;
        }
    }
    return false;
}

static void *count_in(void *p)
{
    if (!p)
        return NULL;
    int64_t size = (int64_t)malloc_usable_size(p);
    atomic_fetch_add_explicit(&live_bytes, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return p;
}

static void count_out(void *p)
{
    int64_t size = (int64_t)malloc_usable_size(p);
    atomic_fetch_sub_explicit(&live_bytes, size, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
}

void *sheaf__alloc(size_t size)
{
    return refuse() ? NULL : count_in(malloc(size ? size : 1));
}

void *sheaf__calloc(size_t count, size_t size)
{
    size_t bytes;
    if (sheaf__mul_overflows(count, size, &bytes) || refuse())
        return NULL;
    return count_in(calloc(1, bytes ? bytes : 1));
}

void *sheaf__alloc_array(size_t count, size_t size)
{
    size_t bytes;
    return sheaf__mul_overflows(count, size, &bytes) ? NULL : sheaf__alloc(bytes);
}

void *sheaf__realloc(void *p, size_t size)
{
    if (!p)
        return sheaf__alloc(size);
    if (refuse())
        return NULL;
    int64_t before = (int64_t)malloc_usable_size(p);
    void *moved = realloc(p, size ? size : 1);
    if (!moved)
        return NULL;
    atomic_fetch_add_explicit(&live_bytes, (int64_t)malloc_usable_size(moved) - before,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return moved;
}

void *sheaf__realloc_array(void *p, size_t count, size_t size)
{
    size_t bytes;
    return sheaf__mul_overflows(count, size, &bytes) ? NULL : sheaf__realloc(p, bytes);
}

void sheaf__free(void *p)
{
    if (!p)
        return;
    int saved = errno;
    count_out(p);
    free(p);
    errno = saved;
}

void *sheaf__alloc_aligned(size_t size)
{
    size_t rounded;
    if (refuse() || sheaf__add_overflows(size ? size : 1, SHEAF__MEM_ALIGN - 1, &rounded))
        return NULL;
    return count_in(aligned_alloc(SHEAF__MEM_ALIGN, rounded & ~(size_t)(SHEAF__MEM_ALIGN - 1)));
}

void *sheaf__memdup(const void *data, size_t size)
{
    void *copy = sheaf__alloc(size);
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

char *sheaf__strdup(const char *text)
{
    return sheaf__memdup(text, strlen(text) + 1);
}

char *sheaf__strndup(const char *text, size_t size)
{
    size_t bytes;
    char *copy = sheaf__add_overflows(size, 1, &bytes) ? NULL : sheaf__alloc(bytes);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

char *sheaf__vprintf(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = size < 0 ? NULL : sheaf__alloc((size_t)size + 1);
    if (text)
        vsnprintf(text, (size_t)size + 1, format, args);
    return text;
}

char *sheaf__printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sheaf__vprintf(format, args);
    va_end(args);
    return text;
}

struct sheaf__mem_stats sheaf__mem_stats(void)
{
    return (struct sheaf__mem_stats){
        .live_bytes = atomic_load(&live_bytes),
        .live_blocks = atomic_load(&live_blocks),
        .allocations = atomic_load(&allocations),
    };
}

void sheaf__mem_fail_at(uint64_t k)
{
    atomic_store(&fail_hit, false);
    atomic_store(&fail_countdown, k);
}

bool sheaf__mem_fail_hit(void)
{
    return atomic_load(&fail_hit);
}
