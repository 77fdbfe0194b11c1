/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "format/object_graph.h"

#include <jansson.h>

/* Objects made from the graphs of TensorFlow's checkpoints: what we save of them is TensorFlow's file
 * byte for byte (formats.md 5.1, 5.2), and what we restore from them are the values. */

static const char *const prefixes[] = {
    "checkpoint/object/simple-1",      "checkpoint/object/written",
    "checkpoint/object/nocounter",     "checkpoint/object/nested-1",
    "checkpoint/object/root-1",        "checkpoint/manager/ckpt-3",
    "checkpoint/mirrored/batchnorm-1", "checkpoint/mirrored/onread-1",
    "checkpoint/keras3/adam-1",        "checkpoint/keras3/adagrad-1",
    "checkpoint/keras3/adamw-1",       "checkpoint/keras3/adam-amsgrad-1",
    "checkpoint/keras3/ftrl-1",        "checkpoint/keras3/functional-1",
    "checkpoint/keras3/model-1",       "checkpoint/keras3/plain-1",
    "checkpoint/keras3/rmsprop-1",     "checkpoint/keras3/sgd-1",
    "checkpoint/keras3/subclass-1",    "checkpoint/tf_keras/adam-1",
    "checkpoint/tf_keras/adam-new-1",  "checkpoint/tf_keras/weights",
    "checkpoint/tf_keras/plain",       "checkpoint/tf_keras/subclass-1",
    "checkpoint/tf_keras/sgd-1",       "checkpoint/tf_keras/adagrad-1",
    "checkpoint/tf_keras/rmsprop-1",   "checkpoint/tf_keras/ftrl-1",
    "checkpoint/shards/default",       "checkpoint/shards/task",
    "checkpoint/ps/sharded-1",         "checkpoint/ps/watched",
};

static const char *const devices[] = {
    FAKE_DEVICE("ps", "0"), FAKE_DEVICE("ps", "1"), NULL, /* the process itself */
};

/* The objects of one checkpoint. */
struct model {
    sheaf_bundle *bundle;
    struct sheaf__object_graph graph;
    struct fake *nodes[256];
    struct fake_group *group;
};

/* Adds a tensor, with a value of its own or zeros; of a sliced one, all slices. */
static void add_attribute(struct model *m, struct fake *f, const struct sheaf__graph_attribute *a,
                          bool values)
{
    sheaf_error err = {0};
    const struct sheaf__bundle_item *item = sheaf__bundle_find(m->bundle, a->key);
    assert_non_null(item);
    for (int32_t i = 0; i < (item->slices ? item->slices : 1); i++) {
        struct sheaf__slice slice = sheaf__slice_all(item->shape);
        if (item->slices)
            assert_true(
                sheaf__slice_from(item->shape, item->extents + i * item->shape.rank, &slice));
        sheaf_tensor *t =
            values
                ? sheaf__tensor_give(sheaf__bundle_read_slice(m->bundle, item, &slice, &err), &err)
                : sheaf_tensor_new((sheaf_dtype)item->dtype, slice.shape, NULL);
        struct sheaf__saveable *s = fake_add(f, t);
        s->attribute = a->name;
        s->full_name = a->full_name;
        s->full = item->shape;
        memcpy(s->offset, slice.offset, sizeof(s->offset));
        int32_t shard = item->slices ? i : item->shard;
        if (sheaf_bundle_shards(m->bundle) == 3) {
            s->device = devices[shard];
            s->group = &m->group->group;
        }
    }
}

static void make_model(struct model *m, const char *prefix, bool values)
{
    sheaf_error err = {0};
    sheaf_tensor *t = NULL;
    memset(m, 0, sizeof(*m));
    m->group = fake_group_new(NULL);
    rig_ok(sheaf_bundle_open(rig_golden(prefix), &m->bundle, &err), &err);
    rig_ok(sheaf_bundle_read(m->bundle, SHEAF__OBJECT_GRAPH_KEY, &t, &err), &err);
    sheaf_bytes text = sheaf_tensor_bytes(t, 0);
    rig_ok(sheaf__object_graph_read(&m->graph, text.data, text.size, &err), &err);
    assert_true(m->graph.count <= 256);
    for (size_t i = 0; i < m->graph.count; i++)
        m->nodes[i] = fake_new();
    for (size_t i = 0; i < m->graph.count; i++) {
        const struct sheaf__graph_node *n = &m->graph.nodes[i];
        for (size_t k = 0; k < n->child_count; k++)
            fake_add_child(m->nodes[i], n->children[k].name, m->nodes[n->children[k].node]);
        for (size_t k = 0; k < n->slot_count; k++)
            m->nodes[i]->slots[m->nodes[i]->slot_count++] = (struct sheaf__slot_ref){
                n->slots[k].name, &m->nodes[n->slots[k].variable]->trackable,
                &m->nodes[n->slots[k].value]->trackable};
        for (size_t k = 0; k < n->attribute_count; k++)
            add_attribute(m, m->nodes[i], &n->attributes[k], values);
    }
}

static void free_model(struct model *m)
{
    for (size_t i = 0; i < m->graph.count; i++)
        fake_free(m->nodes[i]);
    sheaf__object_graph_free(&m->graph);
    sheaf_bundle_free(m->bundle);
    fake_group_free(m->group);
}

static void compare_files(const char *ours, const char *golden)
{
    char *x = NULL, *y = NULL;
    size_t x_size = 0, y_size = 0;
    sheaf_error err;
    rig_ok(sheaf__file_read_all(ours, 1 << 30, &x, &x_size, &err), &err);
    rig_ok(sheaf__file_read_all(golden, 1 << 30, &y, &y_size, &err), &err);
    if (x_size != y_size || memcmp(x, y, x_size) != 0)
        fail_msg("%s differs", golden);
    sheaf__free(x);
    sheaf__free(y);
}

static void saves_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        SHEAF_FRAME
        {
            struct model m;
            sheaf_error err;
            bool skipped;
            make_model(&m, prefixes[i], true);
            struct sheaf__ckpt_save save = {
                .root = &m.nodes[0]->trackable, .path = rig_path("x"), .writes = true};
            rig_ok(sheaf__ckpt_save(&save, &skipped, &err), &err);
            int shards = sheaf_bundle_shards(m.bundle);
            for (int k = 0; k <= shards; k++) {
                char tail[40], golden[256], ours[60];
                snprintf(tail, sizeof(tail), ".data-%05d-of-%05d", k, shards);
                if (k == shards)
                    snprintf(tail, sizeof(tail), ".index");
                snprintf(golden, sizeof(golden), "%s%s", prefixes[i], tail);
                snprintf(ours, sizeof(ours), "x%s", tail);
                compare_files(rig_path(ours), rig_golden(golden));
            }
            free_model(&m);
            rig_ok(sheaf__bundle_delete(rig_path("x"), &err), &err);
        }
    }
}

static void restores_the_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        SHEAF_FRAME
        {
            struct model expected, m;
            sheaf_error err;
            make_model(&expected, prefixes[i], true);
            make_model(&m, prefixes[i], false);
            rig_ok(fake_restore(&m.nodes[0]->trackable, rig_golden(prefixes[i]), &err), &err);
            for (size_t k = 0; k < m.graph.count; k++) {
                for (size_t n = 0; n < m.nodes[k]->count; n++)
                    assert_true(fake_equal(m.nodes[k]->values[n], expected.nodes[k]->values[n]));
            }
            free_model(&m);
            free_model(&expected);
        }
    }
}

/* Entry by entry but for `lost` (may be NULL), which is in `ours` alone: key, dtype, shape, slices, place and checksum. */
static void compare_indexes(const char *ours, const char *golden, const char *lost)
{
    sheaf_bundle *x = NULL, *y = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(ours, &x, &err), &err);
    rig_ok(sheaf_bundle_open(golden, &y, &err), &err);
    size_t at = 0;
    for (size_t i = 0; i < x->index.count; i++) {
        const struct sheaf__bundle_item *a = &x->index.items[i], *b = &y->index.items[at];
        if (lost && !strcmp(a->key, lost))
            continue;
        assert_true(at++ < y->index.count);
        assert_int_equal(a->key_size, b->key_size);
        assert_memory_equal(a->key, b->key, a->key_size);
        assert_int_equal(a->dtype, b->dtype);
        assert_true(sheaf_shape_equal(a->shape, b->shape));
        assert_int_equal(a->shard, b->shard);
        assert_int_equal(a->offset, b->offset);
        assert_int_equal(a->size, b->size);
        assert_int_equal(a->crc, b->crc);
        assert_int_equal(a->slices, b->slices);
        for (int32_t k = 0; k < a->slices * a->shape.rank; k++) {
            assert_int_equal(a->extents[k].start, b->extents[k].start);
            assert_int_equal(a->extents[k].length, b->extents[k].length);
        }
    }
    assert_int_equal(at, y->index.count);
    assert_int_equal(at + (lost != NULL), x->index.count);
    sheaf_bundle_free(x);
    sheaf_bundle_free(y);
}

/* S215: what TensorFlow's MaxShardSizePolicy wrote, shard by shard and byte by byte; the empty tensor that it loses, `e`,
 * is in ours. */
static void s215_max_size_writes_the_same_shards(void **state)
{
    (void)state;
    static const struct {
        const char *from, *golden, *lost;
        int64_t limit;
    } cases[] = {
        {"checkpoint/shards/default", "checkpoint/shards/max-100", "e/.ATTRIBUTES/VARIABLE_VALUE",
         100},
        {"checkpoint/shards/default", "checkpoint/shards/max-200", "e/.ATTRIBUTES/VARIABLE_VALUE",
         200},
        {"checkpoint/shards/default", "checkpoint/shards/max-1000", "e/.ATTRIBUTES/VARIABLE_VALUE",
         1000},
        {"checkpoint/shards/default", "checkpoint/shards/max-1048576",
         "e/.ATTRIBUTES/VARIABLE_VALUE", 1048576},
        {"checkpoint/ps/watched", "checkpoint/ps/max-64", NULL, 64},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SHEAF_FRAME
        {
            struct model m;
            sheaf_error err;
            bool skipped;
            sheaf_bundle *b = NULL;
            char file[96], ours[40];
            make_model(&m, cases[i].from, true);
            const sheaf_sharding_callback policy = sheaf_shard_max_size(cases[i].limit);
            const sheaf_checkpoint_options options = {.sharding = &policy};
            struct sheaf__ckpt_save save = {.root = &m.nodes[0]->trackable,
                                            .path = rig_path("x"),
                                            .options = &options,
                                            .writes = true};
            rig_ok(sheaf__ckpt_save(&save, &skipped, &err), &err);
            compare_indexes(rig_path("x"), rig_golden(cases[i].golden), cases[i].lost);
            rig_ok(sheaf_bundle_open(rig_golden(cases[i].golden), &b, &err), &err);
            const int shards = sheaf_bundle_shards(b);
            for (int k = 0; k < shards; k++) {
                snprintf(file, sizeof(file), "%s.data-%05d-of-%05d", cases[i].golden, k, shards);
                snprintf(ours, sizeof(ours), "x.data-%05d-of-%05d", k, shards);
                compare_files(rig_path(ours), rig_golden(file));
            }
            sheaf_bundle_free(b);
            free_model(&m);
            rig_ok(sheaf__bundle_delete(rig_path("x"), &err), &err);
        }
    }
}

/* Policies of TensorFlow's (MaxShardSizePolicy, one of one's own) cut and spread the same tensors:
 * whatever the cut, restoring gives the same values. In those files the empty tensor is lost. */
static void restores_any_cut(void **state)
{
    (void)state;
    static const char *const cuts[] = {"max-100", "max-200", "max-1000", "max-1048576", "robin"};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        SHEAF_FRAME
        {
            struct model expected;
            sheaf_error err;
            char prefix[64];
            size_t compared = 0;
            snprintf(prefix, sizeof(prefix), "checkpoint/shards/%s", cuts[i]);
            make_model(&expected, "checkpoint/shards/default", true);
            sheaf_bundle *b = NULL;
            rig_ok(sheaf_bundle_open(rig_golden(prefix), &b, &err), &err);
            for (size_t k = 0; k < expected.graph.count; k++) {
                const struct sheaf__graph_node *n = &expected.graph.nodes[k];
                if (!n->attribute_count || !sheaf__bundle_find(b, n->attributes[0].key))
                    continue;
                struct sheaf__saveable s = expected.nodes[k]->saveables[0];
                struct fake *f = fake_new();
                f->saveables[f->count] = s;
                f->values[f->count++] = sheaf_tensor_keep(sheaf_tensor_new(s.dtype, s.shape, NULL));
                struct fake *root = fake_new();
                fake_add_child(root, expected.graph.nodes[0].children[k - 1].name, f);
                rig_ok(fake_restore(&root->trackable, rig_golden(prefix), &err), &err);
                assert_true(fake_equal(f->values[0], expected.nodes[k]->values[0]));
                compared++;
                fake_free(f);
                fake_free(root);
            }
            assert_true(compared >= 5);
            sheaf_bundle_free(b);
            free_model(&expected);
        }
    }
}

/* A checkpoint of TF1's Saver has no objects: variables find their values by name. */
static void restores_by_name(void **state)
{
    (void)state;
    sheaf_bundle *b = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(rig_golden("checkpoint/saver/plain-7"), &b, &err), &err);
    sheaf_bundle_entry e;
    struct fake *root = fake_new(), *f = fake_new();
    rig_ok(sheaf_bundle_get(b, 0, &e), &err);
    sheaf_tensor *expected = NULL;
    rig_ok(sheaf_bundle_read(b, e.key, &expected, &err), &err);
    fake_add(f, sheaf_tensor_new(e.dtype, e.shape, NULL))->full_name = e.key;
    fake_add_child(root, "anything", f);
    rig_ok(fake_restore(&root->trackable, rig_golden("checkpoint/saver/plain-7"), &err), &err);
    assert_true(fake_equal(f->values[0], expected));
    f->saveables[0].full_name = "another";
    rig_fails(fake_restore(&root->trackable, rig_golden("checkpoint/saver/plain-7"), &err), &err,
              SHEAF_ERR_NOT_FOUND, "no value for object 'anything'");
    fake_free(f);
    fake_free(root);
    sheaf_bundle_free(b);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(saves_the_same_bytes),
        rig_test(restores_the_values),
        rig_test(s215_max_size_writes_the_same_shards),
        rig_test(restores_any_cut),
        rig_test(restores_by_name),
    };
    return rig_run(tests);
}
