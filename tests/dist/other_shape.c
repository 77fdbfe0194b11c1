/* SPDX-License-Identifier: Apache-2.0 */

/* Saves a model like the main job's, but with fewer hidden units: other_shape FOLDER. */

#include <sheaf/sheaf.h>

enum { PIXELS = 64, HIDDEN = 32, CLASSES = 10, VARIABLES = 5 };

int main(int argc, char **argv)
{
    const sheaf_initializer zeros = sheaf_init_zeros();
    const sheaf_variable_options count = {.not_trainable = true};
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_manager *manager = NULL;
    sheaf_error err = {0};
    sheaf_variable *v[VARIABLES] = {
        sheaf_variable_init("w1", SHEAF_FLOAT32, SHEAF_SHAPE(PIXELS, HIDDEN), zeros, NULL),
        sheaf_variable_init("b1", SHEAF_FLOAT32, SHEAF_SHAPE(HIDDEN), zeros, NULL),
        sheaf_variable_init("w2", SHEAF_FLOAT32, SHEAF_SHAPE(HIDDEN, CLASSES), zeros, NULL),
        sheaf_variable_init("b2", SHEAF_FLOAT32, SHEAF_SHAPE(CLASSES), zeros, NULL),
        sheaf_variable_new("step", sheaf_long(5), &count),
    };
    sheaf_optimizer *adam = sheaf_adam(NULL);
    sheaf_checkpoint_add_variables(c, v, VARIABLES);
    sheaf_checkpoint_add_optimizer(c, "optimizer", adam);
    if (sheaf_optimizer_build(adam, v, VARIABLES, &err) < 0 ||
        sheaf_checkpoint_manager_new(c, argc > 1 ? argv[1] : "run", NULL, &manager, &err) < 0 ||
        sheaf_manager_save(manager, true, NULL, &err) < 0)
        sheaf_error_exit(&err);
    sheaf_checkpoint_manager_free(manager);
    sheaf_checkpoint_free(c);
    sheaf_optimizer_free(adam);
    for (int i = 0; i < VARIABLES; i++)
        sheaf_variable_free(v[i]);
    return err.status < 0;
}
