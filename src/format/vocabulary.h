/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_VOCABULARY_H
#define SHEAF_FORMAT_VOCABULARY_H

/* Vocabularies from the inside: how they are made (vocabulary.c), and looked up in (lookup.c). */

#include "base/object.h"
#include "tensor/tensor.h"

#include <sheaf/features.h>

struct sheaf_vocabulary {
    struct sheaf__object object;
    bool integers; /* words are int64, else strings */
    bool invert;
    int64_t buckets;       /* indices of unknown words */
    int64_t start;         /* index of the first token */
    sheaf_tensor *mask;    /* scalars of the words' dtype; counted; NULL: none */
    sheaf_tensor *unknown; /* counted */
    sheaf_tensor *tokens;  /* contiguous, on the host; counted */
    int64_t count;         /* of tokens */
    uint32_t *slots;       /* hash table: number of a token + 1, or 0 */
    uint64_t slot_mask;    /* number of slots, a power of two, - 1 */
};

/* The token's number, -1 if it is none; `*slot` is where it stands or would. */
int64_t sheaf__vocabulary_find_bytes(const struct sheaf_vocabulary *v, sheaf_bytes word,
                                     uint64_t *slot);
int64_t sheaf__vocabulary_find_integer(const struct sheaf_vocabulary *v, int64_t word,
                                       uint64_t *slot);
sheaf_dtype sheaf__vocabulary_dtype(const struct sheaf_vocabulary *v); /* of words */
/* sheaf_lookup(); one count, the caller's. */
sheaf_tensor *sheaf__lookup(const struct sheaf_vocabulary *v, const sheaf_tensor *t,
                            sheaf_error *err);

#endif
