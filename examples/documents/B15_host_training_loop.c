/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, the host training loop: the end of the data, and several steps in one call (S149-S151). */

#include "document.h"

static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    sheaf_variable *steps = user;
    (void)r;
    (void)out;
    /* 1 for each element of this replica's part */
    return sheaf_assign_add(
        steps, sheaf_int((int)sheaf_tensor_elements(sheaf_element_get(in, NULL))), NULL);
}

/* Five steps, or as many as there are before the end. */
static sheaf_status train_fn(sheaf_strategy *s, sheaf_dist_iterator *it, sheaf_variable *steps)
{
    for (int i = 0; i < 5; i++)
        SHEAF_FRAME
        {
            sheaf_values *x;
            sheaf_status status = sheaf_get_next(it, &x, &err);
            if (status >= 0)
                status = sheaf_run(s, step_fn, steps, x, NULL, &err);
            if (status < 0)
                return status;
        }
    return SHEAF_OK;
}

int main(int argc, char **argv)
{
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 2));
    sheaf_dataset *dataset = sheaf_dataset_batch(sheaf_dataset_range(0, 14, 1), 2, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(s, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x;
    sheaf_optional *optional;
    for (int i = 0; i < 7; i++)
        must(sheaf_get_next(it, &x, &err));
    for (int i = 0; i < 2; i++)
        printf("get_next: %s\n", sheaf_status_name(sheaf_get_next(it, &x, &err)));
    /* where Python's next raises StopIteration, sheaf_next returns SHEAF_END */
    printf("next: %s\n", sheaf_next(it, &x, &err) == SHEAF_END ? "StopIteration" : "more");
    must(sheaf_get_next_as_optional(it, &optional, &err));
    printf("get_next_as_optional: %s\n", sheaf_optional_has_value(optional) ? "True" : "False");
    sheaf_dist_iterator_free(it);

    sheaf_variable *steps = NULL;
    const sheaf_variable_options first = {.aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    SHEAF_SCOPE(s)
    {
        steps = sheaf_variable_new(NULL, sheaf_int(0), &first);
    }
    it = sheaf_iterate(dist_dataset);
    must(train_fn(s, it, steps));
    printf("first call: %lld steps\n", (long long)sheaf_tensor_integer(sheaf_value(steps), 0));
    printf("second call: %s\n", sheaf_status_name(train_fn(s, it, steps)));
    const int64_t counted = sheaf_tensor_integer(sheaf_value(steps), 0);
    printf("at most 7 steps: %s\n", 5 <= counted && counted <= 7 ? "True" : "False");
    printf("third call: %s\n", sheaf_status_name(train_fn(s, it, steps)));

    sheaf_dist_iterator_free(it);
    sheaf_variable_free(steps);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(s);
    return 0;
}
