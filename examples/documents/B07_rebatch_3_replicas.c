/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, batching, example 3: range(8).batch(4) over 3 replicas (S118, S121). */

#include "rebatch.h"

int main(void)
{
    show(mirrored(3), sheaf_dataset_batch(sheaf_dataset_range(0, 8, 1), 4, NULL));
    return 0;
}
