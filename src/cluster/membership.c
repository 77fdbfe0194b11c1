/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/membership.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/check.h"
#include "cluster/cluster.h"

static const struct {
    unsigned bit;
    const char *name;
} JOBS[] = {
    {SHEAF__MEMBER_CHIEF, "chief"},
    {SHEAF__MEMBER_WORKER, "worker"},
    {SHEAF__MEMBER_PS, "ps"},
    {SHEAF__MEMBER_EVALUATOR, "evaluator"},
};
enum { JOB_COUNT = sizeof(JOBS) / sizeof(JOBS[0]) };

static void add_job(const sheaf_cluster *c, const struct sheaf__tf_config_job *job,
                    struct sheaf__membership *m)
{
    for (size_t k = 0; k < job->task_count; k++) {
        struct sheaf__member *member = &m->members[m->count];
        sheaf__str_copy(member->task.job, sizeof(member->task.job), job->name);
        member->task.index = job->tasks[k].index;
        member->address = job->tasks[k].address;
        member->self = sheaf_cluster_is(c, job->name) && c->task.index == member->task.index;
        if (member->self)
            m->self = m->count;
        m->count++;
    }
}

sheaf_status sheaf__membership_make(const sheaf_cluster *c, unsigned jobs,
                                    struct sheaf__membership *membership, sheaf_error *err)
{
    struct sheaf__membership m = {0};
    size_t total = 0;
    for (size_t i = 0; i < JOB_COUNT; i++)
        if (jobs & JOBS[i].bit)
            total += (size_t)sheaf_cluster_tasks(c, JOBS[i].name);
    m.members = sheaf__calloc(total, sizeof(*m.members));
    if (!m.members)
        return sheaf__no_memory(err, "the list of tasks");
    m.self = total;
    for (size_t i = 0; i < JOB_COUNT; i++) {
        const struct sheaf__tf_config_job *job = sheaf__check_find_job(c->config, JOBS[i].name);
        if (job && (jobs & JOBS[i].bit))
            add_job(c, job, &m);
    }
    *membership = m;
    return SHEAF_OK;
}

void sheaf__membership_free(struct sheaf__membership *membership)
{
    sheaf__free(membership->members);
    *membership = (struct sheaf__membership){0};
}
