/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_MEM_H
#define SHEAF_BASE_MEM_H

/* Memory. All of the library's allocations pass here: they are counted (tests prove that nothing
 * leaks), and a test can let any one of them fail. Every function returns NULL on failure and never
 * reports; the caller fills the error (sheaf__no_memory() in base/error.h). Any thread. */

#include <sheaf/export.h>

#include <stdarg.h>

/* `size` bytes, not cleared. Size 0 gives a pointer that may be freed, not NULL. */
void *sheaf__alloc(size_t size) __attribute__((malloc, alloc_size(1)));
/* `count` items of `size` bytes, zeroed; NULL if the product overflows. */
void *sheaf__calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
/* `count` items of `size` bytes, not cleared; NULL if the product overflows. */
void *sheaf__alloc_array(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
/* As realloc; on failure `p` is untouched and still the caller's. */
void *sheaf__realloc(void *p, size_t size) __attribute__((alloc_size(2)));
/* Resizes to `count` items of `size` bytes, overflow-checked. */
void *sheaf__realloc_array(void *p, size_t count, size_t size) __attribute__((alloc_size(2, 3)));
/* Frees what any function of this header gave. NULL is nothing. Keeps errno. */
void sheaf__free(void *p);

/* `size` bytes at an address that is a multiple of SHEAF__MEM_ALIGN: buffers of tensors. Freed by
 * sheaf__free(). */
#define SHEAF__MEM_ALIGN 64
void *sheaf__alloc_aligned(size_t size) __attribute__((malloc, alloc_size(1)));

char *sheaf__strdup(const char *text) __attribute__((malloc));
/* The first `size` bytes of `text` and a zero. */
char *sheaf__strndup(const char *text, size_t size) __attribute__((malloc));
void *sheaf__memdup(const void *data, size_t size) __attribute__((malloc, alloc_size(2)));
/* A formatted string of its own. */
char *sheaf__printf(const char *format, ...) __attribute__((malloc)) SHEAF_PRINTF(1, 2);
char *sheaf__vprintf(const char *format, va_list args) __attribute__((malloc)) SHEAF_PRINTF(1, 0);

/* True if a * b (or a + b) overflows; else `*out` is the result. */
static inline bool sheaf__mul_overflows(size_t a, size_t b, size_t *out)
{
    return __builtin_mul_overflow(a, b, out);
}
static inline bool sheaf__add_overflows(size_t a, size_t b, size_t *out)
{
    return __builtin_add_overflow(a, b, out);
}

/* What is allocated now in the whole process, and how many allocations there were so far. */
struct sheaf__mem_stats {
    int64_t live_bytes; /* as the allocator rounds them */
    int64_t live_blocks;
    uint64_t allocations;
};
struct sheaf__mem_stats sheaf__mem_stats(void);

/* Lets the k-th allocation from now (1 = the next one; of any thread) fail once; 0 switches off. */
void sheaf__mem_fail_at(uint64_t k);
/* True if the allocation chosen by the last sheaf__mem_fail_at() has been refused: a test loops
 * over k until not. */
bool sheaf__mem_fail_hit(void);

#endif
