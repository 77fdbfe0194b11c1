/* SPDX-License-Identifier: Apache-2.0 */
#include "net/handshake.h"

#include "base/error.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A message: magic, type, two bytes of zero, size of the body; body; for some a MAC. */
enum { HEAD = 12, NONCE = 32, MAC = SHEAF__SHA256_SIZE };
static const uint8_t magic[5] = {'S', 'H', 'E', 'A', 'F'};

enum type { HELLO = 1, CHALLENGE, PROOF, WELCOME, REFUSE, READY, TYPES };

/* Largest body before anything is proved, and after. */
static const uint32_t limits[TYPES] = {
    [HELLO] = 192,    [CHALLENGE] = NONCE, [PROOF] = 1024,
    [WELCOME] = 6144, [REFUSE] = 600,      [READY] = 4500,
};

static const char *const labels[TYPES] = {
    [PROOF] = "sheaf dialer's proof",
    [WELCOME] = "sheaf listener's proof",
    [REFUSE] = "sheaf listener's refusal",
    [READY] = "sheaf dialer's choice",
};

/* ---- parts of messages ---- */

static void put_task(struct sheaf__buf *b, const sheaf_task *task)
{
    sheaf__buf_sized(b, task->job, strnlen(task->job, sizeof(task->job)));
    sheaf__buf_fixed32(b, (uint32_t)task->index);
}

static bool get_text(struct sheaf__cursor *c, char *text, size_t capacity)
{
    const uint8_t *data;
    size_t size;
    if (!sheaf__cursor_sized(c, &data, &size) || size >= capacity || memchr(data, 0, size))
        return false;
    memcpy(text, data, size);
    text[size] = '\0';
    return true;
}

static bool get_task(struct sheaf__cursor *c, sheaf_task *task)
{
    uint32_t index;
    if (!get_text(c, task->job, sizeof(task->job)) || !sheaf__cursor_fixed32(c, &index))
        return false;
    task->index = (int32_t)index;
    return true;
}

static void put_tables(struct sheaf__buf *b, const struct sheaf__identity *self)
{
    sheaf__buf_byte(b, (uint8_t)self->table_count);
    for (size_t i = 0; i < self->table_count; i++) {
        sheaf__buf_sized(b, self->tables[i].name, strlen(self->tables[i].name));
        sheaf__buf_bytes(b, self->tables[i].digest, SHEAF__SHA256_SIZE);
    }
    sheaf__buf_fixed64(b, self->host);
    sheaf__buf_fixed32(b, self->transports);
}

static bool get_tables(struct sheaf__cursor *c, struct sheaf__identity *peer)
{
    uint8_t count;
    if (!sheaf__cursor_byte(c, &count) || count > SHEAF__TABLES_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *digest;
        if (!get_text(c, peer->tables[i].name, sizeof(peer->tables[i].name)) ||
            !sheaf__cursor_bytes(c, SHEAF__SHA256_SIZE, &digest))
            return false;
        memcpy(peer->tables[i].digest, digest, SHEAF__SHA256_SIZE);
    }
    peer->table_count = count;
    return sheaf__cursor_fixed64(c, &peer->host) && sheaf__cursor_fixed32(c, &peer->transports);
}

static void put_offer(struct sheaf__buf *b, const struct sheaf__offer *offer)
{
    sheaf__buf_byte(b, offer->lane);
    sheaf__buf_fixed64(b, (uint64_t)offer->ticket.pid);
    sheaf__buf_fixed32(b, (uint32_t)offer->ticket.fd);
    sheaf__buf_fixed64(b, offer->ticket.size);
    sheaf__buf_bytes(b, offer->ticket.token, sizeof(offer->ticket.token));
    sheaf__buf_fixed64(b, (uint64_t)offer->bell_pid);
    sheaf__buf_fixed32(b, (uint32_t)offer->bell_fd);
    sheaf__buf_sized(b, offer->ucx, offer->ucx_size);
}

static bool get_offer(struct sheaf__cursor *c, struct sheaf__offer *offer)
{
    uint64_t pid, bell_pid;
    uint32_t fd, bell_fd;
    const uint8_t *token, *ucx;
    if (!sheaf__cursor_byte(c, &offer->lane) || offer->lane > SHEAF__LANE_UCX ||
        !sheaf__cursor_fixed64(c, &pid) || !sheaf__cursor_fixed32(c, &fd) ||
        !sheaf__cursor_fixed64(c, &offer->ticket.size) ||
        !sheaf__cursor_bytes(c, sizeof(offer->ticket.token), &token) ||
        !sheaf__cursor_fixed64(c, &bell_pid) || !sheaf__cursor_fixed32(c, &bell_fd) ||
        !sheaf__cursor_sized(c, &ucx, &offer->ucx_size) || offer->ucx_size > sizeof(offer->ucx))
        return false;
    offer->ticket.pid = (int64_t)pid;
    offer->ticket.fd = (int32_t)fd;
    offer->bell_pid = (int64_t)bell_pid;
    offer->bell_fd = (int32_t)bell_fd;
    memcpy(offer->ticket.token, token, sizeof(offer->ticket.token));
    memcpy(offer->ucx, ucx, offer->ucx_size);
    return true;
}

/* ---- writing messages ---- */

/* Starts a message in the transcript and returns where. */
static size_t begin(struct sheaf__handshake *h, enum type type)
{
    size_t at = h->transcript.size;
    sheaf__buf_bytes(&h->transcript, magic, sizeof(magic));
    sheaf__buf_byte(&h->transcript, (uint8_t)type);
    sheaf__buf_bytes(&h->transcript, "\0", 2);
    sheaf__buf_fixed32(&h->transcript, 0);
    return at;
}

static sheaf_status compute_mac(struct sheaf__handshake *h, enum type type, size_t size,
                                uint8_t mac[MAC], sheaf_error *err)
{
    const struct sheaf__bytes parts[2] = {{labels[type], strlen(labels[type])},
                                          {h->transcript.data, size}};
    return sheaf__hmac_sha256(h->secret->bytes, h->secret->size, parts, 2, mac, err);
}

static sheaf_status fail(struct sheaf__handshake *h)
{
    h->state = SHEAF__HANDSHAKE_FAILED;
    return h->error.status;
}

/* Ends the message at `at`: its size, its MAC if it has one, and a copy of all of it to `out`. */
static sheaf_status end(struct sheaf__handshake *h, enum type type, size_t at, bool proved)
{
    struct sheaf__buf *t = &h->transcript;
    uint8_t mac[MAC];
    if (!t->failed) {
        size_t body = t->size - at - HEAD + (proved ? MAC : 0);
        sheaf__store32(t->data + at + HEAD - 4, (uint32_t)body);
    }
    if (proved && !t->failed) {
        if (compute_mac(h, type, t->size, mac, &h->error) < 0)
            return fail(h);
        sheaf__buf_bytes(t, mac, MAC);
    }
    if (!t->failed)
        sheaf__buf_bytes(&h->out, t->data + at, t->size - at);
    if (sheaf__buf_check(t, "a handshake", &h->error) < 0 ||
        sheaf__buf_check(&h->out, "a handshake", &h->error) < 0)
        return fail(h);
    return SHEAF_OK;
}

static sheaf_status put_nonce(struct sheaf__handshake *h)
{
    uint8_t nonce[NONCE];
    if (sheaf__random_bytes(nonce, sizeof(nonce), &h->error) < 0)
        return fail(h);
    sheaf__buf_bytes(&h->transcript, nonce, sizeof(nonce));
    return SHEAF_OK;
}

static sheaf_status send_hello(struct sheaf__handshake *h)
{
    size_t at = begin(h, HELLO);
    sheaf__buf_fixed32(&h->transcript, SHEAF__NET_VERSION);
    SHEAF__TRY(put_nonce(h));
    put_task(&h->transcript, &h->self->task);
    sheaf__buf_fixed64(&h->transcript, h->self->incarnation);
    sheaf__buf_sized(&h->transcript, h->self->run_id, strlen(h->self->run_id));
    h->state = SHEAF__HANDSHAKE_CHALLENGE;
    return end(h, HELLO, at, false);
}

static sheaf_status send_challenge(struct sheaf__handshake *h)
{
    size_t at = begin(h, CHALLENGE);
    SHEAF__TRY(put_nonce(h));
    h->state = SHEAF__HANDSHAKE_PROOF;
    return end(h, CHALLENGE, at, false);
}

static sheaf_status send_proof(struct sheaf__handshake *h)
{
    size_t at = begin(h, PROOF);
    put_task(&h->transcript, &h->wanted);
    put_tables(&h->transcript, h->self);
    sheaf__buf_sized(&h->transcript, h->self->address, strlen(h->self->address));
    h->state = SHEAF__HANDSHAKE_WELCOME;
    return end(h, PROOF, at, true);
}

sheaf_status sheaf__handshake_welcome(struct sheaf__handshake *h, const struct sheaf__offer *offer)
{
    size_t at = begin(h, WELCOME);
    put_task(&h->transcript, &h->self->task);
    sheaf__buf_fixed64(&h->transcript, h->self->incarnation);
    sheaf__buf_sized(&h->transcript, h->self->run_id, strlen(h->self->run_id));
    put_tables(&h->transcript, h->self);
    put_offer(&h->transcript, offer);
    h->offer = *offer;
    h->state = SHEAF__HANDSHAKE_READY;
    return end(h, WELCOME, at, true);
}

/* Before the proof a stranger is told a number, afterwards the peer the whole error. */
static void send_refusal(struct sheaf__handshake *h, bool proved, bool retry)
{
    sheaf_error why = h->error;
    size_t at = begin(h, REFUSE);
    sheaf__buf_byte(&h->transcript, proved);
    sheaf__buf_byte(&h->transcript, retry);
    sheaf__buf_fixed32(&h->transcript, (uint32_t)h->error.status);
    if (proved)
        sheaf__buf_bytes(&h->transcript, &h->error, sizeof(h->error));
    end(h, REFUSE, at, proved);
    h->error = why;
    fail(h);
}

void sheaf__handshake_refuse(struct sheaf__handshake *h, bool retry, const sheaf_error *why)
{
    h->error = *why;
    send_refusal(h, true, retry);
}

sheaf_status sheaf__handshake_ready(struct sheaf__handshake *h, const struct sheaf__offer *answer)
{
    size_t at = begin(h, READY);
    put_offer(&h->transcript, answer);
    h->offer = *answer;
    h->state = SHEAF__HANDSHAKE_DONE;
    return end(h, READY, at, true);
}

/* ---- reading messages ---- */

static sheaf_status malformed(struct sheaf__handshake *h)
{
    sheaf__error(&h->error, SHEAF_ERR_UNAUTHENTICATED,
                 "what it sent is not a message of this library");
    return fail(h);
}

static sheaf_status unproved(struct sheaf__handshake *h)
{
    sheaf__error(&h->error, SHEAF_ERR_UNAUTHENTICATED,
                 "it could not prove that it knows this cluster's secret");
    return fail(h);
}

/* The last message of the transcript ends with the right MAC over everything before. */
static bool mac_is_right(struct sheaf__handshake *h, enum type type)
{
    uint8_t mac[MAC];
    size_t size = h->transcript.size - MAC;
    return compute_mac(h, type, size, mac, NULL) == SHEAF_OK &&
           sheaf__digest_equal(mac, h->transcript.data + size, MAC);
}

/* Run and tables are ours. */
static sheaf_status compare(struct sheaf__handshake *h)
{
    const struct sheaf__identity *a = h->self, *b = &h->peer;
    if (strcmp(a->run_id, b->run_id) != 0) {
        h->retry = true;
        return sheaf__error(&h->error, SHEAF_ERR_INCOMPATIBLE,
                            SHEAF__TASK " belongs to run \"%s\", " SHEAF__TASK " to run \"%s\"",
                            b->task.job, b->task.index, b->run_id, a->task.job, a->task.index,
                            a->run_id);
    }
    for (size_t i = 0; i < a->table_count; i++)
        for (size_t j = 0; j < b->table_count; j++)
            if (strcmp(a->tables[i].name, b->tables[j].name) == 0 &&
                memcmp(a->tables[i].digest, b->tables[j].digest, SHEAF__SHA256_SIZE) != 0)
                return sheaf__error(
                    &h->error, SHEAF_ERR_INCOMPATIBLE,
                    "table \"%s\" of " SHEAF__TASK " differs from that of " SHEAF__TASK
                    "; all tasks must run the same program",
                    a->tables[i].name, b->task.job, b->task.index, a->task.job, a->task.index);
    return SHEAF_OK;
}

static bool same_task(const sheaf_task *a, const sheaf_task *b)
{
    return a->index == b->index && strncmp(a->job, b->job, sizeof(a->job)) == 0;
}

static sheaf_status on_hello(struct sheaf__handshake *h, struct sheaf__cursor *c)
{
    uint32_t version;
    if (!sheaf__cursor_fixed32(c, &version))
        return malformed(h);
    if (version != SHEAF__NET_VERSION) {
        sheaf__error(&h->error, SHEAF_ERR_INCOMPATIBLE,
                     "it speaks version %" PRIu32 " of the protocol, this task version %d", version,
                     SHEAF__NET_VERSION);
        send_refusal(h, false, false);
        return h->error.status;
    }
    if (!sheaf__cursor_skip(c, NONCE) || !get_task(c, &h->peer.task) ||
        !sheaf__cursor_fixed64(c, &h->peer.incarnation) ||
        !get_text(c, h->peer.run_id, sizeof(h->peer.run_id)) || sheaf__cursor_left(c) != 0)
        return malformed(h);
    return send_challenge(h) < 0 ? h->error.status : SHEAF_PENDING;
}

static sheaf_status on_challenge(struct sheaf__handshake *h, struct sheaf__cursor *c)
{
    if (sheaf__cursor_left(c) != NONCE)
        return malformed(h);
    return send_proof(h) < 0 ? h->error.status : SHEAF_PENDING;
}

static sheaf_status on_proof(struct sheaf__handshake *h, struct sheaf__cursor *c)
{
    sheaf_task wanted;
    if (!mac_is_right(h, PROOF)) {
        unproved(h);
        send_refusal(h, false, false);
        return h->error.status;
    }
    if (!get_task(c, &wanted) || !get_tables(c, &h->peer) ||
        !get_text(c, h->peer.address, sizeof(h->peer.address)) || sheaf__cursor_left(c) != MAC)
        return malformed(h);
    if (!same_task(&wanted, &h->self->task))
        sheaf__error(&h->error, SHEAF_ERR_INCOMPATIBLE,
                     SHEAF__TASK " answers where " SHEAF__TASK " was expected", h->self->task.job,
                     h->self->task.index, wanted.job, wanted.index);
    else
        compare(h);
    if (h->error.status < 0) {
        send_refusal(h, true, h->retry);
        return h->error.status;
    }
    h->state = SHEAF__HANDSHAKE_PROVED;
    return SHEAF_OK;
}

static sheaf_status on_welcome(struct sheaf__handshake *h, struct sheaf__cursor *c)
{
    if (!mac_is_right(h, WELCOME))
        return unproved(h);
    if (!get_task(c, &h->peer.task) || !sheaf__cursor_fixed64(c, &h->peer.incarnation) ||
        !get_text(c, h->peer.run_id, sizeof(h->peer.run_id)) || !get_tables(c, &h->peer) ||
        !get_offer(c, &h->offer) || sheaf__cursor_left(c) != MAC)
        return malformed(h);
    if (!same_task(&h->peer.task, &h->wanted)) {
        sheaf__error(&h->error, SHEAF_ERR_INCOMPATIBLE,
                     SHEAF__TASK " answers where " SHEAF__TASK " was expected", h->peer.task.job,
                     h->peer.task.index, h->wanted.job, h->wanted.index);
        return fail(h);
    }
    if (compare(h) < 0)
        return fail(h);
    h->state = SHEAF__HANDSHAKE_WELCOMED;
    return SHEAF_OK;
}

static sheaf_status on_refuse(struct sheaf__handshake *h, struct sheaf__cursor *c)
{
    uint8_t proved, retry;
    uint32_t status;
    const uint8_t *error;
    if (!sheaf__cursor_byte(c, &proved) || !sheaf__cursor_byte(c, &retry) ||
        !sheaf__cursor_fixed32(c, &status))
        return malformed(h);
    if (!proved) {
        if ((int32_t)status == SHEAF_ERR_INCOMPATIBLE)
            sheaf__error(&h->error, SHEAF_ERR_INCOMPATIBLE,
                         "it speaks another version of the protocol than %d", SHEAF__NET_VERSION);
        else
            sheaf__error(&h->error, SHEAF_ERR_UNAUTHENTICATED,
                         "it refused this task's proof: the secrets differ");
        return fail(h);
    }
    if (h->state != SHEAF__HANDSHAKE_WELCOME || !mac_is_right(h, REFUSE) ||
        !sheaf__cursor_bytes(c, sizeof(h->error), &error) || sheaf__cursor_left(c) != MAC)
        return unproved(h);
    if (!sheaf__error_unpack(&h->error, error, sizeof(h->error)))
        return malformed(h);
    h->retry = retry != 0;
    return fail(h);
}

static sheaf_status on_ready(struct sheaf__handshake *h, struct sheaf__cursor *c)
{
    struct sheaf__offer answer = {0};
    if (!mac_is_right(h, READY))
        return unproved(h);
    if (!get_offer(c, &answer) || sheaf__cursor_left(c) != MAC)
        return malformed(h);
    /* The dialer takes what was offered, or the connection itself. */
    if (answer.lane != SHEAF__LANE_SAME && answer.lane != h->offer.lane)
        return malformed(h);
    h->offer = answer;
    h->state = SHEAF__HANDSHAKE_DONE;
    return SHEAF_OK;
}

/* The message that may come in a state. */
static enum type expected(const struct sheaf__handshake *h)
{
    switch (h->state) {
    case SHEAF__HANDSHAKE_HELLO:
        return HELLO;
    case SHEAF__HANDSHAKE_CHALLENGE:
        return CHALLENGE;
    case SHEAF__HANDSHAKE_PROOF:
        return PROOF;
    case SHEAF__HANDSHAKE_WELCOME:
        return WELCOME;
    case SHEAF__HANDSHAKE_READY:
        return READY;
    case SHEAF__HANDSHAKE_PROVED:
    case SHEAF__HANDSHAKE_WELCOMED:
    case SHEAF__HANDSHAKE_DONE:
    case SHEAF__HANDSHAKE_FAILED:
        break;
    }
    return TYPES;
}

/* Type and size of the body of the message whose head is in; TYPES if it is none that may come now.
 */
static enum type head_type(const struct sheaf__handshake *h, uint32_t *size)
{
    const uint8_t *p = h->in.data;
    enum type want = expected(h);
    bool may_refuse = want == CHALLENGE || want == WELCOME;
    *size = sheaf__load32(p + HEAD - 4);
    if (memcmp(p, magic, sizeof(magic)) != 0 || p[6] != 0 || p[7] != 0)
        return TYPES;
    if (p[5] != want && !(may_refuse && p[5] == REFUSE))
        return TYPES;
    enum type type = (enum type)p[5];
    bool has_mac = type == PROOF || type == WELCOME || type == READY;
    if (*size > limits[type] || (has_mac && *size < MAC))
        return TYPES;
    return type;
}

/* Bytes that must be in before something can be done. */
static size_t goal(const struct sheaf__handshake *h)
{
    if (expected(h) == TYPES)
        return 0;
    return h->in.size < HEAD ? HEAD : HEAD + sheaf__load32(h->in.data + HEAD - 4);
}

uint8_t *sheaf__handshake_room(struct sheaf__handshake *h, size_t *size)
{
    size_t want = goal(h);
    if (want <= h->in.size)
        return NULL;
    *size = want - h->in.size;
    if (!sheaf__buf_reserve(&h->in, *size)) {
        sheaf__no_memory(&h->error, "a handshake");
        fail(h);
        return NULL;
    }
    return h->in.data + h->in.size;
}

static sheaf_status take(struct sheaf__handshake *h, enum type type)
{
    uint32_t size = (uint32_t)(h->in.size - HEAD);
    struct sheaf__cursor c;
    sheaf__buf_bytes(&h->transcript, h->in.data, h->in.size);
    if (sheaf__buf_check(&h->transcript, "a handshake", &h->error) < 0)
        return fail(h);
    sheaf__buf_clear(&h->in);
    c = sheaf__cursor_of(h->transcript.data + h->transcript.size - size, size);
    switch (type) {
    case HELLO:
        return on_hello(h, &c);
    case CHALLENGE:
        return on_challenge(h, &c);
    case PROOF:
        return on_proof(h, &c);
    case WELCOME:
        return on_welcome(h, &c);
    case REFUSE:
        return on_refuse(h, &c);
    case READY:
        return on_ready(h, &c);
    case TYPES:
        break;
    }
    return malformed(h);
}

sheaf_status sheaf__handshake_took(struct sheaf__handshake *h, size_t size)
{
    uint32_t body;
    h->in.size += size;
    if (h->in.size < HEAD)
        return SHEAF_PENDING;
    enum type type = head_type(h, &body);
    if (type == TYPES)
        return malformed(h);
    return h->in.size < HEAD + body ? SHEAF_PENDING : take(h, type);
}

sheaf_status sheaf__handshake_init(struct sheaf__handshake *h, const struct sheaf__identity *self,
                                   const struct sheaf__secret *secret, const sheaf_task *wanted,
                                   sheaf_error *err)
{
    memset(h, 0, sizeof(*h));
    h->self = self;
    h->secret = secret;
    h->state = SHEAF__HANDSHAKE_HELLO;
    if (!wanted)
        return SHEAF_OK;
    h->wanted = *wanted;
    if (send_hello(h) < 0)
        return sheaf__error_copy(err, &h->error);
    return SHEAF_OK;
}

void sheaf__handshake_clear(struct sheaf__handshake *h)
{
    sheaf__buf_free(&h->transcript);
    sheaf__buf_free(&h->in);
    sheaf__buf_free(&h->out);
}
