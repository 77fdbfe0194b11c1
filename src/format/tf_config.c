/* SPDX-License-Identifier: Apache-2.0 */
#include "format/tf_config.h"

#include "base/error.h"
#include "base/mem.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is being parsed, for messages. */
struct parse {
    const char *source;
    sheaf_error *err;
};

static sheaf_status no_memory(const struct parse *p)
{
    return sheaf__no_memory(p->err, p->source);
}

/* A short text of what was found instead. The result is static or in `text`. */
static const char *found(const json_t *v, char *text, size_t size)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return json_object_size(v) ? "an object" : "an empty object";
    case JSON_ARRAY:
        return json_array_size(v) ? "a list" : "an empty list";
    case JSON_STRING:
        snprintf(text, size, "\"%.60s\"", json_string_value(v));
        return text;
    case JSON_INTEGER:
        snprintf(text, size, "%lld", (long long)json_integer_value(v));
        return text;
    case JSON_REAL:
        snprintf(text, size, "%g", json_real_value(v));
        return text;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "nothing";
}

static sheaf_status misfit(const struct parse *p, const char *key, const json_t *v,
                           const char *expected)
{
    char text[80];
    return sheaf__error(p->err, SHEAF_ERR_INVALID_ARGUMENT, "%s: %s is %s, expected %s", p->source,
                        key, found(v, text, sizeof(text)), expected);
}

/* The whole of `text` as a task's number. */
static bool parse_index(const char *text, int32_t *index)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (*end || errno || v > INT32_MAX)
        return false;
    *index = (int32_t)v;
    return true;
}

static sheaf_status copy_text(const struct parse *p, const json_t *v, const char *key, char **out)
{
    if (!v || json_is_null(v))
        return SHEAF_OK;
    if (!json_is_string(v))
        return misfit(p, key, v, "a string");
    *out = sheaf__strdup(json_string_value(v));
    return *out ? SHEAF_OK : no_memory(p);
}

static sheaf_status parse_address(const struct parse *p, const char *job, const char *place,
                                  const json_t *v, char **address)
{
    char key[160];
    snprintf(key, sizeof(key), "\"cluster\": \"%.60s\": task %.40s", job, place);
    if (!json_is_string(v) || json_string_length(v) == 0)
        return misfit(p, key, v, "an address \"host:port\"");
    *address = sheaf__strdup(json_string_value(v));
    return *address ? SHEAF_OK : no_memory(p);
}

static sheaf_status parse_list(const struct parse *p, struct sheaf__tf_config_job *job,
                               const json_t *list)
{
    size_t i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        char place[24];
        snprintf(place, sizeof(place), "%zu", i);
        job->tasks[i].index = (int32_t)i;
        SHEAF__TRY(parse_address(p, job->name, place, v, &job->tasks[i].address));
        job->task_count++;
    }
    return SHEAF_OK;
}

static int by_index(const void *a, const void *b)
{
    const struct sheaf__tf_config_task *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static sheaf_status parse_map(const struct parse *p, struct sheaf__tf_config_job *job, json_t *map)
{
    const char *key;
    json_t *v;
    json_object_foreach(map, key, v)
    {
        struct sheaf__tf_config_task *task = &job->tasks[job->task_count];
        if (!parse_index(key, &task->index))
            return sheaf__error(p->err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s: \"cluster\": \"%.60s\" has a task \"%.60s\", expected a whole "
                                "number from 0 on",
                                p->source, job->name, key);
        SHEAF__TRY(parse_address(p, job->name, key, v, &task->address));
        job->task_count++;
    }
    qsort(job->tasks, job->task_count, sizeof(*job->tasks), by_index);
    for (size_t i = 1; i < job->task_count; i++) {
        if (job->tasks[i].index == job->tasks[i - 1].index)
            return sheaf__error(p->err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s: \"cluster\": \"%.60s\" has task %d twice", p->source,
                                job->name, job->tasks[i].index);
    }
    return SHEAF_OK;
}

static sheaf_status parse_job(const struct parse *p, struct sheaf__tf_config_job *job,
                              const char *name, json_t *v)
{
    char key[96];
    snprintf(key, sizeof(key), "\"cluster\": \"%.60s\"", name);
    if (!json_is_array(v) && !json_is_object(v))
        return misfit(p, key, v, "a list of addresses or a map from task number to address");
    size_t count = json_is_array(v) ? json_array_size(v) : json_object_size(v);
    job->name = sheaf__strdup(name);
    job->tasks = sheaf__calloc(count ? count : 1, sizeof(*job->tasks));
    if (!job->name || !job->tasks)
        return no_memory(p);
    return json_is_array(v) ? parse_list(p, job, v) : parse_map(p, job, v);
}

static sheaf_status parse_cluster(const struct parse *p, struct sheaf__tf_config *c,
                                  const json_t *root)
{
    json_t *cluster = json_object_get(root, "cluster");
    if (!cluster) {
        const char *first = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)root));
        if (!first)
            return sheaf__error(p->err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s has no \"cluster\": it is an empty object", p->source);
        return sheaf__error(p->err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s has no \"cluster\", its first key is \"%.60s\"", p->source, first);
    }
    if (!json_is_object(cluster) || json_object_size(cluster) == 0)
        return misfit(p, "\"cluster\"", cluster, "an object of jobs and their addresses");
    c->jobs = sheaf__calloc(json_object_size(cluster), sizeof(*c->jobs));
    if (!c->jobs)
        return no_memory(p);
    const char *name;
    json_t *v;
    json_object_foreach(cluster, name, v)
    {
        if (!*name)
            return sheaf__error(p->err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s: \"cluster\" has a job without a name", p->source);
        SHEAF__TRY(parse_job(p, &c->jobs[c->job_count++], name, v));
    }
    return SHEAF_OK;
}

static sheaf_status parse_task(const struct parse *p, struct sheaf__tf_config *c,
                               const json_t *root)
{
    const json_t *task = json_object_get(root, "task");
    if (!task)
        return SHEAF_OK;
    if (!json_is_object(task))
        return misfit(p, "\"task\"", task, "an object with \"type\" and \"index\"");
    c->has_task = true;
    SHEAF__TRY(copy_text(p, json_object_get(task, "type"), "\"task\": \"type\"", &c->task_type));
    const json_t *index = json_object_get(task, "index");
    if (!index || json_is_null(index))
        return SHEAF_OK;
    bool fits = false;
    if (json_is_integer(index)) {
        json_int_t v = json_integer_value(index);
        fits = v >= 0 && v <= INT32_MAX;
        c->task_index = fits ? (int32_t)v : 0;
    } else if (json_is_real(index)) {
        const double v = json_real_value(index); /* 1.0 is a whole number, too */
        fits = v >= 0 && v <= INT32_MAX && v == floor(v);
        c->task_index = fits ? (int32_t)v : 0;
    } else if (json_is_string(index)) {
        fits = parse_index(json_string_value(index), &c->task_index);
    }
    if (!fits)
        return misfit(p, "\"task\": \"index\"", index, "a whole number from 0 on");
    c->has_task_index = true;
    return SHEAF_OK;
}

static sheaf_status parse_root(const struct parse *p, struct sheaf__tf_config *c,
                               const json_t *root)
{
    if (!json_is_object(root))
        return misfit(p, "the text", root, "a JSON object with \"cluster\" and \"task\"");
    SHEAF__TRY(parse_cluster(p, c, root));
    SHEAF__TRY(parse_task(p, c, root));
    SHEAF__TRY(copy_text(p, json_object_get(root, "rpc_layer"), "\"rpc_layer\"", &c->rpc_layer));
    SHEAF__TRY(copy_text(p, json_object_get(root, "session_master"), "\"session_master\"",
                         &c->session_master));
    return copy_text(p, json_object_get(root, "environment"), "\"environment\"", &c->environment);
}

sheaf_status sheaf__tf_config_parse(const char *json, size_t size, const char *source,
                                    struct sheaf__tf_config **config, sheaf_error *err)
{
    struct parse p = {source, err};
    size_t blank = 0;
    while (blank < size && strchr(" \t\r\n", json[blank]) && json[blank])
        blank++;
    if (blank == size)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s is empty, expected a JSON object with \"cluster\" and \"task\"",
                            source);
    json_error_t at;
    json_t *root = json_loadb(json, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (!root) {
        if (json_error_code(&at) == json_error_out_of_memory)
            return no_memory(&p);
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s is not JSON: line %d, column %d: %s", source, at.line, at.column,
                            at.text);
    }
    sheaf_status status = SHEAF_OK;
    struct sheaf__tf_config *c = sheaf__calloc(1, sizeof(*c));
    status = c ? parse_root(&p, c, root) : no_memory(&p);
    json_decref(root);
    if (status < 0) {
        sheaf__tf_config_free(c);
        return status;
    }
    *config = c;
    return SHEAF_OK;
}

void sheaf__tf_config_free(struct sheaf__tf_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->job_count; i++) {
        struct sheaf__tf_config_job *job = &c->jobs[i];
        for (size_t k = 0; job->tasks && k < job->task_count; k++)
            sheaf__free(job->tasks[k].address);
        sheaf__free(job->tasks);
        sheaf__free(job->name);
    }
    sheaf__free(c->jobs);
    sheaf__free(c->task_type);
    sheaf__free(c->rpc_layer);
    sheaf__free(c->session_master);
    sheaf__free(c->environment);
    sheaf__free(c);
}
