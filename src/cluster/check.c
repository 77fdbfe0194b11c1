/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "cluster/address.h"
#include "net/socket.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The jobs there are (R6.36), and how many tasks one may have. */
static const struct job_rule {
    const char *name;
    size_t most; /* 0: any number */
} JOB_RULES[] = {{"chief", 1}, {"worker", 0}, {"ps", 0}, {"evaluator", 1}};
#define JOB_NAMES "chief, worker, ps, evaluator"

static const struct job_rule *find_rule(const char *name)
{
    for (size_t i = 0; i < sizeof(JOB_RULES) / sizeof(JOB_RULES[0]); i++)
        if (strcmp(JOB_RULES[i].name, name) == 0)
            return &JOB_RULES[i];
    return NULL;
}

const struct sheaf__tf_config_job *sheaf__check_find_job(const struct sheaf__tf_config *config,
                                                         const char *name)
{
    for (size_t i = 0; config && i < config->job_count; i++)
        if (strcmp(config->jobs[i].name, name) == 0)
            return &config->jobs[i];
    return NULL;
}

const struct sheaf__tf_config_task *sheaf__check_find_task(const struct sheaf__tf_config_job *job,
                                                           int32_t index)
{
    for (size_t i = 0; job && i < job->task_count; i++)
        if (job->tasks[i].index == index)
            return &job->tasks[i];
    return NULL;
}

/* "chief, ps_hosts, worker_hosts" */
static const char *list_jobs(const struct sheaf__tf_config *config, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < config->job_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.40s", i ? ", " : "",
                                 config->jobs[i].name);
    return text;
}

static sheaf_status check_jobs(const struct sheaf__tf_config *config, const char *source,
                               sheaf_error *err)
{
    char found[120];
    for (size_t i = 0; i < config->job_count; i++) {
        const struct sheaf__tf_config_job *job = &config->jobs[i];
        const struct job_rule *rule = find_rule(job->name);
        if (!rule)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s: \"cluster\" has the unknown job \"%.40s\": found %s, expected "
                                "some of " JOB_NAMES,
                                source, job->name, list_jobs(config, found, sizeof(found)));
        if (rule->most && job->task_count > rule->most)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s: job \"%s\" has %zu tasks, expected at most %zu", source,
                                job->name, job->task_count, rule->most);
    }
    return SHEAF_OK;
}

/* ---- addresses ---- */

enum { PLACES = 8, LOOK_UP_S = 2 };

struct owner {
    const char *job;
    const struct sheaf__tf_config_task *task;
    struct sheaf__address address;
};

/* Who is where. Names are looked up only where ports are the same, for a short time only: a check
 * must not keep a job from starting because names are slow to find. */
struct map_of_places {
    const char *source;
    struct sheaf__strmap owners; /* an address as compared, or where it leads → its owner */
    uint8_t once[65536 / 8], again[65536 / 8]; /* sets of ports */
    int64_t look_up_until;
};

static sheaf_status parse(struct map_of_places *m, struct owner *o, sheaf_error *err)
{
    char whose[64];
    snprintf(whose, sizeof(whose), "%s: %s:%d", m->source, o->job, o->task->index);
    SHEAF__TRY(sheaf__address_parse(o->task->address, whose, &o->address, err));
    const int32_t port = o->address.port;
    const uint8_t bit = (uint8_t)(1U << (port % 8));
    m->again[port / 8] |= m->once[port / 8] & bit;
    m->once[port / 8] |= bit;
    return SHEAF_OK;
}

static bool is_shared(const struct map_of_places *m, int32_t port)
{
    return m->again[port / 8] & 1U << (port % 8);
}

static sheaf_status claim(struct map_of_places *m, const char *place, struct owner *o,
                          sheaf_error *err)
{
    const struct owner *other = sheaf__strmap_get(&m->owners, place);
    if (!other && !sheaf__strmap_set(&m->owners, place, o, NULL))
        return sheaf__no_memory(err, "the cluster");
    if (!other || other == o)
        return SHEAF_OK;
    if (strcasecmp(other->task->address, o->task->address) == 0)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT, "%s: address \"%s\" occurs twice: %s:%d and %s:%d",
            m->source, o->task->address, other->job, other->task->index, o->job, o->task->index);
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "%s: addresses \"%s\" of %s:%d and \"%s\" of %s:%d are the same, %s",
                        m->source, other->task->address, other->job, other->task->index,
                        o->task->address, o->job, o->task->index, place);
}

static sheaf_status check_address(struct map_of_places *m, struct owner *o, sheaf_error *err)
{
    struct sheaf__str key = {0};
    char places[PLACES][SHEAF__ADDRESS_TEXT];
    sheaf__address_key(&o->address, &key);
    sheaf_status status =
        key.failed ? sheaf__no_memory(err, "the cluster") : claim(m, key.text, o, err);
    sheaf__str_free(&key);
    if (status < 0 || !is_shared(m, o->address.port) || sheaf__clock_left(m->look_up_until) == 0)
        return status;
    const int count = sheaf__socket_resolve(o->task->address, places, PLACES);
    if (count < 0)
        m->look_up_until = 0;
    for (int i = 0; i < count && status >= 0; i++)
        status = claim(m, places[i], o, err);
    return status;
}

static sheaf_status check_addresses(const struct sheaf__tf_config *config, const char *source,
                                    sheaf_error *err)
{
    struct map_of_places m = {.source = source, .look_up_until = sheaf__clock_deadline(LOOK_UP_S)};
    size_t count = 0, made = 0;
    for (size_t i = 0; i < config->job_count; i++)
        count += config->jobs[i].task_count;
    struct owner *owners = sheaf__calloc(count + 1, sizeof(*owners));
    if (!owners)
        return sheaf__no_memory(err, "the cluster");
    for (size_t i = 0; i < config->job_count; i++)
        for (size_t k = 0; k < config->jobs[i].task_count; k++)
            owners[made++] =
                (struct owner){.job = config->jobs[i].name, .task = &config->jobs[i].tasks[k]};
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; status >= 0 && i < count; i++)
        status = parse(&m, &owners[i], err);
    for (size_t i = 0; status >= 0 && i < count; i++)
        status = check_address(&m, &owners[i], err);
    sheaf__strmap_clear(&m.owners, NULL);
    sheaf__free(owners);
    return status;
}

/* ---- this task ---- */

static sheaf_status check_index(const struct sheaf__tf_config *config,
                                const struct sheaf__tf_config_job *job, const char *source,
                                sheaf_error *err)
{
    if (sheaf__check_find_task(job, config->task_index))
        return SHEAF_OK;
    if (job->task_count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: \"task\" is %s:%d, but job \"%s\" has no tasks", source, job->name,
                            config->task_index, job->name);
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "%s: \"index\" of \"task\" is %d, but job \"%s\" has %zu task%s (%d to %d)",
                        source, config->task_index, job->name, job->task_count,
                        job->task_count == 1 ? "" : "s", job->tasks[0].index,
                        job->tasks[job->task_count - 1].index);
}

static sheaf_status check_task(const struct sheaf__tf_config *config, const char *source,
                               sheaf_error *err)
{
    char found[120];
    if (!config->task_type && !config->has_task)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: \"task\" is missing, expected {\"type\": …, \"index\": …}",
                            source);
    if (!config->task_type)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: \"type\" of \"task\" is missing, expected one of " JOB_NAMES,
                            source);
    if (!find_rule(config->task_type))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: \"type\" of \"task\" is \"%.40s\", expected one of " JOB_NAMES,
                            source, config->task_type);
    if (!config->has_task_index)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: \"index\" of \"task\" is missing, expected a number from 0 on",
                            source);
    const struct sheaf__tf_config_job *job = sheaf__check_find_job(config, config->task_type);
    if (job)
        return check_index(config, job, source, err);
    /* An evaluator talks to nobody: it may stand outside. */
    if (strcmp(config->task_type, "evaluator") == 0)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "%s: \"type\" of \"task\" is \"%s\", but \"cluster\" has no such job: "
                        "found %s",
                        source, config->task_type, list_jobs(config, found, sizeof(found)));
}

sheaf_status sheaf__check_cluster(const struct sheaf__tf_config *config, const char *source,
                                  sheaf_error *err)
{
    SHEAF__TRY(check_jobs(config, source, err));
    SHEAF__TRY(check_addresses(config, source, err));
    return check_task(config, source, err);
}
