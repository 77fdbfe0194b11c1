/* SPDX-License-Identifier: Apache-2.0 */

/* Splitting a dataset over the replicas of a strategy (R1.1–R1.5, R3.25–R3.42). */

#include "distribute/dist_dataset.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/rewrite.h"
#include "data/stage.h"
#include "tensor/called.h"
#include "tensor/frame.h"
#include "tensor/print.h"

static void destroy(void *object)
{
    sheaf_dist_dataset *d = object;
    for (int i = 0; i < d->dataset_count; i++)
        sheaf_dataset_free(d->datasets[i]);
    sheaf__free(d->datasets);
    sheaf__free(d->why);
    sheaf_dataset_free(d->source);
    sheaf__progress_free(&d->progress);
    sheaf_element_spec_free(d->spec);
    sheaf_strategy_free(d->strategy);
    sheaf__free(d);
}

static const struct sheaf__class dist_dataset_class = {"dist_dataset", destroy};

/* Stands for one there was no memory for. Its count never reaches 0. */
static sheaf_dist_dataset *no_memory(void)
{
    static sheaf_dist_dataset d = {
        .object = {.refs = 1, .cls = &dist_dataset_class},
        .cardinality = SHEAF_UNKNOWN,
        .latched = {.status = SHEAF_ERR_RESOURCE_EXHAUSTED,
                    .origin = {.index = -1},
                    .peer = {.index = -1},
                    .offset = SHEAF__UNKNOWN,
                    .record = SHEAF__UNKNOWN,
                    .message = "not enough memory for a distributed dataset"},
        .progress.trackable = {&sheaf__progress_trackable_class, &d},
    };
    d.strategy = sheaf__strategy_default();
    return sheaf__ref(&d);
}

/* One for `count` datasets, all still NULL. Without memory every use of it reports that. */
static sheaf_dist_dataset *allocate(sheaf_strategy *s, int count)
{
    sheaf_dist_dataset *d = sheaf__calloc(1, sizeof(*d));
    if (!d)
        return no_memory();
    sheaf__object_init(&d->object, &dist_dataset_class);
    d->strategy = s == sheaf__strategy_default() ? s : sheaf__ref(s);
    d->datasets = sheaf__calloc((size_t)count, sizeof(*d->datasets));
    d->cardinality = SHEAF_UNKNOWN;
    d->certain.steps = SHEAF_UNKNOWN;
    d->progress.trackable = (sheaf_trackable){&sheaf__progress_trackable_class, d};
    if (d->datasets)
        d->dataset_count = count;
    else
        sheaf__no_memory(&d->latched, "a distributed dataset");
    return d;
}

/* Whether iterators hand empty parts to replicas without data (R3.1). */
static bool decide_fills(const sheaf_strategy *s, int64_t cardinality,
                         const sheaf_element_spec *original)
{
    if (!s->partial_batches || cardinality == SHEAF_INFINITE)
        return false;
    return s->workers > 1 || !sheaf__spec_is_static(original);
}

/* Any step of a multi-worker job may bring empty parts (R1.45). */
static void loosen_spec(sheaf_dist_dataset *d)
{
    if (!d->spec || !d->fills || d->strategy->workers == 1)
        return;
    sheaf_element_spec *any = sheaf__spec_any_batch(d->spec);
    sheaf_element_spec_free(d->spec);
    d->spec = any;
}

static sheaf_status check_input_options(const sheaf_strategy *s, const sheaf_input_options *o,
                                        bool from_function, sheaf_error *err)
{
    if (!o)
        return SHEAF_OK;
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(*o->reserved); i++)
        if (o->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "input options: reserved field %zu is set, expected 0", i);
    if (o->per_replica_buffer_size < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "input options: per_replica_buffer_size is %d, expected 0 or more",
                            o->per_replica_buffer_size);
    if (o->per_replica && (!from_function || s->cls != &sheaf__strategy_mirrored_class))
        return sheaf__error(
            err, SHEAF_ERR_UNIMPLEMENTED,
            "input options: per_replica with %s under %s; it works for datasets from a "
            "function under MirroredStrategy",
            from_function ? "a dataset function" : "a dataset", s->cls->name);
    if (from_function && o->place_dataset_on_device && (!o->per_replica || !o->no_fetch_to_device))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "input options: place_dataset_on_device needs per_replica and "
                            "no_fetch_to_device");
    return SHEAF_OK;
}

/* Size of the first axis of the first tensor, 1 of a scalar: what counts as examples. */
static int64_t rows_of(const sheaf_element_spec *spec)
{
    if (!spec || sheaf_element_spec_size(spec) == 0)
        return SHEAF_UNKNOWN_DIM;
    const sheaf_shape shape = sheaf_element_spec_at(spec, 0).shape;
    return shape.rank == 0 ? 1 : shape.rank > 0 ? shape.dims[0] : SHEAF_UNKNOWN_DIM;
}

/* How many steps this worker has, if that is certain and no part of any is empty or short: `each`
 * elements of `data` make a step, and their rows divide into `parts`. */
static int64_t count_steps(const sheaf_dataset *data, int64_t each, int64_t parts)
{
    const int64_t rows = rows_of(sheaf_dataset_element_spec(data));
    const int64_t n = sheaf_dataset_cardinality(data);
    if (rows < 1 || rows % parts != 0 || !sheaf__dataset_is_certain(data))
        return SHEAF_UNKNOWN;
    return n < 0 ? n : n % each == 0 ? n / each : SHEAF_UNKNOWN;
}

/* Names of files in a line of the log. */
enum { NAMES_IN_LOG = 4 };

/* Of the files of each pipeline; sheaf__free(). NULL: there are none, or no memory. */
static char *files_of(const sheaf_dist_dataset *d, int64_t most)
{
    struct sheaf__str out = {0};
    for (int i = 0; i < d->dataset_count; i++) {
        char *files = sheaf__autoshard_files(d->datasets[i], most);
        if (files && d->dataset_count > 1)
            sheaf__str_printf(&out, "; pipeline %d", i);
        sheaf__str_add(&out, files ? files : "");
        sheaf__free(files);
    }
    return sheaf__str_take(&out);
}

static void tell_of_split(const sheaf_dist_dataset *d)
{
    const sheaf_strategy *s = d->strategy;
    if (!sheaf__log_wants(SHEAF_LOG_INFO))
        return;
    char *files = files_of(d, NAMES_IN_LOG);
    sheaf__log(SHEAF_LOG_INFO, "input: worker %d of %d: %s%s", s->pipeline, s->pipelines, d->why,
               files ? files : "");
    sheaf__free(files);
}

static sheaf_status keep_why(sheaf_dist_dataset *d, const char *why, sheaf_error *err)
{
    d->why = sheaf__strdup(why);
    return d->why ? SHEAF_OK : sheaf__no_memory(err, "a distributed dataset");
}

/* Which policy was applied, and why. Workers of parameter servers do not share their data (R2.33). */
static sheaf_status keep_policy(sheaf_dist_dataset *d, const char *why, sheaf_error *err)
{
    static const char all[] = "ParameterServerStrategy: every worker reads the whole dataset; its "
                              "sharding policy is ignored";
    if (d->strategy->cls != &sheaf__strategy_ps_class)
        return keep_why(d, why, err);
    sheaf__log_once(SHEAF_LOG_INFO, "ps-input", "%s", all);
    return keep_why(d, all, err);
}

/* Steps that the program asks to be made ahead, 0 if it does not. */
static int ahead(const sheaf_input_options *o)
{
    return o ? o->per_replica_buffer_size : 0;
}

/* A dataset of which only that is changed that the program asks for (R3.20, S143); its count is used up. */
static sheaf_dataset *as_it_is(sheaf_dataset *data, int replicas, const sheaf_input_options *o)
{
    return ahead(o) ? sheaf_dataset_prefetch(data, (int64_t)replicas * ahead(o)) : data;
}

/* The part of `data` that this worker iterates. */
static sheaf_status split(sheaf_dist_dataset *d, sheaf_dataset *data,
                          const sheaf_input_options *options, sheaf_error *err)
{
    const sheaf_strategy *s = d->strategy;
    if (!data)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the dataset to distribute is NULL");
    d->cardinality = sheaf_dataset_cardinality(data);
    d->fills = decide_fills(s, d->cardinality, sheaf_dataset_element_spec(data));
    if (!s->rebatches && s->workers == 1) {
        d->spec = sheaf_element_spec_keep(sheaf_dataset_element_spec(data));
        d->datasets[0] = as_it_is(sheaf_dataset_ref(data), s->local, options);
        return keep_policy(d, "not sharded: one worker reads the whole dataset", err);
    }
    struct sheaf__split where = {.workers = s->workers,
                                 .worker = s->worker_id,
                                 .replicas = s->local,
                                 .ahead = ahead(options),
                                 .agreed = true};
    struct sheaf__split_dataset made;
    SHEAF__TRY(sheaf__split_make(data, &where, &made, err));
    sheaf_status status = keep_policy(d, made.why, err);
    if (made.policy == SHEAF_AUTOSHARD_DATA)
        d->certain.steps = count_steps(data, 1, s->total);
    d->datasets[0] = sheaf_dataset_ref(made.dataset);
    d->spec = sheaf_element_spec_keep(made.spec);
    sheaf__split_free(&made);
    loosen_spec(d);
    if (status >= 0 && s->cls != &sheaf__strategy_ps_class)
        tell_of_split(d);
    return status;
}

sheaf_dist_dataset *sheaf_distribute_dataset(sheaf_strategy *s, sheaf_dataset *data,
                                             const sheaf_input_options *options)
{
    s = sheaf__strategy_or_current(s);
    sheaf_dist_dataset *d = allocate(s, 1);
    if (d->latched.status >= 0 && check_input_options(s, options, false, &d->latched) >= 0)
        split(d, data, options, &d->latched);
    if (d->latched.status >= 0) {
        d->source = sheaf_dataset_ref(data);
        sheaf__progress_start(d, &d->latched);
    }
    sheaf_dataset_free(data);
    return d;
}

/* Calls the function for pipeline `i` of `count`, on the worker's CPU (S138). */
static void call_dataset_fn(sheaf_dist_dataset *d, int i, sheaf_dataset_fn fn, void *user)
{
    const sheaf_strategy *s = d->strategy;
    const bool per_replica = d->dataset_count > 1;
    const sheaf_input_context context = {
        .num_input_pipelines = per_replica ? d->dataset_count : s->pipelines,
        .input_pipeline_id = per_replica ? i : s->pipeline,
        .num_replicas_in_sync = s->total,
    };
    SHEAF_FRAME
    SHEAF_DEVICE("CPU:0")
    {
        sheaf__error_listen();
        d->datasets[i] = fn(&context, user);
        if (!d->datasets[i] &&
            sheaf__called_mute(&d->latched, "the dataset function of pipeline %d",
                               context.input_pipeline_id) >= 0 &&
            sheaf_frame_status(&d->latched) >= 0)
            sheaf__error(&d->latched, SHEAF_ERR_INVALID_ARGUMENT,
                         "the dataset function returned NULL for pipeline %d",
                         context.input_pipeline_id);
    }
}

sheaf_dist_dataset *sheaf_distribute_datasets_from_function(sheaf_strategy *s, sheaf_dataset_fn fn,
                                                            void *user,
                                                            const sheaf_input_options *options)
{
    s = sheaf__strategy_or_current(s);
    sheaf_dist_dataset *d = allocate(s, options && options->per_replica ? s->local : 1);
    if (d->latched.status < 0 || check_input_options(s, options, true, &d->latched) < 0)
        return d;
    if (!fn)
        sheaf__error(&d->latched, SHEAF_ERR_INVALID_ARGUMENT, "the dataset function is NULL");
    for (int i = 0; i < d->dataset_count && d->latched.status >= 0; i++)
        call_dataset_fn(d, i, fn, user);
    if (d->latched.status < 0)
        return d;
    for (int i = 0; i < d->dataset_count; i++)
        d->datasets[i] = as_it_is(d->datasets[i], s->local / d->dataset_count, options);
    if (s->pipelines > 1 && s->pipeline == 0)
        sheaf__split_check_shards(d->datasets[0]);
    const sheaf_element_spec *spec = sheaf_dataset_element_spec(d->datasets[d->dataset_count - 1]);
    d->cardinality = sheaf_dataset_cardinality(d->datasets[0]);
    d->fills = decide_fills(s, d->cardinality, sheaf_dataset_element_spec(d->datasets[0]));
    d->certain.steps = count_steps(d->datasets[0], s->local, 1);
    d->spec = sheaf_element_spec_keep(spec);
    loosen_spec(d);
    if (keep_why(d, "not sharded: the dataset function makes each pipeline's part", &d->latched) <
        0)
        return d;
    if (s->pipelines > 1)
        tell_of_split(d);
    sheaf__progress_start(d, &d->latched);
    return d;
}

sheaf_dataset *sheaf_make_numpy_dataset(sheaf_strategy *s, sheaf_element *e)
{
    sheaf_error err;
    sheaf__log_once(SHEAF_LOG_WARN, "numpy-dataset",
                    "sheaf_make_numpy_dataset is deprecated; use sheaf_dataset_from_slices");
    s = sheaf__strategy_or_current(s);
    if (sheaf__strategy_check_cross(s, "a dataset of arrays", &err) < 0)
        return sheaf__dataset_failed(NULL, SHEAF__STAGE_FROM_SLICES, &err);
    return sheaf_dataset_from_slices(e);
}

const sheaf_element_spec *sheaf_dist_dataset_element_spec(const sheaf_dist_dataset *d)
{
    return d ? d->spec : NULL;
}

/* One tensor's spec, a copy for each local replica (R1.44). */
static void make_leaf(size_t i, void *user, struct sheaf__node *node)
{
    const sheaf_dist_dataset *d = user;
    const sheaf_tensor_spec spec = sheaf_element_spec_at(d->spec, i);
    const bool bare = d->strategy->local == 1 && d->strategy->workers == 1;
    struct sheaf__str out = {0};
    sheaf__str_add(&out, bare ? "" : "PerReplicaSpec(");
    for (int r = 0; r < (bare ? 1 : d->strategy->local); r++) {
        sheaf__str_add(&out, r ? ", " : "");
        sheaf__print_tensor_spec(&out, &spec);
    }
    sheaf__str_add(&out, bare ? "" : ")");
    node->kind = 'x';
    node->text = sheaf__frame_str(&out);
}

const char *sheaf_dist_dataset_element_spec_str(const sheaf_dist_dataset *d)
{
    if (!d || !d->spec)
        return "None";
    struct sheaf__str out = {0};
    const struct sheaf__structure structure = sheaf__structure_of_spec(d->spec);
    sheaf__print_structure(&out, &structure, SHEAF__STR, make_leaf, (void *)(uintptr_t)d);
    return sheaf__frame_str(&out);
}

const char *sheaf__dist_str(const char *kind, const sheaf_dist_dataset *d)
{
    struct sheaf__str out = {0};
    if (!d)
        return "None";
    sheaf__str_printf(&out, "<%s element_spec=%s>", kind, sheaf_dist_dataset_element_spec_str(d));
    return sheaf__frame_str(&out);
}

const char *sheaf_dist_dataset_str(const sheaf_dist_dataset *d)
{
    return sheaf__dist_str("DistributedDataset", d);
}

const char *sheaf_dist_dataset_sharding(const sheaf_dist_dataset *d)
{
    struct sheaf__str out = {0};
    if (!d || !d->why)
        return "None";
    char *files = files_of(d, INT64_MAX);
    sheaf__str_printf(&out, "%s%s", d->why, files ? files : "");
    sheaf__free(files);
    return sheaf__frame_str(&out);
}

int64_t sheaf_dist_dataset_cardinality(const sheaf_dist_dataset *d)
{
    return d ? d->cardinality : SHEAF_UNKNOWN;
}

void sheaf_dist_dataset_free(sheaf_dist_dataset *d)
{
    sheaf__unref(d);
}

/* What functions of the program are told. */

sheaf_status sheaf_per_replica_batch_size(const sheaf_input_context *context, int64_t global,
                                          int64_t *size, sheaf_error *err)
{
    const int replicas = context ? context->num_replicas_in_sync : 0;
    if (replicas < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "input context: %d replicas in sync, expected 1 or more", replicas);
    if (global < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "global batch size is %lld, expected 1 or more", (long long)global);
    if (global % replicas != 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "global batch size %lld is not divisible by the %d replicas in sync",
                            (long long)global, replicas);
    *size = global / replicas;
    return SHEAF_OK;
}

const char *sheaf_input_context_str(const sheaf_input_context *context)
{
    struct sheaf__str out = {0};
    if (!context)
        return "None";
    sheaf__str_printf(&out, "tf.distribute.InputContext(input pipeline id %d, total: %d)",
                      context->input_pipeline_id, context->num_input_pipelines);
    return sheaf__frame_str(&out);
}

const char *sheaf_value_context_str(const sheaf_value_context *context)
{
    struct sheaf__str out = {0};
    if (!context)
        return "None";
    sheaf__str_printf(&out,
                      "tf.distribute.ValueContext(replica id %d,  total replicas in sync: %d)",
                      context->replica_id_in_sync_group, context->num_replicas_in_sync);
    return sheaf__frame_str(&out);
}
