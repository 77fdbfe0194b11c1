/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_ACCOUNT_H
#define SHEAF_DATA_ACCOUNT_H

/* What the stages of one iterator did with the records of its files, and how many corrupt ones it may
 * skip. All threads of the iterator share it; NULL counts nothing and forgives nothing.
 *
 * A file may be read several times in a pass, at once or one after the other, but always from its
 * first record on. What was read of it is therefore all below a number: so many of its records were
 * read, and any more are repeated. */

#include "format/record.h"

#include <sheaf/dataset.h>

struct sheaf__account;
struct sheaf__account_file;

/* Whether some corrupt records may be skipped: then those that are stepped over must be looked at. */
static inline bool sheaf__options_forgive(const sheaf_dataset_options *options)
{
    return options->skip_corrupt != 0 || options->skip_corrupt_per_file != 0;
}

/* Of a pipeline with these options. NULL: no memory. */
struct sheaf__account *sheaf__account_new(const sheaf_dataset_options *options);
void sheaf__account_free(struct sheaf__account *a);
/* Of the input of a stage that may let it begin again, which is no repetition: it counts in `above`,
 * but what it has counted once only when it comes beyond. `above` NULL gives NULL. */
sheaf_status sheaf__account_below(struct sheaf__account *above, struct sheaf__account **a,
                                  sheaf_error *err);
void sheaf__account_again(struct sheaf__account *a);
/* Of one of several inputs that read the same files, each for a part of their records: what they read
 * counts once, and with `same_batches` what they drop, too. */
sheaf_status sheaf__account_beside(struct sheaf__account *above, bool same_batches,
                                   struct sheaf__account **a, sheaf_error *err);

/* The entry of a file that is read in such a way, made at its first use; lives as long as the account. */
sheaf_status sheaf__account_open(struct sheaf__account *a, const char *path,
                                 const struct sheaf__record_options *reading,
                                 struct sheaf__account_file **file, sheaf_error *err);
/* How a file was read last. False: it was not. */
bool sheaf__account_reading(struct sheaf__account *a, const char *path,
                            struct sheaf__record_options *reading);
/* `count` good records that end before record `to` were read, or stepped over. */
void sheaf__account_read(struct sheaf__account *a, struct sheaf__account_file *file, uint64_t count,
                         uint64_t to);
bool sheaf__account_forgives(const struct sheaf__account *a);
/* Whether the number of all files is limited: then it matters which corrupt record is met first. */
bool sheaf__account_limits(const struct sheaf__account *a);
/* Whether it does for this one. */
bool sheaf__account_charges(struct sheaf__account *a, struct sheaf__account_file *file,
                            uint64_t record);
/* Record `record` is corrupt as `err` says, and with it `lost` bytes behind which nothing can be read.
 * SHEAF_OK: it is skipped, and counted. Else the error, which says what is used up. */
sheaf_status sheaf__account_skip(struct sheaf__account *a, struct sheaf__account_file *file,
                                 uint64_t record, uint64_t lost, sheaf_error *err);
/* Rows were too few for a batch. */
void sheaf__account_drop(struct sheaf__account *a, uint64_t rows);

/* All of it but the examples; memory of the frame. */
sheaf_status sheaf__account_get(struct sheaf__account *a, int64_t worker, sheaf_account *out,
                                sheaf_error *err);
#endif
