/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_CACHE_H
#define SHEAF_DATA_CACHE_H

#include "data/stage.h"

/* The file of a cache: a TFRecord file whose records lie so that elements are read in place
 * (format/element_wire.h).
 *
 *     first   "sheaf cache 1\n", size and text of what was cached (varint, bytes)
 *     each    'B' or 'S', number of rows (varint), element: one as it is, or rows stacked
 *     last    'E', rows and records before it, the first included (fixed64)
 *
 * With its frame every record is a multiple of 64 bytes long, zeros fill it up. A file in place is
 * whole: it is written beside it and renamed. */

struct sheaf__cache_writer;
/* Starts a file that is to become `path`. What a process that died left of such a file is deleted
 * with a notice. `what` describes the elements: a file of others is not read. */
sheaf_status sheaf__cache_writer_open(const char *path, const char *what,
                                      struct sheaf__cache_writer **writer, sheaf_error *err);
/* Appends all rows and empties the list; `*bytes` is the size of the file so far. */
sheaf_status sheaf__cache_writer_put(struct sheaf__cache_writer *w, struct sheaf__rows *rows,
                                     uint64_t *bytes, sheaf_error *err);
/* Puts the file in place, unless another is there by now. The writer is freed in any case. */
sheaf_status sheaf__cache_writer_commit(struct sheaf__cache_writer *w, sheaf_error *err);
/* Gives the file up. NULL is nothing. */
void sheaf__cache_writer_drop(struct sheaf__cache_writer *w);

struct sheaf__cache_reader;
/* SHEAF_END: there is no file, or one that is not whole, of which a notice is given.
 * SHEAF_ERR_FAILED_PRECONDITION: a file that is no cache, or one of something else than `what`. */
sheaf_status sheaf__cache_reader_open(const char *path, const char *what,
                                      struct sheaf__cache_reader **reader, sheaf_error *err);
/* Appends 1 to `want` rows, or SHEAF_END. */
sheaf_status sheaf__cache_reader_next(struct sheaf__cache_reader *r, size_t want,
                                      struct sheaf__rows *rows, sheaf_error *err);
void sheaf__cache_reader_free(struct sheaf__cache_reader *r);

#endif
