/* SPDX-License-Identifier: Apache-2.0 */

/* Scopes and contexts: which strategy and which replica the calling thread is in (R4.1–R4.7). */

#include "base/error.h"
#include "base/mem.h"
#include "distribute/replica.h"
#include "distribute/strategy.h"
#include "ops/variable.h"
#include "tensor/frame.h"

/* What a scope keeps while it is open. */
struct scope_state {
    struct sheaf__mode mode;
    sheaf_creator_scope creator;
};

sheaf_strategy *sheaf_strategy_current(void)
{
    sheaf_strategy *s = sheaf__mode_current()->strategy;
    return s ? s : sheaf__strategy_default();
}

bool sheaf_has_strategy(void)
{
    return sheaf__mode_current()->strategy != NULL;
}

bool sheaf_in_cross_replica_context(void)
{
    return sheaf__mode_current()->kind == SHEAF__MODE_CROSS;
}

sheaf_replica *sheaf_replica_context(void)
{
    const struct sheaf__mode *mode = sheaf__mode_current();
    if (mode->kind == SHEAF__MODE_CROSS)
        return NULL;
    return mode->kind == SHEAF__MODE_REPLICA ? mode->replica : sheaf__replica_default();
}

sheaf_status sheaf__strategy_check_cross(sheaf_strategy *s, const char *what, sheaf_error *err)
{
    const struct sheaf__mode *mode = sheaf__mode_current();
    if (mode->kind == SHEAF__MODE_REPLICA)
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "%s in a replica step of %s, expected cross-replica context; inside a step use "
            "the replica's own calls or sheaf_merge_call",
            what, mode->strategy->cls->name);
    if (mode->kind == SHEAF__MODE_CROSS && mode->strategy != s)
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "%s of a %s inside the scope of another strategy (%s); strategies must not be "
            "mixed",
            what, s->cls->name, mode->strategy->cls->name);
    return SHEAF_OK;
}

static sheaf_variable *create_in_scope(sheaf_variable_request *request, void *user)
{
    sheaf_strategy *s = user;
    if (!s->cls->create)
        return sheaf_variable_create_next(request);
    sheaf_variable *v = s->cls->create(s, request);
    return v ? v : sheaf__variable_lost();
}

/* Why the scope may not be entered; the default strategy nests nowhere (R4.6). */
static sheaf_status check_scope(sheaf_strategy *s, sheaf_error *err)
{
    if (!s)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the scope of no strategy: it is NULL");
    SHEAF__TRY(sheaf__strategy_check_cross(s, "the scope", err));
    if (s->cls == &sheaf__strategy_default_class && sheaf_has_strategy())
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "the default strategy's scope must not nest inside another strategy's");
    return SHEAF_OK;
}

bool sheaf_scope_enter(sheaf_scope *scope, sheaf_strategy *s)
{
    if (scope->entered++)
        return false;
    sheaf_error err = {0};
    sheaf_status status = check_scope(s, &err);
    struct scope_state *state = status < 0 ? NULL : sheaf__calloc(1, sizeof(*state));
    if (!state) {
        if (status >= 0)
            sheaf__no_memory(&err, "a scope");
        sheaf__frame_latch(&err);
        return false;
    }
    scope->strategy = s == sheaf__strategy_default() ? s : sheaf__ref(s);
    scope->saved = state;
    scope->open = 1;
    state->mode = (struct sheaf__mode){.kind = SHEAF__MODE_CROSS, .strategy = s};
    if (s->cls != &sheaf__strategy_default_class) {
        sheaf__mode_push(&state->mode);
        sheaf_creator_scope_enter(&state->creator, create_in_scope, s);
    }
    return true;
}

void sheaf_scope_leave(sheaf_scope *scope)
{
    struct scope_state *state = scope->saved;
    if (!scope->open)
        return;
    if (scope->strategy->cls != &sheaf__strategy_default_class) {
        sheaf_creator_scope_leave(&state->creator);
        sheaf__mode_pop(&state->mode);
    }
    sheaf__free(state);
    sheaf_strategy_free(scope->strategy);
    scope->saved = NULL;
    scope->open = 0;
}
