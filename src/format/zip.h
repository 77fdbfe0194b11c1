/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_ZIP_H
#define SHEAF_FORMAT_ZIP_H

/* ZIP archives as NumPy's .npz are ones (formats.md 7.2): members stored or deflated, ZIP64. */

#include "base/file.h"

struct sheaf__zip_member {
    char *name;
    uint64_t data; /* offset of its bytes in the file */
    uint64_t packed, size;
    uint32_t crc;
    bool deflated;
};

struct sheaf__zip_file;

/* Opens an archive and checks that its members lie in the file and apart from each other. What a deflated one is
 * said to expand to is no more than deflate can. SHEAF_ERR_DATA_LOSS; SHEAF_ERR_UNIMPLEMENTED: another method, encryption,
 * several disks. */
sheaf_status sheaf__zip_open(const char *path, struct sheaf__zip_file **zip, sheaf_error *err);
void sheaf__zip_free(struct sheaf__zip_file *zip);
size_t sheaf__zip_count(const struct sheaf__zip_file *zip);
const struct sheaf__zip_member *sheaf__zip_member(const struct sheaf__zip_file *zip, size_t i);
/* Reads bytes [at, at + size) of a member. Of a deflated one all before them are read, too, unless they were the last
 * that were read. */
sheaf_status sheaf__zip_read(struct sheaf__zip_file *zip, size_t i, uint64_t at, void *out,
                             size_t size, sheaf_error *err);
/* Reads a member to its end and checks length and checksum; `out` gets all of it unless it is NULL. */
sheaf_status sheaf__zip_check(struct sheaf__zip_file *zip, size_t i, void *out, sheaf_error *err);

/* Writing one: the bytes are those that Python's zipfile writes with force_zip64, dated 1980. */
struct sheaf__zip_writer;
sheaf_status sheaf__zip_writer_open(const char *path, struct sheaf__zip_writer **writer,
                                    sheaf_error *err);
sheaf_status sheaf__zip_writer_begin(struct sheaf__zip_writer *w, const char *name, bool deflate,
                                     sheaf_error *err);
sheaf_status sheaf__zip_writer_put(struct sheaf__zip_writer *w, const void *data, size_t size,
                                   sheaf_error *err);
sheaf_status sheaf__zip_writer_end(struct sheaf__zip_writer *w, sheaf_error *err);
/* Puts the archive in its place and frees the writer, in any case. */
sheaf_status sheaf__zip_writer_finish(struct sheaf__zip_writer *w, sheaf_error *err);
/* Gives up: nothing is left. NULL is nothing. */
void sheaf__zip_writer_free(struct sheaf__zip_writer *w);

#endif
