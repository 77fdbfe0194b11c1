/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_INDEPENDENT_H
#define SHEAF_BASE_INDEPENDENT_H

#include <stddef.h>

/* Before a loop of which no iteration meets another, though its arrays may be the same memory: the
 * compiler cannot know that, and would not vectorise. */
#ifdef __clang__
/* It warns of loops it cannot do so with, or was told not to by the level of optimisation. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define SHEAF__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SHEAF__INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
