/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CONTEXT_H
#define SHEAF_BASE_CONTEXT_H

/* Inside of a context for the rest of the library. The current context is never NULL: the process
 * default is made at first use and never freed. */

#include <sheaf/context.h>

struct sheaf__token;
struct sheaf__fs;

/* The calling thread's context. */
sheaf_context *sheaf__context(void);
/* SHEAF_OK, or the first bad configuration value of the process default context, which nobody could
 * be told when it was made. Public entry points that read configuration (cluster, strategy, server, iterator)
 * call this first. */
sheaf_status sheaf__context_check(sheaf_error *err);

/* The task that this context is; "" and -1 until the cluster says. It becomes the origin of errors.
 */
void sheaf__context_set_task(sheaf_context *context, const char *job, int32_t index);
sheaf_task sheaf__context_task(sheaf_context *context);
/* A file of this task's own: `path`, in a cluster with ".worker-0" behind it; new memory. NULL: no
 * memory. */
char *sheaf__context_task_path(sheaf_context *context, const char *path);

/* Root of the context's cancel tokens (borrowed). */
struct sheaf__token *sheaf__context_token(sheaf_context *context);
/* What sheaf_stop() does, for one context and from ordinary code. */
void sheaf__context_stop(sheaf_context *context);
/* Ends in order: while somebody wants that (calls are counted), the first sheaf_stop() only cancels the token below,
 * and the context's own follows SHEAF_GRACE_S later or at the next sheaf_stop(). */
void sheaf__context_end_in_order(sheaf_context *context, bool wanted);
bool sheaf__context_ends_in_order(sheaf_context *context);
/* Cancelled at the first sheaf_stop() (borrowed). */
struct sheaf__token *sheaf__context_asked(sheaf_context *context);
/* Another task of the job was asked to stop, and it ends in order: so does this one. */
void sheaf__context_told_to_stop(sheaf_context *context);

/* File access of the context (base/file.h). Set before the context is used. */
const struct sheaf__fs *sheaf__context_fs(sheaf_context *context);
void sheaf__context_set_fs(sheaf_context *context, const struct sheaf__fs *fs);

/* Places for what upper layers keep per context (pools, transports, devices), which base knows
 * nothing of. The first call with a key runs create(context, err) and keeps its result; others wait
 * for it. create may ask for other slots. sheaf_context_free() destroys in the reverse order of
 * completion. The key is the address of a static slot struct. */
struct sheaf__slot {
    const char *name;
    sheaf_status (*create)(sheaf_context *context, void **value, sheaf_error *err);
    void (*destroy)(void *value);
};
sheaf_status sheaf__context_slot(sheaf_context *context, const struct sheaf__slot *slot,
                                 void **value, sheaf_error *err);
/* The value if it was made, else NULL. */
void *sheaf__context_peek(sheaf_context *context, const struct sheaf__slot *slot);

#endif
