/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, caveats: the pipeline list_files, shard, repeat, shuffle, interleave, map (S189-S192). */

#include "records.h"

enum { FILES = 5, WORKERS = 2, EPOCHS = 2, READERS = 2, MAP_THREADS = 2, MOST = 64 };

static sheaf_dataset *pipeline(int worker, int64_t shuffle_buffer_size)
{
    const sheaf_list_files_options sorted = {.no_shuffle = true};
    const sheaf_interleave_options in_turn = {.cycle_length = READERS, .block_length = 1};
    sheaf_dataset *d = sheaf_list_files("part-*.tfrecord", &sorted);
    d = sheaf_dataset_shard(d, WORKERS, worker);
    d = sheaf_dataset_repeat(d, EPOCHS);
    d = sheaf_dataset_shuffle(d, shuffle_buffer_size, NULL);
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &in_turn);
    return sheaf_dataset_map(d, to_number, NULL, &(sheaf_map_options){.parallel = MAP_THREADS});
}

/* Adds the numbers of `d` to `all`; returns their new count. */
static int collect(sheaf_dataset *d, int64_t *all, int count)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        if (count < MOST)
            all[count++] = sheaf_tensor_integer(sheaf_element_at(e, 0), 0);
    }
    must(err.status);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return count;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_list(const int64_t *all, int count)
{
    for (int i = 0; i < count; i++)
        printf("%s%d", i ? ", " : "[", (int)all[i]);
    printf("]\n");
}

int main(void)
{
    static const char *const prefixes[FILES] = {"0", "1", "2", "3", "4"};
    int64_t all[MOST];
    int count = 0;
    for (int f = 0; f < FILES; f++) {
        char path[32];
        snprintf(path, sizeof(path), "part-%d.tfrecord", f);
        write_records(path, prefixes[f], 0, f % 2 ? 2 : 3);
    }
    for (int worker = 0; worker < WORKERS; worker++) {
        printf("worker %d: ", worker);
        print_list(all, collect(pipeline(worker, 1), all, 0));
    }
    for (int worker = 0; worker < WORKERS; worker++)
        count = collect(pipeline(worker, 4), all, count);
    qsort(all, (size_t)count, sizeof(*all), by_value);
    printf("both, sorted: ");
    print_list(all, count);
    return 0;
}
