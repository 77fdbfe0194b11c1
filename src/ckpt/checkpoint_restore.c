/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/checkpoint.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

/* Restoring a checkpoint: now, and when an object is added later; and whether all was found. */

sheaf_status sheaf__checkpoint_check_objects(const sheaf_checkpoint *c, sheaf_error *err)
{
    if (!c)
        return sheaf__no_memory(err, "a checkpoint");
    return c->latched.status < 0 ? sheaf__error_copy(err, &c->latched) : SHEAF_OK;
}

sheaf_status sheaf__checkpoint_check(const sheaf_checkpoint *c, sheaf_error *err)
{
    SHEAF__TRY(sheaf__checkpoint_check_objects(c, err));
    return c->restored && c->restored->fault.status < 0
               ? sheaf__error_copy(err, &c->restored->fault)
               : SHEAF_OK;
}

sheaf_status sheaf_checkpoint_status(const sheaf_checkpoint *c, sheaf_error *err)
{
    return sheaf__checkpoint_check(c, err);
}

sheaf_status sheaf_checkpoint_restore(sheaf_checkpoint *c, const char *path, sheaf_error *err)
{
    struct sheaf__restored *restored = NULL;
    SHEAF__TRY(sheaf__checkpoint_check_objects(c, err));
    if (!path || !*path)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a checkpoint without a path");
    const struct sheaf__ckpt_counter before = c->counter;
    const struct sheaf__ckpt_restore how = {&c->trackable, &c->counter.trackable, path, c->partial};
    c->counter.made = true;
    sheaf_status status = sheaf__ckpt_restore(&how, &restored, err);
    /* One that was not in the file is made by the first save. */
    if (status < 0 || c->counter.value == 0)
        c->counter.made = before.made;
    if (status < 0)
        return status;
    if (c->restored)
        c->restored->partial = true; /* the last one has the last word */
    sheaf__ckpt_restored_free(c->restored);
    c->restored = restored;
    return SHEAF_OK;
}

/* ---- objects that come later ---- */

/* The node of `name` in the file, -1: it has none; and its path, false: no memory. */
static bool locate(const struct sheaf__object_graph *graph, const char *name, size_t at,
                   int32_t *node, struct sheaf__str *path)
{
    struct sheaf__str step = {0};
    bool failed = false, more = true;
    *node = graph->count ? 0 : -1;
    while (more) {
        more = sheaf__checkpoint_step(&name, &step);
        failed |= step.failed;
        sheaf__objects_escape(path, sheaf__str_text(&step));
        sheaf__str_add(path, more ? "/" : "");
        if (*node >= 0)
            *node = sheaf__graph_child(&graph->nodes[*node], sheaf__str_text(&step), at);
    }
    sheaf__str_free(&step);
    return !failed && !path->failed;
}

void sheaf__checkpoint_added(sheaf_checkpoint *c, const char *name, sheaf_trackable *object,
                             size_t at)
{
    struct sheaf__str path = {0};
    struct sheaf__ckpt_later later = {.object = object};
    sheaf_error fault = {0};
    if (!c->restored)
        return;
    if (!locate(&c->restored->graph, name, at, &later.node, &path)) {
        sheaf__no_memory(&fault, "restoring a checkpoint");
    } else {
        later.path = sheaf__str_text(&path);
        (void)sheaf__ckpt_restore_later(c->restored, &later, &fault);
    }
    sheaf__error_keep_first(&c->restored->fault, &fault);
    sheaf__str_free(&path);
}

/* ---- whether all was found ---- */

void sheaf_checkpoint_expect_partial(sheaf_checkpoint *c)
{
    if (!c)
        return;
    c->partial = true;
    if (c->restored)
        c->restored->partial = true;
}

static sheaf_status check_all(sheaf_checkpoint *c, bool file_too, sheaf_error *err)
{
    struct sheaf__ckpt_objects objects;
    SHEAF__TRY(sheaf__checkpoint_check(c, err));
    if (!c->restored)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "no checkpoint was restored, so nothing of it was found");
    SHEAF__TRY(sheaf__objects_walk(&objects, &c->trackable, "", err));
    sheaf_status status = sheaf__restored_check_objects(c->restored, &objects, err);
    if (status >= 0 && file_too)
        status = sheaf__restored_check_file(c->restored, &objects, err);
    sheaf__objects_free(&objects);
    return status;
}

sheaf_status sheaf_checkpoint_assert_existing_objects_matched(sheaf_checkpoint *c, sheaf_error *err)
{
    return check_all(c, false, err);
}

sheaf_status sheaf_checkpoint_assert_consumed(sheaf_checkpoint *c, sheaf_error *err)
{
    return check_all(c, true, err);
}
