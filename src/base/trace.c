/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include "base/context_state.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Events kept in memory, 32 bytes each; later ones are counted and dropped. */
#define TRACE_MAX ((size_t)1 << 21)

void sheaf__trace_init(sheaf_context *context)
{
    const char *path = context->config[SHEAF__CONFIG_TRACE].text;
    atomic_store(&context->tracing, path && *path);
}

struct sheaf__span sheaf__trace_start(const char *name)
{
    if (!atomic_load_explicit(&sheaf__context()->tracing, memory_order_relaxed))
        return (struct sheaf__span){0};
    return (struct sheaf__span){.name = name, .start = sheaf__clock_now()};
}

void sheaf__trace_end(const struct sheaf__span *span)
{
    if (!span->name)
        return;
    sheaf_context *context = sheaf__context();
    struct sheaf__trace_event event = {.name = span->name,
                                       .thread = sheaf__thread_id(),
                                       .start = span->start,
                                       .ns = sheaf__clock_now() - span->start};
    sheaf__mutex_lock(&context->trace_lock);
    if (context->trace_count < TRACE_MAX &&
        sheaf__array_reserve(&context->trace, &context->trace_capacity, context->trace_count + 1,
                             sizeof(*context->trace)))
        context->trace[context->trace_count++] = event;
    else
        context->trace_lost++;
    sheaf__mutex_unlock(&context->trace_lock);
}

/* Chrome's trace format: microseconds, one process per task. */
static void format(sheaf_context *context, struct sheaf__str *out)
{
    sheaf_task task = sheaf__context_task(context);
    int process = (int)getpid();
    sheaf__str_printf(
        out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"lost\":%" PRIu64 "},\"traceEvents\":[\n",
        context->trace_lost);
    sheaf__str_printf(
        out, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"", process);
    if (task.job[0]) {
        sheaf__str_json(out, task.job, strlen(task.job));
        sheaf__str_printf(out, ":%" PRId32, task.index);
    } else {
        sheaf__str_add(out, "sheaf");
    }
    sheaf__str_add(out, "\"}}");
    for (size_t i = 0; i < context->trace_count; i++) {
        const struct sheaf__trace_event *e = &context->trace[i];
        sheaf__str_add(out, ",\n{\"ph\":\"X\",\"name\":\"");
        sheaf__str_json(out, e->name, strlen(e->name));
        sheaf__str_printf(out,
                          "\",\"pid\":%d,\"tid\":%" PRIu64 ",\"ts\":%" PRId64 ".%03" PRId64
                          ",\"dur\":%" PRId64 ".%03" PRId64 "}",
                          process, e->thread, e->start / 1000, e->start % 1000, e->ns / 1000,
                          e->ns % 1000);
    }
    sheaf__str_add(out, "\n]}\n");
}

sheaf_status sheaf__trace_write(sheaf_context *context, sheaf_error *err)
{
    struct sheaf__str out = {0};
    if (!atomic_load(&context->tracing))
        return SHEAF_OK;
    char *path = sheaf__context_task_path(context, context->config[SHEAF__CONFIG_TRACE].text);
    sheaf__mutex_lock(&context->trace_lock);
    format(context, &out);
    sheaf__mutex_unlock(&context->trace_lock);
    sheaf_status status = out.failed || !path ? sheaf__no_memory(err, "the trace")
                                              : sheaf__file_replace(path, out.text, out.size, err);
    sheaf__str_free(&out);
    sheaf__free(path);
    return status;
}

void sheaf__trace_finish(sheaf_context *context)
{
    sheaf_error err = {0};
    if (sheaf__trace_write(context, &err) < 0)
        sheaf__log(SHEAF_LOG_WARN, "SHEAF_TRACE: %s: the trace is not written: %s", err.file,
                   err.message);
    atomic_store(&context->tracing, false);
}

void sheaf__trace_free(sheaf_context *context)
{
    sheaf__trace_finish(context);
    sheaf__free(context->trace);
}
