/* SPDX-License-Identifier: Apache-2.0 */

/* A task that makes variables of many kinds and says where each is: lines "NAME DEVICE", then "placed", and takes part
 * until the job ends. */

#include <sheaf/sheaf.h>
#include <stdio.h>

enum { VARIABLES = 13 };

static sheaf_variable *make(int i)
{
    static const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_INT64};
    char name[16];
    snprintf(name, sizeof(name), "v%d", i);
    return sheaf_variable_init(name, dtypes[i % 3], SHEAF_SHAPE(1 + 97 * i, 3), sheaf_init_zeros(),
                               NULL);
}

static sheaf_status train(sheaf_strategy *s, sheaf_error *err)
{
    sheaf_variable *v[VARIABLES] = {NULL};
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < VARIABLES && status >= 0; i++) {
        SHEAF_SCOPE(s)
        {
            v[i] = make(i);
        }
        status = sheaf_variable_status(v[i], err);
        if (status >= 0)
            printf("%s %s\n", sheaf_variable_name(v[i]), sheaf_variable_device(v[i]));
    }
    if (status >= 0) {
        printf("placed\n");
        fflush(stdout);
        status = sheaf_strategy_join(s, 0, err);
    }
    for (int i = 0; i < VARIABLES; i++)
        sheaf_variable_free(v[i]);
    return status;
}

int main(void)
{
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    sheaf_error err = {0};
    if (sheaf_cluster_resolve(NULL, &cluster, &err) < 0)
        return sheaf_error_exit(&err);
    if (sheaf_cluster_is(cluster, "ps"))
        (void)!sheaf_server_run(cluster, NULL, &err);
    else if (sheaf_strategy_new("ps", cluster, NULL, &s, &err) >= 0)
        (void)!train(s, &err);
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return sheaf_error_exit(&err);
}
