/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, batching, example 1: range(6).batch(4) over 2 replicas (S118, S119). */

#include "rebatch.h"

int main(void)
{
    show(mirrored(2), sheaf_dataset_batch(sheaf_dataset_range(0, 6, 1), 4, NULL));
    return 0;
}
