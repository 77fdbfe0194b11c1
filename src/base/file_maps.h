/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FILE_MAPS_H
#define SHEAF_BASE_FILE_MAPS_H

/* Maps of files that are kept for whoever reads the same files again: a process that maps a file anew
 * is given its pages anew, one by one, and takes nearly as long for that as for a look at every byte.
 *
 * A map is for the file as it was: name, device, inode, size and time of the last change. Kept are those
 * that came first, up to a number of bytes, and none is given up for another: who goes through more
 * files than that, again and again, would find none. What nobody asked for in a whole round is given
 * up; readers that overlap are one round. Any thread. */

#include "base/file.h"
#include "base/list.h"
#include "base/thread.h"

/* Zeroed is empty. */
struct sheaf__file_maps {
    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__list kept;  /* what was asked for last is last */
    size_t count;
    _Atomic uint64_t bytes; /* of all that is kept */
    uint64_t most;          /* that they may be */
    uint64_t round;
    int readers;
};

/* A reader begins, with so many bytes at most, and ends. */
void sheaf__file_maps_begin(struct sheaf__file_maps *maps, uint64_t most);
void sheaf__file_maps_end(struct sheaf__file_maps *maps);
/* The map of an open file that can be mapped, as sheaf__file_map_open() makes it. `maps` NULL: a new one. */
sheaf_status sheaf__file_maps_get(struct sheaf__file_maps *maps, struct sheaf__file *file,
                                  struct sheaf__map **map, sheaf_error *err);
/* Bytes that are kept now. `maps` may be NULL. */
uint64_t sheaf__file_maps_bytes(const struct sheaf__file_maps *maps);
/* Gives all up. Usable again. */
void sheaf__file_maps_clear(struct sheaf__file_maps *maps);

#endif
