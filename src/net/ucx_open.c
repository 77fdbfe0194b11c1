/* SPDX-License-Identifier: Apache-2.0 */
/* Opening UCX so that it does nothing that was not asked for: no memory hooks, no signal handlers, no output, no
 * configuration from files, only the transports that are allowed, no descriptors for other programs. */
#include "base/dl.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/ucx_api.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define asm __asm__ /* inline functions of UCX 1.18 are no C11 */
#include <ucs/debug/log_def.h>
#undef asm

/* ---- the library ---- */

static struct sheaf__mutex lock = SHEAF__MUTEX_INIT;
static struct sheaf__ucx_api api;
static bool loaded;
static ucp_context_h contexts[2]; /* for other machines, for this one; never freed */

/* UCX's lines come to our log; the sixth argument is their format. */
static __typeof__(*(ucs_log_func_t)0) log_line SHEAF_PRINTF(6, 0);

static ucs_log_func_rc_t log_line(const char *file, unsigned line, const char *function,
                                  ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *message,
                                  va_list args)
{
    char text[512];
    (void)file;
    (void)line;
    (void)function;
    (void)component;
    vsnprintf(text, sizeof(text), message, args);
    sheaf__log(level <= UCS_LOG_LEVEL_ERROR ? SHEAF_LOG_INFO : SHEAF_LOG_DEBUG, "UCX: %s", text);
    return UCS_LOG_FUNC_RC_STOP;
}

/* What UCX reads from the environment while it is loaded, before it can be told in any other way. */
static const char *const variables[][2] = {
    {"UCX_MEM_EVENTS", "no"},  {"UCX_HANDLE_ERRORS", "none"},
    {"UCX_DEBUG_SIGNO", "0"}, /* else a handler of SIGHUP */
    {"UCX_LOG_LEVEL", "warn"}, {"UCX_WARN_UNUSED_ENV_VARS", "no"},
};
enum { VARIABLES = sizeof(variables) / sizeof(variables[0]) };

static sheaf_status open_library(void **library, sheaf_error *err)
{
    static const char *const names[] = {"libucp.so.0", NULL};
    char *before[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = getenv(variables[i][0]);
        before[i] = value ? sheaf__strdup(value) : NULL;
        setenv(variables[i][0], variables[i][1], 1);
    }
    sheaf_status status = sheaf__dl_open(names, "transport ucx", library, NULL, err);
    for (int i = 0; i < VARIABLES; i++) {
        if (before[i])
            setenv(variables[i][0], before[i], 1);
        else
            unsetenv(variables[i][0]);
        sheaf__free(before[i]);
    }
    return status;
}

static sheaf_status load_library(sheaf_error *err)
{
    void *library;
    __typeof__(ucs_log_push_handler) *push = NULL;
    const struct sheaf__dl_symbol symbols[] = {
#define SYMBOL(name) {#name, (void **)(void *)&api.name},
        SHEAF__UCX_FUNCTIONS(SYMBOL)
#undef SYMBOL
            {"ucs_log_push_handler", (void **)(void *)&push},
    };
    SHEAF__TRY(open_library(&library, err));
    SHEAF__TRY(sheaf__dl_symbols(library, "transport ucx", symbols,
                                 sizeof(symbols) / sizeof(symbols[0]), err));
    push(log_line);
    return SHEAF_OK;
}

/* ---- contexts ---- */

static sheaf_status check(ucs_status_t status, const char *what, sheaf_error *err)
{
    if (status == UCS_OK)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "UCX: %s: %s", what,
                        api.ucs_status_string(status));
}

static sheaf_status make_context(bool local, ucp_context_h *context, sheaf_error *err)
{
    ucp_config_t *config = NULL;
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
    };
    SHEAF__TRY(check(api.ucp_config_read(NULL, NULL, &config), "configuration", err));
    ucs_status_t status = UCS_OK;
    if (local)
        status = api.ucp_config_modify(config, "TLS", "posix,sysv,cma,self");
    if (status == UCS_OK)
        status = api.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, context);
    api.ucp_config_release(config);
    return check(status, "context", err);
}

sheaf_status sheaf__ucx_load(bool local, const struct sheaf__ucx_api **functions,
                             ucp_context_h *context, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&lock);
    if (!loaded) {
        status = load_library(err);
        loaded = status == SHEAF_OK;
    }
    if (status == SHEAF_OK && !contexts[local])
        status = make_context(local, &contexts[local], err);
    *functions = &api;
    *context = contexts[local];
    sheaf__mutex_unlock(&lock);
    return status;
}

/* ---- descriptors ---- */

enum { DESCRIPTORS = 64 * 64 };

void sheaf__ucx_note_descriptors(struct sheaf__ucx_descriptors *before)
{
    memset(before, 0, sizeof(*before));
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            before->open[fd / 64] |= UINT64_C(1) << (fd % 64);
}

void sheaf__ucx_keep_descriptors(const struct sheaf__ucx_descriptors *before)
{
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !(before->open[fd / 64] >> (fd % 64) & 1))
            fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}
