/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, properties, sharding: FILE, two files of six elements over two workers (S46, S129, S130). */

#include "autoshard.h"

static int task(int argc, char **argv)
{
    static const char *const files[] = {"file1.tfrecord", "file2.tfrecord"};
    for (int f = 0; f < 2; f++)
        write_records(files[f], "", 6 * f, 6);
    return show_share(argc, argv, files, 2, SHEAF_AUTOSHARD_FILE);
}

int main(int argc, char **argv)
{
    return in_cluster(argv, (struct jobs){.worker = 2}, task, argc);
}
