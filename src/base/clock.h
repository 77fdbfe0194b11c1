/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CLOCK_H
#define SHEAF_BASE_CLOCK_H

/* Time as int64 nanoseconds. Monotonic time comes from the thread's scheduler (virtual in a
 * simulation), wall time from the context. A deadline is a monotonic time; SHEAF__NO_DEADLINE is
 * only for threads of the library that idle until they are given work and are woken by close or
 * cancel. Sleeping is in base/wait.h. Any thread. */

#include <sheaf/context.h>

#define SHEAF__NO_DEADLINE INT64_MAX
#define SHEAF__US          INT64_C(1000)
#define SHEAF__MS          INT64_C(1000000)
#define SHEAF__S           INT64_C(1000000000)

int64_t sheaf__clock_now(void);
/* Nanoseconds since 1970. In a simulation it runs with the virtual time. */
int64_t sheaf__clock_wall(void);

/* The time `seconds` or `ns` from now, without overflow. */
int64_t sheaf__clock_deadline(double seconds);
int64_t sheaf__clock_after(int64_t ns);
/* Refuses what a program gives as seconds and nobody means: NaN, less than 0, or more than 1e9.
 * "<whose>: deadline is -1 s, expected 0 to 1e9". */
sheaf_status sheaf__clock_check(double seconds, const char *whose, sheaf_error *err);
/* Nanoseconds left until `deadline`, 0 if it is past. */
int64_t sheaf__clock_left(int64_t deadline);
/* What was left a moment after someone gave so many seconds, as what was given: for messages. */
double sheaf__clock_given(int64_t left);
/* The deadline SHEAF_DEADLINE_S from now. */
int64_t sheaf__clock_default_deadline(void);

/* Wall clock of a context; NULL: the system's. For tests. */
typedef int64_t (*sheaf__clock_fn)(void *user);
void sheaf__clock_set_wall(sheaf_context *context, sheaf__clock_fn wall, void *user);

#endif
