/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, properties, sharding: DATA, one file of twelve elements over two workers (S131, S132). */

#include "autoshard.h"

static int task(int argc, char **argv)
{
    static const char *const files[] = {"file1.tfrecord"};
    write_records(files[0], "", 0, 12);
    return show_share(argc, argv, files, 1, SHEAF_AUTOSHARD_DATA);
}

int main(int argc, char **argv)
{
    return in_cluster(argv, (struct jobs){.worker = 2}, task, argc);
}
