/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/deal.h"

#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_JOBS = 8 };

struct share {
    char name[20];
    int64_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct share *)a)->name, ((const struct share *)b)->name);
}

static sheaf_status bad_jobs(const char *text, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "SHEAF_JOBS: found \"%.80s\", expected like \"ps=1,worker=4\"", text);
}

/* Reads "name=count" at `*at`; false if it is none. */
static bool read_share(const char **at, struct share *share)
{
    size_t name = strcspn(*at, "=, ");
    if (name == 0 || name >= sizeof(share->name) || (*at)[name] != '=')
        return false;
    memcpy(share->name, *at, name);
    share->name[name] = '\0';
    *at += name + 1;
    size_t digits = strspn(*at, "0123456789");
    char number[12];
    if (digits == 0 || digits >= sizeof(number))
        return false;
    memcpy(number, *at, digits);
    number[digits] = '\0';
    *at += digits;
    return sheaf__str_to_int(number, &share->count);
}

/* The shares of SHEAF_JOBS, sorted; `*count` 0 if it is empty. */
static sheaf_status read_shares(struct share *shares, size_t *count, sheaf_error *err)
{
    const char *text = sheaf__config_text(SHEAF__CONFIG_JOBS), *at = text;
    *count = 0;
    while (*at) {
        if (*count == MAX_JOBS || !read_share(&at, &shares[*count]))
            return bad_jobs(text, err);
        for (size_t i = 0; i < *count; i++)
            if (strcmp(shares[i].name, shares[*count].name) == 0)
                return bad_jobs(text, err);
        ++*count;
        if (*at && *at != ',' && *at != ' ')
            return bad_jobs(text, err);
        at += strspn(at, ", ");
    }
    qsort(shares, *count, sizeof(*shares), by_name);
    return SHEAF_OK;
}

static bool fill_job(struct sheaf__tf_config_job *job, const struct share *share,
                     char *const *addresses)
{
    job->name = sheaf__strdup(share->name);
    job->tasks = sheaf__calloc((size_t)share->count, sizeof(*job->tasks));
    if (!job->name || !job->tasks)
        return false;
    for (int64_t i = 0; i < share->count; i++) {
        job->tasks[i].index = (int32_t)i;
        job->tasks[i].address = sheaf__strdup(addresses[i]);
        if (!job->tasks[i].address)
            return false;
        job->task_count++;
    }
    return true;
}

/* Fills `config`, which the caller frees in any case. */
static bool fill_config(struct sheaf__tf_config *config, const struct share *shares, size_t count,
                        char *const *addresses, int64_t rank)
{
    config->jobs = sheaf__calloc(count, sizeof(*config->jobs));
    if (!config->jobs)
        return false;
    int64_t first = 0;
    for (size_t i = 0; i < count; first += shares[i++].count) {
        config->job_count++;
        if (!fill_job(&config->jobs[i], &shares[i], addresses + first))
            return false;
        if (rank >= first && rank < first + shares[i].count) {
            config->task_type = sheaf__strdup(shares[i].name);
            config->task_index = (int32_t)(rank - first);
            if (!config->task_type)
                return false;
        }
    }
    config->has_task = config->has_task_index = true;
    return true;
}

sheaf_status sheaf__deal_tasks(const struct sheaf__strings *addresses, int64_t rank,
                               const char *source, struct sheaf__tf_config **config,
                               sheaf_error *err)
{
    struct share shares[MAX_JOBS];
    size_t count;
    SHEAF__TRY(read_shares(shares, &count, err));
    if (count == 0) {
        shares[0] = (struct share){"worker", (int64_t)addresses->count};
        count = 1;
    }
    int64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += shares[i].count;
    if (total != (int64_t)addresses->count)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: started %zu tasks, but SHEAF_JOBS \"%s\" has %lld", source,
                            addresses->count, sheaf__config_text(SHEAF__CONFIG_JOBS),
                            (long long)total);
    if (rank < 0 || rank >= total)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: this is task %lld, expected 0 to %lld", source, (long long)rank,
                            (long long)total - 1);
    struct sheaf__tf_config *made = sheaf__calloc(1, sizeof(*made));
    if (!made || !fill_config(made, shares, count, addresses->items, rank)) {
        sheaf__tf_config_free(made);
        return sheaf__no_memory(err, "the cluster");
    }
    *config = made;
    return SHEAF_OK;
}
