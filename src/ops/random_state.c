/* SPDX-License-Identifier: Apache-2.0 */

/* The random numbers of a context as a part of checkpoints. In bytes: "ShfR", a byte for the version, 1 if there is a global
 * seed, the seed, then MT19937's words and how many of them are used; all little-endian. */

#include "base/buf.h"
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "tensor/frame.h"
#include "tensor/trackable.h"

#include <string.h>

#define MAGIC "ShfR\1"
enum { MAGIC_SIZE = sizeof(MAGIC) - 1, WORDS = 624 };

struct random_state {
    sheaf_trackable trackable;
    sheaf_context *context;
    struct sheaf__seed_state accepted; /* without a seed: nothing is */
};

static sheaf_status random_save(sheaf_trackable *t, sheaf_bytes *bytes, sheaf_error *err)
{
    const struct random_state *r = t->object;
    struct sheaf__seed_state state;
    struct sheaf__buf buf = {0};
    sheaf__seed_get(r->context, &state);
    sheaf__buf_bytes(&buf, MAGIC, MAGIC_SIZE);
    sheaf__buf_byte(&buf, state.has_seed);
    sheaf__buf_fixed64(&buf, (uint64_t)state.seed);
    for (int i = 0; i < WORDS; i++)
        sheaf__buf_fixed32(&buf, state.op_seeds.state[i]);
    sheaf__buf_fixed32(&buf, state.op_seeds.at);
    const char *text = buf.failed ? NULL : sheaf__frame_text((const char *)buf.data, buf.size);
    *bytes = (sheaf_bytes){text, text ? buf.size : 0};
    sheaf__buf_free(&buf);
    return text ? SHEAF_OK : sheaf__no_memory(err, "the state of random numbers");
}

static bool parse(const sheaf_bytes *bytes, struct sheaf__seed_state *state)
{
    struct sheaf__cursor c = sheaf__cursor_of(bytes->data, bytes->size);
    const uint8_t *magic = NULL;
    uint8_t has_seed = 0;
    uint64_t seed = 0;
    bool good = sheaf__cursor_bytes(&c, MAGIC_SIZE, &magic) && !memcmp(magic, MAGIC, MAGIC_SIZE) &&
                sheaf__cursor_byte(&c, &has_seed) && sheaf__cursor_fixed64(&c, &seed);
    for (int i = 0; i < WORDS && good; i++)
        good = sheaf__cursor_fixed32(&c, &state->op_seeds.state[i]);
    good = good && sheaf__cursor_fixed32(&c, &state->op_seeds.at) && !sheaf__cursor_left(&c);
    state->has_seed = has_seed;
    state->seed = (int64_t)seed;
    return good && has_seed <= 1 && state->op_seeds.at <= WORDS;
}

static sheaf_status random_accept(sheaf_trackable *t, const sheaf_bytes *bytes, sheaf_error *err)
{
    struct random_state *r = t->object;
    struct sheaf__seed_state state = {0};
    if (bytes && !parse(bytes, &state))
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                            "%zu bytes that are no state of random numbers, or of a newer version",
                            bytes->size);
    r->accepted = state;
    return SHEAF_OK;
}

static void random_settle(sheaf_trackable *t, bool take)
{
    struct random_state *r = t->object;
    if (take && r->accepted.has_seed)
        sheaf__seed_put(r->context, &r->accepted);
    r->accepted.has_seed = false;
}

static const struct sheaf__trackable_class random_class = {
    .save = random_save, .accept = random_accept, .settle = random_settle};

static sheaf_status make_state(sheaf_context *context, void **value, sheaf_error *err)
{
    struct random_state *r = sheaf__calloc(1, sizeof(*r));
    if (!r)
        return sheaf__no_memory(err, "the state of random numbers");
    r->trackable = (sheaf_trackable){&random_class, r};
    r->context = context;
    *value = r;
    return SHEAF_OK;
}

static const struct sheaf__slot state_slot = {"random state", make_state, sheaf__free};

sheaf_trackable *sheaf_random_trackable(void)
{
    void *state = NULL;
    return sheaf__context_slot(sheaf__context(), &state_slot, &state, NULL) < 0
               ? NULL
               : &((struct random_state *)state)->trackable;
}
