/* SPDX-License-Identifier: Apache-2.0 */

/* Following a directory of checkpoints, as an evaluator does. */

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wait.h"
#include "ckpt/checkpoint.h"
#include "ckpt/directory.h"
#include "tensor/frame.h"

#include <string.h>

#define POLL (50 * SHEAF__MS)

/* What is looked for. */
struct next {
    const char *directory, *previous;
    const struct sheaf__strings *left_out; /* known to be damaged; NULL: none is */
    const char *path;                      /* the one found, text of the frame, or NULL */
    bool over;                             /* the run ended with the newest one */
    bool looked;
};

/* Whether the run that we belong to ended with this checkpoint. */
static bool is_last(const char *path)
{
    struct sheaf__sidecar s = {0};
    if (sheaf__directory_sidecar(path, &s, NULL) < 0)
        return false;
    const char *run = sheaf__config_text(SHEAF__CONFIG_RUN_ID);
    bool last = s.last && !strcmp(s.run_id ? s.run_id : "", run);
    sheaf__sidecar_free(&s);
    return last;
}

/* The newest one that is not left out, if it is newer than the previous one. */
static sheaf_status look(struct next *n, sheaf_error *err)
{
    struct sheaf__strings paths = {0};
    sheaf_status status = sheaf__directory_candidates(n->directory, NULL, !n->looked, &paths, err);
    n->looked = true;
    n->path = NULL;
    size_t i = 0;
    while (i < paths.count && n->left_out && sheaf__strings_has(n->left_out, paths.items[i]))
        i++;
    const bool newer = i < paths.count && (!n->previous || strcmp(paths.items[i], n->previous));
    if (newer)
        n->path = sheaf__frame_text(paths.items[i], strlen(paths.items[i]));
    /* One that is damaged may have been the last, too. */
    n->over = !newer && paths.count &&
              (is_last(paths.items[0]) || (i < paths.count && is_last(paths.items[i])));
    sheaf__strings_clear(&paths);
    return status;
}

static sheaf_status waited_in_vain(const struct next *n, double deadline, sheaf_error *err)
{
    const char *damaged = n->left_out && n->left_out->count ? " that can be read" : "";
    if (!sheaf__file_exists(n->directory))
        return sheaf__error(err, SHEAF_ERR_DEADLINE,
                            "no checkpoint in '%s' after %g s: no such directory", n->directory,
                            deadline);
    return sheaf__error(err, SHEAF_ERR_DEADLINE, "no %scheckpoint%s in '%s' after %g s",
                        n->previous ? "new " : "", damaged, n->directory, deadline);
}

static sheaf_status wait_for(struct next *n, double deadline, sheaf_error *err)
{
    if (!n->directory)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no directory of checkpoints");
    SHEAF__TRY(sheaf__clock_check(deadline, "waiting for a checkpoint", err));
    const int64_t until = sheaf__clock_deadline(deadline);
    for (;;) {
        SHEAF__TRY(look(n, err));
        /* What is last stays last, but the newer one may have come between the two looks. */
        if (n->path || n->over)
            return n->path ? SHEAF_OK : SHEAF_END;
        int64_t now = sheaf__clock_now();
        if (now >= until)
            return waited_in_vain(n, deadline, err);
        int64_t next = until - now < POLL ? until : now + POLL;
        SHEAF__TRY(sheaf__wait_sleep(next, NULL, err));
    }
}

sheaf_status sheaf_checkpoint_wait(const char *directory, const char *previous, double deadline,
                                   const char **path, sheaf_error *err)
{
    struct next n = {.directory = directory, .previous = previous};
    sheaf_status status = wait_for(&n, deadline, err);
    if (status == SHEAF_OK)
        *path = n.path;
    return status;
}

/* Speaks of a damaged one once; a checkpoint is never replaced, so it stays so. */
static sheaf_status leave_out(sheaf_checkpoint *c, const char *path, const sheaf_error *damage,
                              sheaf_error *err)
{
    sheaf__checkpoint_leave_out(path, damage);
    return sheaf__strings_add(&c->left_out, path) ? SHEAF_OK : sheaf__no_memory(err, "a path");
}

sheaf_status sheaf_checkpoint_restore_next(sheaf_checkpoint *c, const char *directory,
                                           const char *previous, double deadline, const char **path,
                                           sheaf_error *err)
{
    SHEAF__TRY(sheaf__checkpoint_check_objects(c, err));
    struct next n = {.directory = directory, .previous = previous, .left_out = &c->left_out};
    sheaf_error damage = {0};
    for (;;) {
        bool damaged;
        sheaf_error fault = {0};
        sheaf_status status = wait_for(&n, deadline, err);
        const bool none = status == SHEAF_END || status == SHEAF_ERR_DEADLINE;
        if (none && !previous && damage.status < 0) /* there are some, and none is sound */
            return sheaf__error_copy(err, &damage);
        if (status != SHEAF_OK)
            return status;
        if (sheaf__checkpoint_try(c, n.path, &damaged, &fault) >= 0) {
            *path = n.path;
            return SHEAF_OK;
        }
        if (!sheaf__directory_has(n.path))
            continue;
        if (!damaged)
            return sheaf__error_copy(err, &fault);
        SHEAF__TRY(leave_out(c, n.path, &fault, err));
        sheaf__error_keep_first(&damage, &fault);
    }
}
