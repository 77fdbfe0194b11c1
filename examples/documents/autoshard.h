/* SPDX-License-Identifier: Apache-2.0 */

/** @file
 *  What B09, B10 and B11 share: two workers with a replica each, a global batch of 4, and the lists of the document. */

#include "cluster.h"
#include "records.h"

static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    return identity(NULL, in, out, user);
}

/** The numbers of the files in batches of 4. With a first argument of 1 a function behind the batch hides its size, so that
 *  the legacy rule cuts it. */
static sheaf_dataset *numbers(int argc, char **argv, const char *const *files, size_t count,
                              sheaf_autoshard policy)
{
    sheaf_dataset *d = sheaf_tfrecord_files(files, count);
    d = sheaf_dataset_batch(sheaf_dataset_map(d, to_number, NULL, NULL), 4, NULL);
    if (argument(argc, argv, 1, 0))
        d = sheaf_dataset_map(d, same, NULL, NULL);
    return sheaf_dataset_with_options(d, &(sheaf_dataset_options){.autoshard = policy});
}

/** Prints what this worker is given. */
static int show_share(int argc, char **argv, const char *const *files, size_t count,
                      sheaf_autoshard policy)
{
    sheaf_strategy *s;
    must(sheaf_strategy_new("MultiWorkerMirroredStrategy", NULL, NULL, &s, &err));
    const int worker = sheaf_cluster_task_index(sheaf_strategy_cluster(s));
    sheaf_dist_dataset *distributed =
        sheaf_distribute_dataset(s, numbers(argc, argv, files, count, policy), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(distributed);
    sheaf_values *x;
    int number = 0;
    printf("Worker %d\n", worker);
    SHEAF_EACH(x, it, &err)
    {
        printf("Batch %d = Replica %d: %s\n", ++number, worker + 1,
               sheaf_list_str(sheaf_values_get(x, 0, NULL)));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(distributed);
    sheaf_strategy_free(s);
    return 0;
}
