/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

/* A program that knows nothing but datasets is told of a bad value in its environment, too: the process default context has
 * kept the error since before the first test. */

static void test_bad_value(void **state)
{
    (void)state;
    sheaf_context *before = sheaf_context_enter(NULL);
    sheaf_error err = {0};
    sheaf_element *e;
    sheaf_dataset *d = sheaf_dataset_range(0, 3, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    for (int i = 0; i < 2; i++)
        rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "variable SHEAF_INPUT_BYTES: found \"abc\", expected a whole number from 0 to "
                  "1000000000000000");
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    sheaf_context_enter(before);
}

/* It is no fault of a context that has an environment of its own. */
static void test_other_context(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_range(0, 3, 1);
    assert_elements(d, "[0, 1, 2]");
    sheaf_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_bad_value), rig_test(test_other_context)};
    setenv("SHEAF_INPUT_BYTES", "abc", 1);
    sheaf_dataset_free(sheaf_dataset_range(0, 3, 1)); /* what the default context makes stays */
    return rig_run(tests);
}
