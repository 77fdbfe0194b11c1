/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_EXPORT_H
#define SHEAF_EXPORT_H

/** @file
 *  What every public header needs: visibility, must-check results, C++ guards. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Marks a function of the shared library. */
#define SHEAF_API __attribute__((visibility("default")))
/** The same, for a result that must not be ignored. */
#define SHEAF_CHECKED __attribute__((visibility("default"), warn_unused_result))
/** Checks a printf-like format: F is the position of the format, A of its first argument. */
#define SHEAF_PRINTF(F, A) __attribute__((format(printf, F, A)))

/** Name of a block macro's variable, made of the line, so that a block inside another hides none. */
#define SHEAF_BLOCK_NAME(prefix)      SHEAF_BLOCK_JOIN(prefix, __LINE__)
#define SHEAF_BLOCK_JOIN(prefix, n)   SHEAF_BLOCK_JOINED(prefix, n)
#define SHEAF_BLOCK_JOINED(prefix, n) prefix##n

#ifdef __cplusplus
#define SHEAF_BEGIN_DECLS extern "C" {
#define SHEAF_END_DECLS   }
/** An initialiser of all zeros that neither language warns of. */
#define SHEAF_ZERO \
    {              \
    }
#else
#define SHEAF_BEGIN_DECLS
#define SHEAF_END_DECLS
#define SHEAF_ZERO \
    {              \
        0          \
    }
#endif

#endif
