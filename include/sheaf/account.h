/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_ACCOUNT_H
#define SHEAF_ACCOUNT_H

/** @file
 *  What became of the data in one pass over them: file by file, and in all. */

#include <sheaf/export.h>

SHEAF_BEGIN_DECLS

/** Of one file. Records that are only stepped over, since another worker has them or a saved position is behind them, count
 *  as read. */
typedef struct sheaf_file_account {
    const char *path;
    int64_t worker; /**< who read it */
    int64_t read;   /**< records, each once */
    int64_t
        repeated;    /**< times that one was read again: repeat(), or a file that is listed twice */
    int64_t skipped; /**< corrupt ones that were skipped */
    int64_t lost_bytes; /**< behind damage that no record can be found behind; uncompressed */
    uint64_t reserved[2];
} sheaf_file_account;

typedef struct sheaf_account {
    int64_t examples; /**< elements that an iterator gave; examples, of a distributed dataset */
    int64_t read, repeated, skipped, lost_bytes; /**< as above, of all files, each once */
    int64_t dropped; /**< rows that were too few for the last batch (drop_remainder) */
    size_t file_count;
    const sheaf_file_account *files; /**< those that were opened, sorted by worker and path */
    uint64_t reserved[4];
} sheaf_account;

/** "1438 examples, 2 corrupt records skipped, 30 dropped": what there is none of is left out. Text of the frame. */
SHEAF_API const char *sheaf_account_str(const sheaf_account *account);
/** A line for each worker and file: "worker 0: data/a.tfrecord: 359 read, 1 corrupt record skipped". Text of the frame. */
SHEAF_API const char *sheaf_account_files_str(const sheaf_account *account);

SHEAF_END_DECLS

#endif
