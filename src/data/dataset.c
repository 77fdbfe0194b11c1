/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/rewrite.h"
#include "data/stage.h"

/* Nodes of the stage tree. */

#define STAGE_OPS(id, file, name, traits) extern const struct sheaf__stage_ops sheaf__##file##_ops;
SHEAF__STAGE_TABLE(STAGE_OPS)
#undef STAGE_OPS

static const struct sheaf__stage stages[] = {
#define STAGE_LINE(id, file, name, traits) \
    [SHEAF__STAGE_##id] = {name, (traits), &sheaf__##file##_ops},
    SHEAF__STAGE_TABLE(STAGE_LINE)
#undef STAGE_LINE
};

const struct sheaf__stage *sheaf__stage(enum sheaf__stage_id id)
{
    return &stages[id];
}

/* ---- parameters ---- */

/* One class a stage, so that the count knows what to free. */
static void params_destroy(void *object, enum sheaf__stage_id id)
{
    if (stages[id].ops->params_free)
        stages[id].ops->params_free(object);
    sheaf__free(object);
}

#define PARAMS_DESTROY(id, file, name, traits)     \
    static void params_destroy_##id(void *object)  \
    {                                              \
        params_destroy(object, SHEAF__STAGE_##id); \
    }
SHEAF__STAGE_TABLE(PARAMS_DESTROY)
#undef PARAMS_DESTROY

static const struct sheaf__class params_classes[] = {
#define PARAMS_CLASS(id, file, name, traits) [SHEAF__STAGE_##id] = {name, params_destroy_##id},
    SHEAF__STAGE_TABLE(PARAMS_CLASS)
#undef PARAMS_CLASS
};

void *sheaf__params_new(size_t size, enum sheaf__stage_id id)
{
    struct sheaf__params *params = sheaf__calloc(1, size);
    if (params)
        sheaf__object_init(&params->object, &params_classes[id]);
    return params;
}

/* ---- nodes ---- */

static void dataset_destroy(void *object);
static const struct sheaf__class dataset_class = {"dataset", dataset_destroy};

static void release(sheaf_dataset *d)
{
    for (size_t i = 0; i < d->input_count; i++)
        sheaf_dataset_free(d->inputs[i]);
    sheaf__free(d->inputs);
    sheaf__unref(d->params);
    sheaf_element_spec_free(d->spec);
    if (d->stage->ops->state_stop)
        d->stage->ops->state_stop(d->state);
    sheaf__free(d->state);
    sheaf__file_maps_clear(&d->maps);
}

static void dataset_destroy(void *object)
{
    release(object);
    sheaf__free(object);
}

/* Stands for a dataset there was no memory for. Its count never reaches 0. */
static sheaf_dataset *no_memory(void)
{
    static sheaf_dataset d = {
        .object = {.refs = 1, .cls = &dataset_class},
        .stage = &stages[SHEAF__STAGE_RANGE],
        .error = {.status = SHEAF_ERR_RESOURCE_EXHAUSTED,
                  .origin = {.index = -1},
                  .peer = {.index = -1},
                  .offset = SHEAF__UNKNOWN,
                  .record = SHEAF__UNKNOWN,
                  .message = "not enough memory for a dataset"},
    };
    return sheaf__ref(&d);
}

static sheaf_dataset *give_up(void *params, sheaf_dataset *const *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sheaf_dataset_free(inputs[i]);
    sheaf__unref(params);
    return no_memory();
}

const char *sheaf__dataset_name(const sheaf_dataset *d, char text[64])
{
    struct sheaf__str str = {0};
    if (d->number > 0)
        sheaf__str_printf(&str, "stage %u (%s)", d->number, d->stage->name);
    else
        sheaf__str_printf(&str, "%s of the distribution", d->stage->name);
    sheaf__str_copy(text, 64, sheaf__str_text(&str));
    sheaf__str_free(&str);
    return text;
}

/* Its stage is named once, whatever the error passes later. */
static void name_error(const sheaf_dataset *d, sheaf_error *err)
{
    char name[64];
    sheaf__error_prefix(err, "%s", sheaf__dataset_name(d, name));
    err->reserved = 1;
}

/* Takes over what inputs have in common; their first error. */
static void inherit(sheaf_dataset *d)
{
    d->cardinality = SHEAF_UNKNOWN;
    for (size_t i = 0; i < d->input_count; i++) {
        const sheaf_dataset *in = d->inputs[i];
        if (!in) {
            sheaf__error(&d->error, SHEAF_ERR_INVALID_ARGUMENT, "input %zu is NULL", i);
            name_error(d, &d->error);
            return;
        }
        sheaf__error_keep_first(&d->error, &in->error);
        sheaf__options_merge(&d->options, &in->options);
        d->calls = d->calls || in->calls;
        if (d->number > 0 && in->number >= d->number)
            d->number = in->number + 1;
    }
    if (d->input_count == 1) {
        d->cardinality = d->inputs[0]->cardinality;
        d->spec = sheaf_element_spec_keep(d->inputs[0]->spec);
    }
}

static void describe(sheaf_dataset *d)
{
    const struct sheaf__stage_ops *ops = d->stage->ops;
    sheaf_error err = {0};
    if (d->error.status < 0)
        return;
    if (ops->describe && ops->describe(d, &err) < 0) {
        name_error(d, &err);
        d->error = err;
    }
    if (d->error.status >= 0 && ops->state_start)
        ops->state_start(d);
    if (d->error.status < 0) {
        sheaf_element_spec_free(d->spec);
        d->spec = NULL;
    }
}

static sheaf_dataset *node_new(enum sheaf__stage_id id, void *params, sheaf_dataset *const *inputs,
                               size_t count)
{
    const struct sheaf__stage_ops *ops = stages[id].ops;
    sheaf_dataset *d = params ? sheaf__calloc(1, sizeof(*d)) : NULL;
    sheaf_dataset **own = d ? sheaf__alloc_array(count, sizeof(*own)) : NULL;
    void *state = own ? sheaf__calloc(1, ops->state_size) : NULL;
    if (!state) {
        sheaf__free(own);
        sheaf__free(d);
        return give_up(params, inputs, count);
    }
    sheaf__object_init(&d->object, &dataset_class);
    d->stage = &stages[id];
    d->params = params;
    d->inputs = own;
    d->input_count = count;
    d->number = stages[id].traits & SHEAF__ADDED ? 0 : 1;
    d->state = state;
    d->context = sheaf__context();
    for (size_t i = 0; i < count; i++)
        own[i] = inputs[i];
    inherit(d);
    return d;
}

sheaf_dataset *sheaf__dataset_new(enum sheaf__stage_id id, void *params,
                                  sheaf_dataset *const *inputs, size_t input_count)
{
    sheaf_dataset *d = node_new(id, params, inputs, input_count);
    if (d->params)
        describe(d);
    return d;
}

sheaf_dataset *sheaf__dataset_failed(sheaf_dataset *input, enum sheaf__stage_id id,
                                     const sheaf_error *err)
{
    /* Not the stage's own struct: nothing may look inside. */
    static const struct sheaf__class cls = {"no parameters", sheaf__free};
    struct sheaf__params *params = sheaf__calloc(1, sizeof(*params));
    if (params)
        sheaf__object_init(&params->object, &cls);
    sheaf_dataset *d = node_new(id, params, &input, input ? 1 : 0);
    if (d->params && d->error.status >= 0) {
        char name[64];
        d->error = *err;
        sheaf__error_prefix(&d->error, "%s", sheaf__dataset_name(d, name));
        d->error.reserved = 1;
        sheaf_element_spec_free(d->spec);
        d->spec = NULL;
    }
    return d;
}

sheaf_dataset *sheaf__dataset_over(const sheaf_dataset *d, sheaf_dataset *const *inputs)
{
    enum sheaf__stage_id id = (enum sheaf__stage_id)(d->stage - stages);
    sheaf_dataset *copy = node_new(id, sheaf__ref(d->params), inputs, d->input_count);
    if (copy->params) {
        copy->number = d->number;
        copy->context = d->context;
        sheaf__error_keep_first(&copy->error, &d->error);
        describe(copy);
    }
    return copy;
}

size_t sheaf__dataset_opens(const sheaf_dataset *d)
{
    return d->stage->ops->opens ? d->stage->ops->opens(d) : d->input_count;
}

sheaf_dataset *sheaf_dataset_ref(sheaf_dataset *d)
{
    return sheaf__ref(d);
}

void sheaf_dataset_free(sheaf_dataset *d)
{
    sheaf__unref(d);
}

int64_t sheaf_dataset_cardinality(const sheaf_dataset *d)
{
    return !d || d->error.status < 0 ? SHEAF_UNKNOWN : d->cardinality;
}

bool sheaf__dataset_is_certain(const sheaf_dataset *d)
{
    bool certain = d->error.status >= 0 && d->cardinality != SHEAF_UNKNOWN &&
                   (d->stage->traits & SHEAF__CERTAIN);
    for (size_t i = 0; i < d->input_count && certain; i++)
        certain = sheaf__dataset_is_certain(d->inputs[i]);
    return certain;
}

const sheaf_element_spec *sheaf_dataset_element_spec(const sheaf_dataset *d)
{
    return d ? d->spec : NULL;
}

/* ---- text ---- */

static void add_line(const sheaf_dataset *d, struct sheaf__str *text)
{
    sheaf__str_add(text, d->stage->name);
    if (d->stage->ops->explain && d->error.status >= 0)
        d->stage->ops->explain(d, text);
}

char *sheaf__dataset_line(const sheaf_dataset *d)
{
    struct sheaf__str text = {0};
    add_line(d, &text);
    return sheaf__str_take(&text);
}

/* Without the stages of these traits. */
static void explain(const sheaf_dataset *d, unsigned without, unsigned depth,
                    struct sheaf__str *text)
{
    for (size_t i = 0; i < d->input_count && d->inputs[i]; i++)
        explain(d->inputs[i], without, depth + (i > 0), text);
    if (d->stage->traits & without)
        return;
    for (unsigned i = 0; i < depth; i++)
        sheaf__str_add(text, "  ");
    add_line(d, text);
    sheaf__str_add(text, "\n");
}

char *sheaf__dataset_explain(const sheaf_dataset *d)
{
    struct sheaf__str text = {0};
    explain(d, 0, 0, &text);
    return sheaf__str_take(&text);
}

char *sheaf__dataset_order(const sheaf_dataset *d)
{
    struct sheaf__str text = {0};
    explain(d, SHEAF__TRAILING, 0, &text);
    return sheaf__str_take(&text);
}
