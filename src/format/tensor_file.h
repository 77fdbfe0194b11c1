/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_TENSOR_FILE_H
#define SHEAF_FORMAT_TENSOR_FILE_H

/* Files of named tensors for the library: one interface before every format. */

#include "format/slice.h"

#include <sheaf/bundle.h>
#include <sheaf/tensor_file.h>

#define SHEAF__TENSOR_FILE_CHUNK (4 << 20) /* bytes of a tensor in memory at once */

struct sheaf__tensor_entry {
    const char *name; /* the format's */
    sheaf_dtype dtype;
    sheaf_shape shape;
    uint64_t bytes;           /* of its elements, as the format has them */
    bool text;                /* its strings are NumPy\'s of characters, here in UTF-8 */
    sheaf_status fault;       /* < 0: it cannot be read */
    const char *why;          /* and why not; static storage */
    const sheaf_error *cause; /* or the error itself; the format's */
    uint64_t
        place[2];  /* number of its file and offset there: in this order reading is sequential */
    size_t number; /* the format's own */
};

/* A format. Its functions are called for entries without a fault. */
struct sheaf__tensor_format {
    const char *name;
    void (*free)(sheaf_tensor_file *f); /* what comes with the format, and the object */
    /* A whole tensor, checksum verified. One count, the caller's. */
    sheaf_tensor *(*whole)(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                           sheaf_error *err);
    /* Verifies the checksum of a tensor that is then read in parts; NULL: there is none. */
    sheaf_status (*check)(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                          sheaf_error *err);
    /* Reads a slice, row-major. Not of strings. */
    sheaf_status (*part)(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                         const struct sheaf__slice *slice, void *out, sheaf_error *err);
};

/* What a format's own struct begins with. */
struct sheaf_tensor_file {
    const struct sheaf__tensor_format *format;
    char *path;
    struct sheaf__tensor_entry *entries; /* sorted by name once it is open */
    size_t count, capacity;
    const char
        *metadata;    /* texts that the file has beside its tensors, as JSON's members; "": none */
    uint8_t *chunk;   /* made when needed */
    uint8_t *scratch; /* the format's; made when needed */
    const struct sheaf__tensor_entry *checked;
};

/* For a format: sets up the struct of `size` bytes; NULL with err. */
void *sheaf__tensor_file_new(const struct sheaf__tensor_format *format, size_t size,
                             const char *path, sheaf_error *err);
/* Frees what sheaf__tensor_file_new() made. */
void sheaf__tensor_file_end(sheaf_tensor_file *f);
/* A new entry, zeroed, valid until the next call; NULL with err. */
struct sheaf__tensor_entry *sheaf__tensor_file_add(sheaf_tensor_file *f, sheaf_error *err);
/* Memory of SHEAF__TENSOR_FILE_CHUNK bytes at `*chunk`, made if it is not there. */
sheaf_status sheaf__tensor_file_buffer(uint8_t **chunk, sheaf_error *err);

sheaf_status sheaf__tensor_bundle_open(const char *path, sheaf_tensor_file **file,
                                       sheaf_error *err);
sheaf_status sheaf__safetensors_open(const char *path, sheaf_tensor_file **file, sheaf_error *err);
sheaf_status sheaf__npz_open(const char *path, sheaf_tensor_file **file, sheaf_error *err);
/* The checkpoint behind a file of tensors, borrowed; NULL: it is another format. */
sheaf_bundle *sheaf__tensor_bundle(sheaf_tensor_file *f);

/* The entry of a name, or NULL. */
const struct sheaf__tensor_entry *sheaf__tensor_file_find(const sheaf_tensor_file *f,
                                                          const char *name);
/* SHEAF_OK, or the error of an entry that cannot be read. */
sheaf_status sheaf__tensor_file_readable(const sheaf_tensor_file *f,
                                         const struct sheaf__tensor_entry *e, sheaf_error *err);
/* A whole tensor, the caller's count; NULL with err. */
sheaf_tensor *sheaf__tensor_file_whole(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                                       sheaf_error *err);

/* Whether it is the object graph: a string scalar in a checkpoint, a vector of bytes in other formats. */
bool sheaf__tensor_entry_is_graph(const struct sheaf__tensor_entry *e);
/* The bytes of the object graph in either form, in the tensor: the caller's count; NULL with err. */
sheaf_tensor *sheaf__tensor_file_graph(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                                       sheaf_bytes *bytes, sheaf_error *err);

/* A slice of a tensor of numbers in pieces, in row-major order. Each piece is valid until the next. */
struct sheaf__tensor_stream {
    sheaf_tensor_file *file;
    const struct sheaf__tensor_entry *entry;
    struct sheaf__slice slice;
    int64_t at, elements; /* given so far; in all */
    size_t width;
};
sheaf_status sheaf__tensor_stream_begin(struct sheaf__tensor_stream *s, sheaf_tensor_file *f,
                                        const struct sheaf__tensor_entry *e,
                                        const struct sheaf__slice *slice, sheaf_error *err);
/* SHEAF_END after the last. Pieces of two streams of one slice are equally long. */
sheaf_status sheaf__tensor_stream_next(struct sheaf__tensor_stream *s, const uint8_t **data,
                                       size_t *size, sheaf_error *err);

#endif
