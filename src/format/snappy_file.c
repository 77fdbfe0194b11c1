/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/snappy.h"

#include <string.h>

#define HEAD  4            /* bytes of a block's size */
#define BLOCK (256 * 1024) /* data of one block that we write */

/* ---- reading ---- */

struct sheaf__unsnap {
    uint64_t consumed; /* bytes of the file so far */
    uint8_t head[HEAD];
    size_t head_size;
    uint8_t *block; /* what came of the block of the head */
    size_t block_size, block_capacity;
    uint8_t *data; /* decoded, for want of room for it: [data_at, data_size) is left */
    size_t data_at, data_size, data_capacity;
};

sheaf_status sheaf__unsnap_new(struct sheaf__unsnap **z, sheaf_error *err)
{
    *z = sheaf__calloc(1, sizeof(**z));
    return *z ? SHEAF_OK : sheaf__no_memory(err, "decompression");
}

void sheaf__unsnap_free(struct sheaf__unsnap *z)
{
    if (!z)
        return;
    sheaf__free(z->block);
    sheaf__free(z->data);
    sheaf__free(z);
}

void sheaf__unsnap_reset(struct sheaf__unsnap *z)
{
    z->consumed = 0;
    z->head_size = z->block_size = z->data_at = z->data_size = 0;
}

bool sheaf__unsnap_at_end(const struct sheaf__unsnap *z)
{
    return z->head_size == 0 && z->data_at == z->data_size;
}

bool sheaf__unsnap_at_size(const struct sheaf__unsnap *z)
{
    return z->head_size > 0 && z->head_size < HEAD;
}

static void take_in(struct sheaf__unsnap *z, struct sheaf__zip_io *io, size_t size)
{
    io->in += size;
    io->in_size -= size;
    z->consumed += size;
}

static void put_out(struct sheaf__zip_io *io, size_t size)
{
    io->out += size;
    io->out_size -= size;
}

/* The size of the block, if all of its head is here. */
static bool read_head(struct sheaf__unsnap *z, struct sheaf__zip_io *io, size_t *size)
{
    while (z->head_size < HEAD && io->in_size > 0) {
        z->head[z->head_size++] = *io->in;
        take_in(z, io, 1);
    }
    *size =
        (size_t)z->head[0] << 24 | (size_t)z->head[1] << 16 | (size_t)z->head[2] << 8 | z->head[3];
    return z->head_size == HEAD;
}

/* All of the block's `size` bytes, in the input or gathered; NULL with SHEAF_OK: not yet. */
static sheaf_status read_block(struct sheaf__unsnap *z, struct sheaf__zip_io *io, size_t size,
                               const uint8_t **block, sheaf_error *err)
{
    *block = NULL;
    if (z->block_size == 0 && io->in_size >= size) {
        *block = io->in;
        take_in(z, io, size);
        return SHEAF_OK;
    }
    const size_t left = size - z->block_size, part = io->in_size < left ? io->in_size : left;
    if (!sheaf__array_reserve(&z->block, &z->block_capacity, z->block_size + part, 1))
        return sheaf__no_memory(err, "a compressed block");
    if (part > 0)
        memcpy(z->block + z->block_size, io->in, part);
    z->block_size += part;
    take_in(z, io, part);
    if (part == left)
        *block = z->block;
    return SHEAF_OK;
}

/* To the output if it has room, else to be handed out in parts. */
static sheaf_status decode(struct sheaf__unsnap *z, struct sheaf__zip_io *io, const uint8_t *block,
                           size_t size, sheaf_error *err)
{
    size_t decoded;
    bool right = sheaf__snappy_size(block, size, &decoded);
    if (right && decoded <= io->out_size) {
        right = sheaf__snappy_decode(block, size, io->out, decoded);
        put_out(io, right ? decoded : 0);
    } else if (right) {
        if (!sheaf__array_reserve(&z->data, &z->data_capacity, decoded, 1))
            return sheaf__no_memory(err, "a compressed block");
        right = sheaf__snappy_decode(block, size, z->data, decoded);
        z->data_at = 0;
        z->data_size = right ? decoded : 0;
    }
    if (!right)
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                            "bad Snappy block of %zu bytes before compressed byte %llu", size,
                            (unsigned long long)z->consumed);
    z->head_size = z->block_size = 0;
    return SHEAF_OK;
}

static void hand_out(struct sheaf__unsnap *z, struct sheaf__zip_io *io)
{
    const size_t left = z->data_size - z->data_at;
    const size_t part = left < io->out_size ? left : io->out_size;
    if (part > 0)
        memcpy(io->out, z->data + z->data_at, part);
    z->data_at += part;
    put_out(io, part);
}

sheaf_status sheaf__unsnap_next(struct sheaf__unsnap *z, struct sheaf__zip_io *io, sheaf_error *err)
{
    for (;;) {
        size_t size;
        const uint8_t *block;
        hand_out(z, io);
        if (sheaf__unsnap_at_end(z) && io->in_size == 0)
            return SHEAF_END;
        if (z->data_at < z->data_size || !read_head(z, io, &size))
            return SHEAF_OK;
        SHEAF__TRY(read_block(z, io, size, &block, err));
        if (!block)
            return SHEAF_OK;
        SHEAF__TRY(decode(z, io, block, size, err));
    }
}

/* ---- writing ---- */

struct sheaf__snap {
    size_t used; /* of data */
    size_t packed_at, packed_size;
    uint16_t table[SHEAF__SNAPPY_TABLE];
    uint8_t data[BLOCK]; /* of the next block */
    uint8_t packed[];    /* the last block, of which [packed_at, packed_size) is to go out */
};

sheaf_status sheaf__snap_new(struct sheaf__snap **z, sheaf_error *err)
{
    struct sheaf__snap *made = sheaf__alloc(sizeof(*made) + HEAD + sheaf__snappy_bound(BLOCK));
    if (!made)
        return sheaf__no_memory(err, "compression");
    made->used = made->packed_at = made->packed_size = 0;
    *z = made;
    return SHEAF_OK;
}

void sheaf__snap_free(struct sheaf__snap *z)
{
    sheaf__free(z);
}

static void pack(struct sheaf__snap *z)
{
    const size_t size = sheaf__snappy_encode(z->data, z->used, z->packed + HEAD, z->table);
    for (int i = 0; i < HEAD; i++)
        z->packed[i] = (uint8_t)(size >> (8 * (HEAD - 1 - i)));
    z->packed_at = 0;
    z->packed_size = HEAD + size;
    z->used = 0;
}

sheaf_status sheaf__snap_next(struct sheaf__snap *z, struct sheaf__zip_io *io, bool finish)
{
    for (;;) {
        const size_t left = z->packed_size - z->packed_at;
        const size_t out = left < io->out_size ? left : io->out_size;
        if (out > 0)
            memcpy(io->out, z->packed + z->packed_at, out);
        z->packed_at += out;
        put_out(io, out);
        if (out < left)
            return SHEAF_OK;
        const size_t room = BLOCK - z->used;
        const size_t in = io->in_size < room ? io->in_size : room;
        if (in > 0)
            memcpy(z->data + z->used, io->in, in);
        z->used += in;
        io->in += in;
        io->in_size -= in;
        if (z->used == 0 && finish)
            return SHEAF_END;
        if (z->used < BLOCK && !finish)
            return SHEAF_OK;
        pack(z);
    }
}
