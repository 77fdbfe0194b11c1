/* SPDX-License-Identifier: Apache-2.0 */

/* Two workers that are not the same program:
 *
 *     mismatch STRATEGY WHAT
 *
 * Worker 1 makes another shape, dtype, name or number of variables, another optimizer, or another value to be reduced. */

#include <sheaf/sheaf.h>
#include <stdio.h>
#include <string.h>

static const char *what;
static bool other;

static bool is(const char *word)
{
    return other && strcmp(what, word) == 0;
}

struct model {
    sheaf_variable *w, *b, *more;
    sheaf_schedule *schedule;
    sheaf_optimizer *optimizer;
};

static void make_variables(struct model *m)
{
    const sheaf_dtype dtype = is("dtype") ? SHEAF_FLOAT64 : SHEAF_FLOAT32;
    const sheaf_shape shape = is("shape") ? SHEAF_SHAPE(3, 5) : SHEAF_SHAPE(3, 4);
    const sheaf_initializer ones = sheaf_init_constant(1);
    m->w = sheaf_variable_init("w", dtype, shape, ones, NULL);
    m->b =
        sheaf_variable_init(is("name") ? "bias" : "b", SHEAF_FLOAT32, SHEAF_SHAPE(4), ones, NULL);
    if (is("more"))
        m->more = sheaf_variable_init("extra", SHEAF_FLOAT32, SHEAF_SCALAR, ones, NULL);
}

static void make_optimizer(struct model *m)
{
    sheaf_optimizer_options o = {.learning_rate = is("rate") || is("build-rate") ? 0.5 : 0.25};
    if (is("clip"))
        o.clipnorm = 2;
    if (strncmp(what, "schedule", 8) == 0) {
        const int64_t boundaries[] = {2, is("schedule-boundary") ? 5 : 4};
        const double values[] = {1, 0.5, is("schedule-value") ? 0.125 : 0.25};
        m->schedule = is("schedule-kind") ? sheaf_schedule_exponential(1, 10, 0.5, true)
                                          : sheaf_schedule_piecewise(boundaries, values, 2);
        o.schedule = m->schedule;
        o.learning_rate = 0;
    }
    m->optimizer = is("rule") ? sheaf_sgd(&o) : sheaf_adam(&o);
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct model *m = user;
    sheaf_tape *tape = sheaf_tape_start();
    (void)r;
    (void)in;
    sheaf_tensor *w = sheaf_cast(sheaf_value(m->w), SHEAF_FLOAT32);
    sheaf_tensor *loss = sheaf_add(sheaf_mean(sheaf_square(w)), sheaf_mean(sheaf_value(m->b)));
    sheaf_element_put(out, "loss.mean", loss);
    sheaf_element_put(out, "loss.count",
                      is("leaf")         ? sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2))
                      : is("leaf-dtype") ? sheaf_double(1)
                                         : sheaf_float(1));
    return sheaf_optimizer_minimize(m->optimizer, tape, loss);
}

static void train(sheaf_strategy *s, struct model *m, sheaf_error *err)
{
    sheaf_variable *v[] = {m->w, m->b};
    sheaf_values *result;
    sheaf_element *sum;
    if (strncmp(what, "build", 5) == 0 || is("built"))
        if (sheaf_optimizer_build(m->optimizer, v, is("build-less") ? 1 : 2, err) < 0)
            return;
    for (int i = 0; i < 3; i++)
        SHEAF_FRAME
        {
            if (sheaf_run(s, step, m, NULL, &result, err) < 0 ||
                sheaf_reduce(s, SHEAF_REDUCE_SUM, result, NULL, 0, &sum, err) < 0)
                return;
        }
    if (sheaf_strategy_join(s, 0, err) >= 0)
        printf("done\n");
}

int main(int argc, char **argv)
{
    sheaf_error err = {0};
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    struct model m = {0};
    if (argc < 3)
        return 2;
    what = argv[2];
    if (sheaf_cluster_resolve(NULL, &cluster, &err) >= 0 && sheaf_cluster_is(cluster, "ps")) {
        (void)!sheaf_server_run(cluster, NULL, &err);
    } else if (err.status >= 0 && sheaf_strategy_new(argv[1], cluster, NULL, &s, &err) >= 0) {
        other = sheaf_cluster_task_index(cluster) == 1;
        SHEAF_SCOPE(s) make_variables(&m);
        make_optimizer(&m);
        if (sheaf_variable_status(m.w, &err) >= 0 && sheaf_variable_status(m.b, &err) >= 0 &&
            (!m.more || sheaf_variable_status(m.more, &err) >= 0))
            train(s, &m, &err);
    }
    sheaf_optimizer_free(m.optimizer);
    sheaf_schedule_free(m.schedule);
    sheaf_variable_free(m.w);
    sheaf_variable_free(m.b);
    sheaf_variable_free(m.more);
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return sheaf_error_exit(&err);
}
