/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FLUSH_H
#define SHEAF_BASE_FLUSH_H

/* Numbers too small for their exponent become 0 while kernels compute, as in TensorFlow's threads. Moments and gradients
 * that fade away pass through that range, where an operation takes a hundred times as long. Set around kernels on
 * whatever thread runs them, so that bits do not depend on the thread, and put back: the program's own arithmetic is not
 * ours to change. */

#include <stdint.h>

struct sheaf__flush {
    uint32_t before;
};

#ifdef __x86_64__
#define SHEAF__FLUSH_BITS 0x8040u /* results and operands */

static inline struct sheaf__flush sheaf__flush_begin(void)
{
    struct sheaf__flush f = {__builtin_ia32_stmxcsr()};
    if ((f.before & SHEAF__FLUSH_BITS) != SHEAF__FLUSH_BITS)
        __builtin_ia32_ldmxcsr(f.before | SHEAF__FLUSH_BITS);
    return f;
}
static inline void sheaf__flush_end(struct sheaf__flush f)
{
    if ((f.before & SHEAF__FLUSH_BITS) != SHEAF__FLUSH_BITS)
        __builtin_ia32_ldmxcsr(f.before);
}
#else
static inline struct sheaf__flush sheaf__flush_begin(void)
{
    return (struct sheaf__flush){0};
}
static inline void sheaf__flush_end(struct sheaf__flush f)
{
    (void)f;
}
#endif

#endif
