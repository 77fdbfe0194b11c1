/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_BUNDLE_H
#define SHEAF_FORMAT_BUNDLE_H

/* Checkpoint bundles for the library: reading slices, writing one-file bundles, merging them. */

#include "base/file.h"
#include "format/bundle_index.h"
#include "format/bundle_sums.h"
#include "format/sidecar.h"

#include <sheaf/bundle.h>

#define SHEAF__BUNDLE_FILES 16 /* data files held open at once */

struct sheaf__bundle_file {
    struct sheaf__file *file; /* NULL: none */
    int32_t shard;
    uint64_t size;
};

struct sheaf_bundle {
    char *prefix;
    struct sheaf__bundle_index index;
    int shards;   /* data files that hold something; index.shards is what their names say */
    size_t first; /* first item that is not a slice of another */
    struct sheaf__bundle_file files[SHEAF__BUNDLE_FILES];
    unsigned next_file;            /* the one to be closed when another is needed */
    uint8_t *scratch;              /* SHEAF__BUNDLE_SCRATCH bytes, made when needed */
    struct sheaf__sidecar sidecar; /* zeroed if there is none that belongs to the index */
    sheaf_error sidecar_fault;     /* status < 0: there is one that cannot be read */
    /* Where slices that are less than what is stored note the checksums of what they read, and read
     * no more; NULL: they read all of it, and verify that. */
    struct sheaf__bundle_sums *sums;
};

/* Closes the data files until a tensor is read. */
void sheaf__bundle_close_files(sheaf_bundle *b);
/* The item stored under `key`; NULL if there is none. */
const struct sheaf__bundle_item *sheaf__bundle_find(const sheaf_bundle *b, const char *key);

/* Reads a slice of a tensor (NULL: all of it) that is stored whole or in slices. One count, the
 * caller's; NULL with err: as sheaf_bundle_read(), and SHEAF_ERR_INVALID_ARGUMENT if the slice is
 * one of another shape. */
sheaf_tensor *sheaf__bundle_read_slice(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                       const struct sheaf__slice *slice, sheaf_error *err);
/* The same into memory of the caller. Not for strings. On failure the memory may have been written
 * to. */
sheaf_status sheaf__bundle_read_into(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                     const struct sheaf__slice *slice, void *out, sheaf_error *err);
/* Verifies the checksums of everything that makes up a tensor of numbers. */
sheaf_status sheaf__bundle_check_sums(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                      sheaf_error *err);
/* Reads a slice as sheaf__bundle_read_into() does, but its own bytes alone and no checksum: for tensors
 * that are read in parts. */
sheaf_status sheaf__bundle_read_part(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                     const struct sheaf__slice *slice, void *out, sheaf_error *err);

/* For the files beside this one that make up the reader (bundle_data.c, bundle_slices.c). */

/* What takes the bytes of an item in order, after their checksum was extended: `first` is the
 * number of the first element. NULL: nothing. */
struct sheaf__bundle_sink {
    void (*take)(void *user, const void *data, int64_t first, int64_t count);
    void *user;
    void *direct; /* if not NULL: the bytes go here and `take` is not called */
};
/* Reads the bytes of an item that is stored whole and is no string; verifies the checksum. */
sheaf_status sheaf__bundle_stream(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                  const struct sheaf__bundle_sink *sink, sheaf_error *err);
/* The same of `size` bytes from `at` on, unverified: `crc` is theirs. */
sheaf_status sheaf__bundle_stream_range(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                        uint64_t at, uint64_t size,
                                        const struct sheaf__bundle_sink *sink, uint32_t *crc,
                                        sheaf_error *err);
/* Whether that is the checksum of the item. */
sheaf_status sheaf__bundle_check_crc(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                     uint32_t found, sheaf_error *err);
/* Reads bytes [at, at + size) of an item from its data file. Any thread. */
sheaf_status sheaf__bundle_read_exactly(const sheaf_bundle *b,
                                        const struct sheaf__bundle_item *item,
                                        struct sheaf__file *file, uint64_t at, void *out,
                                        size_t size, sheaf_error *err);
/* Reads the bytes of such an item, of one at least, by stripes on the device's threads; `crc` is that of all. */
#define SHEAF__BUNDLE_STRIPE (1 << 20) /* a thread's at a time, by SHEAF__BUNDLE_SCRATCH */
sheaf_status sheaf__bundle_read_stripes(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                        struct sheaf__file *file, void *out, uint32_t *crc,
                                        sheaf_error *err);
/* Reads elements [first, first + count) of such an item, unverified. */
sheaf_status sheaf__bundle_fetch(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                 int64_t first, int64_t count, void *out, sheaf_error *err);
/* SHEAF__BUNDLE_SCRATCH bytes of the bundle's. */
#define SHEAF__BUNDLE_SCRATCH \
    (1 << 18) /* read at once: still in the cache when its checksum is taken */
sheaf_status sheaf__bundle_scratch(sheaf_bundle *b, sheaf_error *err);
/* Strings that are stored whole. */
sheaf_tensor *sheaf__bundle_strings(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                    sheaf_error *err);
/* Checks that the item can be read as far as index and size of the data file tell. */
sheaf_status sheaf__bundle_check_item(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                      sheaf_error *err);
/* An error about an item, "tensor K: …": with data file and offset if it has bytes of its own, else as the next one. */
sheaf_status sheaf__bundle_fault(const sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                 sheaf_error *err, sheaf_status status, const char *format, ...)
    SHEAF_PRINTF(5, 6) __attribute__((cold));
/* An error of what its entry says: with the index file and where in it the block is that has the entry. */
sheaf_status sheaf__bundle_entry_fault(const sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                       sheaf_error *err, sheaf_status status, const char *format,
                                       ...) SHEAF_PRINTF(5, 6) __attribute__((cold));

/* The slices of an item as boxes and the items that hold them, in the order of the index entry;
 * checked: none is missing, none overlaps another. Freed with sheaf__free(). */
struct sheaf__bundle_piece {
    struct sheaf__slice slice;
    const struct sheaf__bundle_item *item;
};
sheaf_status sheaf__bundle_pieces(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                  struct sheaf__bundle_piece **pieces, sheaf_error *err);

/* Writing a one-file bundle. The data go to their file while tensors are added; nothing has its
 * name before finish. */
struct sheaf__bundle_writer;

sheaf_status sheaf__bundle_writer_open(const char *prefix, struct sheaf__bundle_writer **writer,
                                       sheaf_error *err);
/* Adds tensor `key`, or the slice of it that `extents` spell in a tensor of shape `full` (NULL: the
 * whole). A slice that covers everything is stored as the whole. SHEAF_ERR_INVALID_ARGUMENT: the
 * key is empty, starts with a zero byte or was added before; another shape than the slice's. */
sheaf_status sheaf__bundle_writer_add(struct sheaf__bundle_writer *w, const void *key,
                                      size_t key_size, const sheaf_shape *full,
                                      const struct sheaf__extent *extents,
                                      const sheaf_tensor *tensor, sheaf_error *err);
/* The same in pieces, for numbers: what the tensor is, then its bytes, which are a slice's where `slice` is less than all of
 * its tensor. */
sheaf_status sheaf__bundle_writer_begin(struct sheaf__bundle_writer *w, const char *key,
                                        sheaf_dtype dtype, const struct sheaf__slice *slice,
                                        sheaf_error *err);
sheaf_status sheaf__bundle_writer_put(struct sheaf__bundle_writer *w, const void *data, size_t size,
                                      sheaf_error *err);
sheaf_status sheaf__bundle_writer_end(struct sheaf__bundle_writer *w, sheaf_error *err);
/* Makes data and index durable under their names and frees the writer, in any case. */
sheaf_status sheaf__bundle_writer_finish(struct sheaf__bundle_writer *w, sheaf_error *err);
/* Gives up: nothing is left. NULL is nothing. */
void sheaf__bundle_writer_free(struct sheaf__bundle_writer *w);

/* Merging one-file bundles into the checkpoint `prefix` (R8.29, R8.30). */
struct sheaf__bundle_merge {
    const char *prefix;
    const char *const *parts; /* prefixes of the bundles, on the same file system */
    size_t count;
    /* Called with the index when it is written and only its rename is left (sheaf__file_replace_if());
     * may be NULL. */
    sheaf_status (*before)(void *user, const void *index, size_t size, sheaf_error *err);
    void *user;
};
/* Renames the data files and puts the index in place last, so that the checkpoint that had this
 * prefix stands until the new one does. The parts are used up; parts without tensors are dropped.
 * SHEAF_ERR_INVALID_ARGUMENT: a tensor that two parts hold. On failure before the index is in place
 * nothing is visible; data files may have been renamed. */
sheaf_status sheaf__bundle_merge(const struct sheaf__bundle_merge *merge, sheaf_error *err);
/* Deletes the files of a checkpoint, its index first. What is not there is no error. */
sheaf_status sheaf__bundle_delete(const char *prefix, sheaf_error *err);

#endif
