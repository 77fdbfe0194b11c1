/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, properties, sharding: setting the policy (S45, S126). */

#include "document.h"

static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    return identity(NULL, in, out, user);
}

static sheaf_dataset *with_policy(sheaf_dataset *d, sheaf_autoshard policy)
{
    return sheaf_dataset_with_options(d, &(sheaf_dataset_options){.autoshard = policy});
}

static void print_policy(const sheaf_dataset *d)
{
    printf("%d\n", sheaf_dataset_get_options(d).autoshard);
}

int main(void)
{
    static const float one[] = {1};
    sheaf_tensor *x = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), one);
    sheaf_dataset *dataset = sheaf_dataset_from_tensors(sheaf_element_tuple(x, x, NULL));
    dataset = sheaf_dataset_batch(sheaf_dataset_repeat(dataset, 64), 16, NULL);
    print_policy(dataset);
    dataset = with_policy(dataset, SHEAF_AUTOSHARD_DATA);
    print_policy(dataset);
    dataset = sheaf_dataset_prefetch(sheaf_dataset_map(dataset, same, NULL, NULL), 1);
    print_policy(dataset); /* later stages keep it */

    sheaf_dataset *off = with_policy(sheaf_dataset_ref(dataset), SHEAF_AUTOSHARD_OFF);
    print_policy(off);
    sheaf_dataset *automatic = with_policy(dataset, SHEAF_AUTOSHARD_AUTO);
    print_policy(automatic); /* AUTO is the default, which changes nothing */

    printf("OFF %d\nAUTO %d\nFILE %d\nDATA %d\nHINT %d\n", SHEAF_AUTOSHARD_OFF,
           SHEAF_AUTOSHARD_AUTO, SHEAF_AUTOSHARD_FILE, SHEAF_AUTOSHARD_DATA, SHEAF_AUTOSHARD_HINT);
    sheaf_dataset_free(off);
    sheaf_dataset_free(automatic);
    return 0;
}
