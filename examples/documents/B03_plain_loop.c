/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distributed datasets: a loop over a plain dataset, without a strategy (S109). */

#include "loop.h"

int main(void)
{
    sheaf_dataset *dataset = hundred();
    sheaf_iterator *it = sheaf_dataset_iterate(dataset);
    sheaf_element *inputs;
    SHEAF_EACH_ELEMENT(inputs, it, &err)
    {
        sheaf_element *loss = sheaf_element_new();
        must(train_step(NULL, inputs, loss, NULL));
        printf("%s\n", sheaf_str(sheaf_element_at(loss, 0)));
    }
    must(err.status);
    sheaf_iterator_free(it);
    sheaf_dataset_free(dataset);
    return 0;
}
