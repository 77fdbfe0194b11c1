/* SPDX-License-Identifier: Apache-2.0 */

/** @file
 *  The dataset and the step that B13 and B14 share. */

#include "document.h"

/** ([1.], [1.]) a hundred times, in global batches of 16. */
static sheaf_dataset *hundred(void)
{
    static const float one[] = {1};
    sheaf_tensor *features = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), one);
    sheaf_tensor *labels = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), one);
    sheaf_dataset *d = sheaf_dataset_from_tensors(sheaf_element_tuple(features, labels, NULL));
    return sheaf_dataset_batch(sheaf_dataset_repeat(d, 100), 16, NULL);
}

/** labels - 0.3 * features */
__attribute__((unused)) static sheaf_status train_step(sheaf_replica *r, const sheaf_element *in,
                                                       sheaf_element *out, void *user)
{
    sheaf_tensor *features = sheaf_element_get(in, "0"), *labels = sheaf_element_get(in, "1");
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_sub(labels, sheaf_scale(features, 0.3, 0)));
}
