/* SPDX-License-Identifier: Apache-2.0 */

/* Making strategies by name, and looking at them. */

#include "distribute/strategy.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/context.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "ps/partition.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct sheaf__strategy_class *const classes[] = {
    &sheaf__strategy_default_class,     &sheaf__strategy_one_class, &sheaf__strategy_mirrored_class,
    &sheaf__strategy_multiworker_class, &sheaf__strategy_ps_class,
};
/* How long the chief waits for the other workers' last step unless told otherwise; lost ones are
 * not waited for. */
enum { JOIN_SECONDS = 3600 };
enum { CLASSES = sizeof(classes) / sizeof(*classes) };

/* Whether `name` is the class's, or one of its aliases; "experimental." before it is D10's older
 * form. */
static bool is_named(const struct sheaf__strategy_class *cls, const char *name)
{
    static const char older[] = "experimental.";
    if (strncmp(name, older, sizeof(older) - 1) == 0)
        name += sizeof(older) - 1;
    if (strcasecmp(name, cls->name) == 0)
        return true;
    size_t length = strlen(name);
    for (const char *a = cls->aliases; *a;) {
        size_t n = strcspn(a, " ");
        if (n == length && strncasecmp(a, name, n) == 0)
            return true;
        a += n + (a[n] == ' ');
    }
    return false;
}

/* When the program names nothing: what the configuration says, else what the cluster asks for. */
static const char *natural_name(const sheaf_cluster *c)
{
    const char *configured = sheaf__config_text(SHEAF__CONFIG_STRATEGY);
    if (*configured)
        return configured;
    if (c && sheaf_cluster_tasks(c, "ps") > 0)
        return "ps";
    if (c && sheaf_cluster_workers(c) > 1)
        return "multiworker";
    return sheaf_devices_count() > 1 ? "mirrored" : "one";
}

static sheaf_status find_class(const char *name, const struct sheaf__strategy_class **cls,
                               sheaf_error *err)
{
    for (int i = 0; i < CLASSES; i++)
        if (is_named(classes[i], name)) {
            *cls = classes[i];
            return SHEAF_OK;
        }
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "no strategy '%s'; there are default, one, mirrored, multiworker and ps",
                        name);
}

static sheaf_status check_options(const sheaf_strategy_options *o, sheaf_error *err)
{
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(*o->reserved); i++)
        if (o->reserved[i] != 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "strategy options: reserved field %zu is %llu, expected 0", i,
                                (unsigned long long)o->reserved[i]);
    SHEAF__TRY(sheaf__clock_check(o->deadline, "strategy options", err));
    return sheaf__partitioner_check(&o->variable_partitioner, err);
}

static void strategy_destroy(void *object)
{
    sheaf_strategy *s = object;
    sheaf__replicas_free(s->replicas);
    sheaf__sync_close(s->sync);
    sheaf__unref(s->made);
    if (s->cls->stop)
        s->cls->stop(s);
    sheaf__halt_free(s->halt);
    for (int i = 0; i < s->local && s->devices; i++)
        sheaf__free(s->devices[i]);
    for (char **p = s->parameter_devices; p && *p; p++)
        sheaf__free(*p);
    sheaf__free(s->devices);
    sheaf__free(s->device_index);
    sheaf__free(s->parameter_devices);
    sheaf_cluster_free(s->cluster);
    sheaf__free(s);
}

static const struct sheaf__class strategy_object = {"strategy", strategy_destroy};

static sheaf_strategy *allocate(const struct sheaf__strategy_class *cls)
{
    sheaf_strategy *s = sheaf__calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    sheaf__object_init(&s->object, &strategy_object);
    s->cls = cls;
    s->context = sheaf__context();
    s->workers = s->pipelines = 1;
    s->is_chief = true;
    return s;
}

sheaf_status sheaf_strategy_new(const char *name, sheaf_cluster *cluster,
                                const sheaf_strategy_options *options, sheaf_strategy **strategy,
                                sheaf_error *err)
{
    static const sheaf_strategy_options defaults = {0};
    const struct sheaf__strategy_class *cls = NULL;
    const sheaf_strategy_options *o = options ? options : &defaults;
    SHEAF__TRY(sheaf__context_check(err));
    SHEAF__TRY(check_options(o, err));
    if (!strategy)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the place for the strategy is NULL");
    if (cluster)
        cluster = sheaf_cluster_ref(cluster);
    else
        SHEAF__TRY(sheaf_cluster_resolve(NULL, &cluster, err));
    sheaf_status status = find_class(name ? name : natural_name(cluster), &cls, err);
    sheaf_strategy *s = status < 0 ? NULL : allocate(cls);
    if (!s) {
        sheaf_cluster_free(cluster);
        return status < 0 ? status : sheaf__no_memory(err, "a strategy");
    }
    s->cluster = cluster;
    s->reproducible = o->reproducible;
    const double deadline =
        o->deadline > 0 ? o->deadline : sheaf__config_seconds(SHEAF__CONFIG_DEADLINE_S);
    s->deadline_ns = (int64_t)(deadline * 1e9);
    status = cls->start(s, o, err);
    if (status < 0) {
        sheaf_strategy_free(s);
        return status;
    }
    *strategy = s;
    return SHEAF_OK;
}

void sheaf_strategy_free(sheaf_strategy *s)
{
    if (s && s != sheaf__strategy_default())
        sheaf__unref(s);
}

sheaf_status sheaf_strategy_join(sheaf_strategy *s, double deadline, sheaf_error *err)
{
    s = sheaf__strategy_or_current(s);
    SHEAF__TRY(sheaf__clock_check(deadline, "sheaf_strategy_join", err));
    if (!s->cls->join)
        return SHEAF_OK;
    return s->cls->join(s, sheaf__clock_deadline(deadline > 0 ? deadline : JOIN_SECONDS), err);
}

void sheaf__strategy_failed(sheaf_strategy *s)
{
    if (s != sheaf__strategy_default()) /* which all threads share */
        s->well = false;
}

/* Looking at it. */

sheaf_strategy *sheaf__strategy_or_current(const sheaf_strategy *s)
{
    return s ? (sheaf_strategy *)(uintptr_t)s : sheaf_strategy_current();
}

const char *sheaf_strategy_name(const sheaf_strategy *s)
{
    return sheaf__strategy_or_current(s)->cls->name;
}

int sheaf_strategy_num_replicas(const sheaf_strategy *s)
{
    return sheaf__strategy_or_current(s)->total;
}

int sheaf_strategy_local_replicas(const sheaf_strategy *s)
{
    return sheaf__strategy_or_current(s)->local;
}

int sheaf_strategy_first_replica(const sheaf_strategy *s)
{
    return sheaf__strategy_or_current(s)->first;
}

const char *sheaf_strategy_worker_device(const sheaf_strategy *s, int i)
{
    s = sheaf__strategy_or_current(s);
    return s->devices && i >= 0 && i < s->local ? s->devices[i] : NULL;
}

const char *sheaf_strategy_parameter_device(const sheaf_strategy *s, int i)
{
    s = sheaf__strategy_or_current(s);
    if (!s->parameter_devices)
        return sheaf_strategy_worker_device(s, i);
    for (int k = 0; s->parameter_devices[k]; k++)
        if (k == i)
            return s->parameter_devices[k];
    return NULL;
}

sheaf_cluster *sheaf_strategy_cluster(const sheaf_strategy *s)
{
    return sheaf__strategy_or_current(s)->cluster;
}

bool sheaf_strategy_should_checkpoint(const sheaf_strategy *s)
{
    s = sheaf__strategy_or_current(s);
    return s->cls->saves ? s->cls->saves(s) : s->is_chief;
}

sheaf_status sheaf_reduce_op_named(const char *name, sheaf_reduce_op *op, sheaf_error *err)
{
    if (name && strcasecmp(name, "sum") == 0)
        *op = SHEAF_REDUCE_SUM;
    else if (name && strcasecmp(name, "mean") == 0)
        *op = SHEAF_REDUCE_MEAN;
    else
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "no reduce op '%s'; there are sum and mean", name ? name : "(null)");
    return SHEAF_OK;
}

/* The default strategy. */

static sheaf_status default_start(sheaf_strategy *s, const sheaf_strategy_options *o,
                                  sheaf_error *err)
{
    (void)o;
    (void)err;
    s->local = s->total = 1;
    return SHEAF_OK;
}

const struct sheaf__strategy_class sheaf__strategy_default_class = {
    .name = "_DefaultDistributionStrategy",
    .aliases = "default",
    .start = default_start,
};

static sheaf_strategy the_default;
static void make_default(void)
{
    sheaf__object_init(&the_default.object, &strategy_object);
    the_default.cls = &sheaf__strategy_default_class;
    the_default.workers = the_default.pipelines = 1;
    the_default.local = the_default.total = 1;
    the_default.is_chief = true;
}

sheaf_strategy *sheaf__strategy_default(void)
{
    static struct sheaf__once once;
    sheaf__once(&once, make_default);
    return &the_default;
}
