/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context_state.h"

#include "base/counter.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/trace.h"
#include "base/wait.h"

#include <inttypes.h>
#include <string.h>

/* initial-exec: reading it allocates nothing, so sheaf_stop() may do it in a signal handler. */
static _Thread_local sheaf_context *current;

static struct sheaf__once default_once = SHEAF__ONCE_INIT;
static sheaf_context default_context;

/* All contexts, for stop.c. */
static struct sheaf__mutex all_lock = SHEAF__MUTEX_INIT;
static struct sheaf__list all;
static struct sheaf__cond acted = SHEAF__COND_INIT;

static sheaf_status init(sheaf_context *context, const sheaf_context_options *options,
                         sheaf_error *err)
{
    context->task.index = -1;
    context->fs = sheaf__fs_system();
    context->log = options->log;
    context->log_user = options->log_user;
    context->environment = options->environment;
    SHEAF__TRY(sheaf__stopping_init(context, err));
    SHEAF__TRY(sheaf__config_load(context, err));
    if (options->log_level)
        context->log_level = (int)options->log_level;
    bool has_seed = options->has_seed || options->seed != 0;
    int64_t seed = (int64_t)options->seed;
    if (!has_seed)
        has_seed = sheaf__str_to_int(context->config[SHEAF__CONFIG_SEED].text
                                         ? context->config[SHEAF__CONFIG_SEED].text
                                         : "",
                                     &seed);
    sheaf__seed_init(context, has_seed, seed);
    sheaf__trace_init(context);
    sheaf__mutex_lock(&all_lock);
    if (!sheaf__list_linked(&all.head))
        sheaf__list_init(&all);
    sheaf__list_append(&all, &context->node);
    sheaf__mutex_unlock(&all_lock);
    /* The process default may have been asked to stop before it was made. */
    sheaf__context_stop_asked();
    return SHEAF_OK;
}

static void make_default(void)
{
    static const sheaf_context_options none;
    /* What is called meanwhile finds the context that is being made, and does not wait for it. */
    current = &default_context;
    /* Nobody can be told of a failure here: it is kept for the first call that can tell. A bad
     * value leaves the default in its place; without memory for a token nothing would work, but
     * then no thread could start either. */
    init(&default_context, &none, &default_context.config_error);
    current = NULL;
}

static sheaf_context *the_default(void)
{
    sheaf__once(&default_once, make_default);
    return &default_context;
}

/* Nobody frees the process default, so what it owes to a file is written when the process ends. */
__attribute__((destructor)) static void write_default_trace(void)
{
    sheaf__trace_finish(&default_context);
}

sheaf_context *sheaf__context(void)
{
    return current ? current : the_default();
}

sheaf_context *sheaf_context_enter(sheaf_context *context)
{
    sheaf_context *before = current;
    current = context;
    return before;
}

sheaf_status sheaf__context_check(sheaf_error *err)
{
    sheaf_context *context = sheaf__context();
    return context->config_error.status < 0 ? sheaf__error_copy(err, &context->config_error)
                                            : SHEAF_OK;
}

static bool reserved_used(const uint64_t *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (reserved[i])
            return true;
    return false;
}

static sheaf_status check_options(const sheaf_context_options *options, sheaf_error *err)
{
    const char *const *e = options->environment;
    if (reserved_used(options->reserved, sizeof(options->reserved) / sizeof(uint64_t)))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "context options: reserved fields are set, expected zero");
    if (options->log_level < 0 || options->log_level > SHEAF_LOG_DEBUG)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "context options: log level %d, expected 0 to 4",
                            (int)options->log_level);
    for (size_t i = 0; e && e[i]; i++)
        if (strcspn(e[i], "=") == 0 || !strchr(e[i], '='))
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "context options: environment: found \"%s\" at %zu, expected "
                                "NAME=value",
                                e[i], i);
    return SHEAF_OK;
}

sheaf_status sheaf_context_new(const sheaf_context_options *options, sheaf_context **context,
                               sheaf_error *err)
{
    static const sheaf_context_options none;
    if (!options)
        options = &none;
    if (!context)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "context is NULL");
    SHEAF__TRY(check_options(options, err));
    sheaf_context *made = sheaf__calloc(1, sizeof(*made));
    if (!made)
        return sheaf__no_memory(err, "a context");
    sheaf_status status = init(made, options, err);
    if (status < 0) {
        sheaf_context_free(made);
        return status;
    }
    *context = made;
    return SHEAF_OK;
}

/* Nobody acts on it afterwards. */
static void leave_list(sheaf_context *context)
{
    sheaf__mutex_lock(&all_lock);
    while (context->acting)
        (void)!sheaf__cond_wait_until(&acted, &all_lock, SHEAF__NO_DEADLINE, SHEAF__NO_TOKEN, NULL);
    sheaf__list_remove(&context->node);
    sheaf__mutex_unlock(&all_lock);
}

void sheaf_context_free(sheaf_context *context)
{
    if (!context || context == &default_context)
        return;
    /* What is destroyed may log, count and read configuration: under its own context. */
    sheaf_context *before = sheaf_context_enter(context);
    leave_list(context);
    sheaf__stopping_end(context);
    sheaf__slot_destroy_all(context);
    sheaf_context_enter(before == context ? NULL : before);
    sheaf__trace_free(context);
    sheaf__counter_free(context);
    sheaf__log_free(context);
    sheaf__config_free(context);
    sheaf__stopping_free(context);
    sheaf__free(context);
}

void sheaf__context_set_task(sheaf_context *context, const char *job, int32_t index)
{
    sheaf__mutex_lock(&context->lock);
    sheaf__str_copy(context->task.job, sizeof(context->task.job), job);
    context->task.index = index;
    sheaf__mutex_unlock(&context->lock);
}

sheaf_task sheaf__context_task(sheaf_context *context)
{
    sheaf__mutex_lock(&context->lock);
    sheaf_task task = context->task;
    sheaf__mutex_unlock(&context->lock);
    return task;
}

char *sheaf__context_task_path(sheaf_context *context, const char *path)
{
    const sheaf_task task = sheaf__context_task(context);
    return task.job[0] ? sheaf__printf("%s.%s-%" PRId32, path, task.job, task.index)
                       : sheaf__strdup(path);
}

const struct sheaf__fs *sheaf__context_fs(sheaf_context *context)
{
    return context->fs;
}

void sheaf__context_set_fs(sheaf_context *context, const struct sheaf__fs *fs)
{
    context->fs = fs ? fs : sheaf__fs_system();
}

/* ---- stopping ---- */

void sheaf_stop(void)
{
    /* Nothing here may lock or allocate: the default context is not made, only marked. */
    sheaf_context *context = current ? current : &default_context;
    if (sheaf__thread_scheduler()) {
        sheaf__context_stop(sheaf__context());
        return;
    }
    atomic_store(&context->stop_asked, true);
    atomic_fetch_add(&context->asks, 1);
    sheaf__stop_notify();
}

bool sheaf_stopped(void)
{
    return atomic_load(&(current ? current : &default_context)->stop_asked);
}

/* A context of which a stop was asked that nobody acts on yet; it is seen from now on. NULL: none. */
static sheaf_context *take_asked(void)
{
    sheaf_context *found = NULL;
    sheaf__mutex_lock(&all_lock);
    struct sheaf__list_node *node = sheaf__list_linked(&all.head) ? sheaf__list_first(&all) : NULL;
    for (; node && !found; node = sheaf__list_next(&all, node)) {
        sheaf_context *context = SHEAF__CONTAINER(node, sheaf_context, node);
        const int asks = atomic_load(&context->asks);
        if (asks == context->asks_seen)
            continue;
        context->asks_seen = asks;
        context->acting = true;
        found = context;
    }
    sheaf__mutex_unlock(&all_lock);
    return found;
}

/* Without the list locked, as what is cancelled may make or free contexts. */
void sheaf__context_stop_asked(void)
{
    /* Made now if not yet: filling an error would make it, and that takes the lock of the list. */
    sheaf__context();
    for (sheaf_context *context; (context = take_asked());) {
        sheaf__context_stop(context);
        sheaf__mutex_lock(&all_lock);
        context->acting = false;
        sheaf__cond_broadcast(&acted);
        sheaf__mutex_unlock(&all_lock);
    }
}
