/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_dataset: TFRecord files over the replicas (S40, S41, S43, S44, S60). */

#include "document.h"
#include <sys/stat.h>

static const char *const files[] = {"a/1.tfr", "a/2.tfr", "a/3.tfr", "a/4.tfr"};

/* Files of 3, 2, 3 and 2 records "file/record". */
static void write_files(void)
{
    mkdir("a", 0777);
    for (int f = 0; f < 4; f++) {
        sheaf_record_writer *writer;
        must(sheaf_record_writer_open(files[f], SHEAF_COMPRESSION_NONE, &writer, &err));
        for (int r = 0; r < (f % 2 ? 2 : 3); r++) {
            char text[16];
            const int size = snprintf(text, sizeof(text), "%d/%d", f + 1, r);
            must(sheaf_record_writer_put(writer, (sheaf_bytes){text, (size_t)size}, &err));
        }
        must(sheaf_record_writer_close(writer, false, &err));
    }
}

int main(int argc, char **argv)
{
    const int replicas = argument(argc, argv, 1, 2);
    sheaf_strategy *s = mirrored(replicas);
    write_files();

    sheaf_dataset *records = sheaf_tfrecord_files(files, 4);
    sheaf_dataset *dataset = sheaf_dataset_batch(sheaf_dataset_ref(records), 4, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(s, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x, *result;
    SHEAF_EACH(x, it, &err)
    {
        must(sheaf_run(s, identity, NULL, x, &result, &err));
        printf("%s\n", sheaf_values_str(result));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);

    if (replicas > 1) {
        dist_dataset = sheaf_distribute_dataset(s, records, NULL);
        it = sheaf_iterate(dist_dataset);
        printf("unbatched: %s\n", sheaf_next(it, &x, &err) < 0 ? "refused" : "accepted");
        sheaf_dist_iterator_free(it);
        sheaf_dist_dataset_free(dist_dataset);
    } else {
        sheaf_dataset_free(records);
    }
    sheaf_strategy_free(s);
    return 0;
}
