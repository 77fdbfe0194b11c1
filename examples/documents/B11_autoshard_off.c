/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, properties, sharding: OFF, one file of twelve elements over two workers (S133, S134). */

#include "autoshard.h"

static int task(int argc, char **argv)
{
    static const char *const files[] = {"file1.tfrecord"};
    write_records(files[0], "", 0, 12);
    return show_share(argc, argv, files, 1, SHEAF_AUTOSHARD_OFF);
}

int main(int argc, char **argv)
{
    return in_cluster(argv, (struct jobs){.worker = 2}, task, argc);
}
