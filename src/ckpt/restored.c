/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/restored.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/tensor.h"

#include <string.h>

#define MOST_NAMED 10 /* as many as TensorFlow names */
#define ATTRIBUTES "/.ATTRIBUTES/"

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "restoring a checkpoint");
}

/* ---- opening ---- */

static sheaf_status read_graph(struct sheaf__restored *r, sheaf_error *err)
{
    const struct sheaf__bundle_item *item = sheaf__bundle_find(r->bundle, SHEAF__OBJECT_GRAPH_KEY);
    if (!item)
        return SHEAF_OK;
    sheaf_error fault = {0};
    sheaf_tensor *t = sheaf__bundle_read_slice(r->bundle, item, NULL, &fault);
    if (!t)
        return sheaf__error_copy(err, &fault);
    sheaf_bytes text = sheaf_tensor_bytes(t, 0);
    sheaf_status status = sheaf__object_graph_read(&r->graph, text.data, text.size, &fault);
    sheaf__unref(t);
    if (status >= 0 && !r->graph.count)
        status = sheaf__error(&fault, SHEAF_ERR_DATA_LOSS, "the object graph has no object");
    return status < 0 ? sheaf__bundle_fault(r->bundle, item, err, status, "%s", fault.message)
                      : SHEAF_OK;
}

static sheaf_status fill(struct sheaf__restored *r, sheaf_error *err)
{
    SHEAF__TRY(sheaf__restored_reopen(r, err));
    SHEAF__TRY(read_graph(r, err));
    r->fates = sheaf__calloc(r->graph.count + 1, sizeof(*r->fates));
    if (!r->fates)
        return no_memory(err);
    for (size_t i = 0; i < r->graph.count; i++)
        r->left += r->graph.nodes[i].attribute_count > 0;
    return SHEAF_OK;
}

sheaf_status sheaf__restored_open(const char *path, struct sheaf__restored **restored,
                                  sheaf_error *err)
{
    struct sheaf__restored *r = sheaf__calloc(1, sizeof(*r));
    sheaf_status status = SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (r)
        r->path = sheaf__strdup(path);
    if (!r || !r->path)
        no_memory(err);
    else
        status = fill(r, err);
    if (status < 0)
        sheaf__restored_free(r);
    else
        *restored = r;
    return status;
}

sheaf_status sheaf__restored_reopen(struct sheaf__restored *r, sheaf_error *err)
{
    if (!r->bundle)
        SHEAF__TRY(sheaf_bundle_open(r->path, &r->bundle, err));
    return r->bundle->sidecar_fault.status < 0 ? sheaf__error_copy(err, &r->bundle->sidecar_fault)
                                               : SHEAF_OK;
}

void sheaf__restored_rest(struct sheaf__restored *r)
{
    if (r->graph.count && !r->left) {
        sheaf_bundle_free(r->bundle);
        r->bundle = NULL;
    } else if (r->bundle) {
        sheaf__bundle_close_files(r->bundle);
    }
}

/* ---- taking ---- */

bool sheaf__restored_take(struct sheaf__restored *r, sheaf_trackable *t, int32_t node,
                          const char *key)
{
    void *number = (void *)(uintptr_t)(node < 0 ? 1 : node + 2);
    if (!sheaf__strmap_set_bytes(&r->takers, &t, sizeof(t), number, NULL))
        return false;
    if (node < 0)
        return true;
    if (!r->graph.count)
        return sheaf__strmap_set(&r->keys, key, r, NULL);
    if (r->fates[node] != SHEAF__RESTORED_TAKEN && r->graph.nodes[node].attribute_count)
        r->left--;
    r->fates[node] = SHEAF__RESTORED_TAKEN;
    return true;
}

bool sheaf__restored_has_taken(const struct sheaf__restored *r, const sheaf_trackable *t)
{
    return sheaf__strmap_get_bytes(&r->takers, &t, sizeof(t)) != NULL;
}

int32_t sheaf__restored_node(const struct sheaf__restored *r, const sheaf_trackable *t)
{
    const void *number = sheaf__strmap_get_bytes(&r->takers, &t, sizeof(t));
    return number ? (int32_t)(uintptr_t)number - 2 : -1;
}

/* ---- what is missing on either side ---- */

/* Names, of which the first ones are told. */
struct names {
    struct sheaf__str text;
    size_t count;
};

static void add_name(struct names *n, const char *name, size_t size)
{
    if (n->count++ < MOST_NAMED)
        sheaf__str_printf(&n->text, "%s'%.*s'", n->count > 1 ? ", " : "", (int)size, name);
}

static const char *names_text(struct names *n)
{
    if (n->count > MOST_NAMED)
        sheaf__str_printf(&n->text, " and %zu more", n->count - MOST_NAMED);
    return sheaf__str_text(&n->text);
}

/* The path of an object is its key without the attribute. */
static void add_key(struct names *n, const char *key)
{
    const char *end = strstr(key, ATTRIBUTES);
    add_name(n, key, end ? (size_t)(end - key) : strlen(key));
}

static void add_left(const struct sheaf__restored *r, bool told_too, struct names *n)
{
    for (size_t i = 0; i < r->graph.count; i++) {
        const struct sheaf__graph_node *node = &r->graph.nodes[i];
        const bool left = r->fates[i] == SHEAF__RESTORED_LEFT ||
                          (told_too && r->fates[i] == SHEAF__RESTORED_TOLD);
        if (left && node->attribute_count)
            add_key(n, node->attributes[0].key);
    }
    sheaf_bundle_entry e;
    for (size_t i = 0; !r->graph.count && sheaf_bundle_get(r->bundle, i, &e) == SHEAF_OK; i++) {
        if (!sheaf__strmap_has(&r->keys, e.key))
            add_name(n, e.key, strlen(e.key));
    }
}

sheaf_status sheaf__restored_check_objects(const struct sheaf__restored *r,
                                           const struct sheaf__ckpt_objects *objects,
                                           sheaf_error *err)
{
    struct names n = {0};
    const sheaf_trackable *last = NULL;
    for (size_t i = 0; i < objects->tensor_count; i++) {
        const struct sheaf__ckpt_tensor *t = &objects->tensors[i];
        const char *path = objects->nodes[t->node].path;
        if (t->owner != last && !sheaf__restored_has_taken(r, t->owner))
            add_name(&n, path, strlen(path));
        last = t->owner;
    }
    const struct sheaf__place place = {r->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    sheaf_status status = SHEAF_OK;
    if (n.count)
        status = sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, &place,
                                 "the checkpoint has no value for objects of the program: %s",
                                 names_text(&n));
    sheaf__str_free(&n.text);
    return status;
}

/* Objects beside TensorFlow's have no node. */
static void add_left_blobs(const struct sheaf__restored *r,
                           const struct sheaf__ckpt_objects *objects, struct names *n)
{
    const struct sheaf__sidecar *s = &r->bundle->sidecar;
    for (size_t i = 0; i < s->blob_count; i++) {
        size_t k = 0;
        while (k < objects->blob_count && strcmp(objects->blobs[k].path, s->blobs[i].name) != 0)
            k++;
        if (k == objects->blob_count)
            add_name(n, s->blobs[i].name, strlen(s->blobs[i].name));
    }
}

sheaf_status sheaf__restored_check_file(struct sheaf__restored *r,
                                        const struct sheaf__ckpt_objects *objects, sheaf_error *err)
{
    struct names n = {0};
    SHEAF__TRY(sheaf__restored_reopen(r, err));
    add_left(r, true, &n);
    add_left_blobs(r, objects, &n);
    const struct sheaf__place place = {r->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    sheaf_status status = SHEAF_OK;
    if (n.count)
        status = sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, &place,
                                 "the program has nothing that took objects of the checkpoint: %s",
                                 names_text(&n));
    sheaf__str_free(&n.text);
    sheaf__restored_rest(r);
    return status;
}

/* ---- the end ---- */

static void warn_of_left(const struct sheaf__restored *r)
{
    struct names n = {0};
    if (r->partial || !r->speaks || !r->bundle)
        return;
    add_left(r, false, &n);
    if (n.count)
        sheaf__log(SHEAF_LOG_WARN,
                   "checkpoint %s: the program has nothing that took its objects %s "
                   "(sheaf_checkpoint_expect_partial() says that this is meant)",
                   r->path, names_text(&n));
    sheaf__str_free(&n.text);
}

void sheaf__restored_free(struct sheaf__restored *r)
{
    if (!r)
        return;
    warn_of_left(r);
    sheaf_bundle_free(r->bundle);
    sheaf__object_graph_free(&r->graph);
    sheaf__strmap_clear(&r->keys, NULL);
    sheaf__strmap_clear(&r->takers, NULL);
    sheaf__pointers_clear(&r->watches);
    sheaf__free(r->fates);
    sheaf__free(r->path);
    sheaf__free(r);
}
