/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_TSAN_H
#define SHEAF_BASE_TSAN_H

/* What the thread sanitizer cannot see by itself is told to it; in every other build this is nothing. */

#if defined(__SANITIZE_THREAD__)
#define SHEAF__WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHEAF__WITH_TSAN 1
#endif
#endif
#ifdef SHEAF__WITH_TSAN
#include <sanitizer/tsan_interface.h>
#define SHEAF__TSAN(call) call
#else
#define SHEAF__TSAN(call) ((void)0)
#endif

/* What one thread did before it gave the key another has seen once it took it. */
static inline void sheaf__tsan_give(void *key)
{
    (void)key;
    SHEAF__TSAN(__tsan_release(key));
}

static inline void sheaf__tsan_take(void *key)
{
    (void)key;
    SHEAF__TSAN(__tsan_acquire(key));
}

#endif
