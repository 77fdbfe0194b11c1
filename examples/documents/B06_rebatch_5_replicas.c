/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, batching, example 2: range(4).batch(4) over 5 replicas (S118, S120). */

#include "rebatch.h"

int main(void)
{
    show(mirrored(5), sheaf_dataset_batch(sheaf_dataset_range(0, 4, 1), 4, NULL));
    return 0;
}
