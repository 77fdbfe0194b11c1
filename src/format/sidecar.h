/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_SIDECAR_H
#define SHEAF_FORMAT_SIDECAR_H

/* What stands beside a checkpoint in the hidden file `.<name>.sheaf`, a JSON object: who sharded it,
 * in which run, whether it was the last one, how good it is, and the bytes of objects that TensorFlow has no place
 * for, such as positions in the input. TensorFlow does not look at it, and who lists
 * `<name>*` finds TensorFlow's files alone (C01). It is put in place before the index and carries the checksum of the index it
 * belongs to, so that one left behind by a save that did not finish is not taken for that of the checkpoint before; and, as its
 * last member, the checksum of what stands before that. */

#include <sheaf/status.h>

struct sheaf__sidecar_note {
    char *task; /* "/job:ps/replica:0/task:0" */
    char *text;
};

/* Bytes of an object that is no part of TensorFlow's checkpoints. */
struct sheaf__sidecar_blob {
    char *name; /* of the object: "input" */
    uint8_t *data;
    size_t size;
};

struct sheaf__sidecar {
    char *description; /* of the sharding policy; NULL: not known */
    char *run_id;      /* NULL or "": none */
    bool last;         /* the save that ended the run */
    bool has_measure;
    double measure; /* what the program gave with the save; finite */
    struct sheaf__sidecar_note *notes;
    size_t note_count, note_capacity;
    struct sheaf__sidecar_blob *blobs;
    size_t blob_count, blob_capacity;
};

/* Reads the sidecar of checkpoint `prefix` whose index has the CRC-32C `index_crc`. None, or one
 * that belongs to another index, gives a zeroed one. SHEAF_ERR_DATA_LOSS: it is damaged; or why it
 * cannot be read. */
sheaf_status sheaf__sidecar_read(const char *prefix, uint32_t index_crc, struct sheaf__sidecar *s,
                                 sheaf_error *err);
/* Puts it in place, durably. */
sheaf_status sheaf__sidecar_write(const char *prefix, uint32_t index_crc,
                                  const struct sheaf__sidecar *s, sheaf_error *err);
/* Adds a copy of a note. False: no memory. */
bool sheaf__sidecar_add(struct sheaf__sidecar *s, const char *task, const char *text);
/* The note of a task, or NULL. */
const char *sheaf__sidecar_note(const struct sheaf__sidecar *s, const char *task);
/* Adds a copy of bytes. False: no memory. */
bool sheaf__sidecar_add_blob(struct sheaf__sidecar *s, const char *name, const void *data,
                             size_t size);
/* The bytes of an object, or NULL. */
const struct sheaf__sidecar_blob *sheaf__sidecar_blob(const struct sheaf__sidecar *s,
                                                      const char *name);
void sheaf__sidecar_free(struct sheaf__sidecar *s);
/* Its path in new memory; NULL: no memory. */
char *sheaf__sidecar_path(const char *prefix);

#endif
