/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FEATURES_H
#define SHEAF_FEATURES_H

/** @file
 *  From what files hold to what models compute with: bytes and words as numbers.
 *
 *  The functions that give tensors are builders, as operations are: a failed tensor carries the error. For a whole dataset
 *  there are stages of the same names in dataset.h; inside a map's function these are called for an element. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_decode_raw_options {
    bool big_endian; /**< how the numbers lie in the bytes */
    /** Bytes taken of every string: longer ones are cut, shorter ones filled up with zero bytes; a multiple of the
     *  dtype's size. 0: all strings must have one size, which is such a multiple. */
    int64_t fixed_length;
    uint64_t reserved[4];
} sheaf_decode_raw_options;
/** The bytes of strings as numbers, which become a new last axis (R9.37). A large string alone is not copied but viewed,
 *  where the machine's own order allows. Floats, integers, complex numbers, bool (every byte but 0 is true). */
SHEAF_API sheaf_tensor *sheaf_decode_raw(sheaf_tensor *strings, sheaf_dtype dtype,
                                         const sheaf_decode_raw_options *options);

/** Words and their numbers. Immutable, counted, used by any number of threads. */
typedef struct sheaf_vocabulary sheaf_vocabulary;
typedef struct sheaf_vocabulary_options {
    /** The words in order: strings, int32 or int64. Special tokens may stand first (mask, then the token for unknown words
     *  as often as it has indices), the mask nowhere else (R10.28). */
    sheaf_tensor *tokens;
    /** In their place a file: one a line, without special tokens (R10.29). */
    const char *file;
    sheaf_dtype file_dtype;  /**< SHEAF_STRING (or 0), SHEAF_INT64: each line is a number */
    sheaf_tensor *mask;      /**< the word that stands for nothing, index 0; NULL: none */
    sheaf_tensor *unknown;   /**< what stands for unknown words; NULL: "[UNK]", -1 */
    int64_t unknown_indices; /**< so many indices for them, by their hash (R10.26); 0: 1 */
    bool no_unknown;         /**< none: an unknown word is an error */
    bool invert;             /**< looks up indices, gives words (R10.27) */
    int64_t max_tokens;      /**< most words of `tokens`, special ones included; 0: any number */
    uint64_t reserved[4];
} sheaf_vocabulary_options;
/** Indices are: the mask, the unknown words, then the tokens in order (R10.25). SHEAF_ERR_INVALID_ARGUMENT: no tokens, one
 *  that is there twice, an option that cannot be, no such file, an empty line; SHEAF_ERR_FAILED_PRECONDITION: a line that is
 *  there twice. */
SHEAF_CHECKED sheaf_status sheaf_vocabulary_new(const sheaf_vocabulary_options *options,
                                                sheaf_vocabulary **vocabulary, sheaf_error *err);
/** One count more; returns it. */
SHEAF_API sheaf_vocabulary *sheaf_vocabulary_ref(sheaf_vocabulary *vocabulary);
SHEAF_API void sheaf_vocabulary_free(sheaf_vocabulary *vocabulary);
/** Number of its indices. */
SHEAF_API int64_t sheaf_vocabulary_size(const sheaf_vocabulary *vocabulary);
/** The words by index, special tokens included (R10.30). */
SHEAF_API sheaf_tensor *sheaf_vocabulary_tokens(const sheaf_vocabulary *vocabulary);
/** The indices (int64) of words of any shape, or with `invert` the words of indices. Sparse and ragged tensors keep their
 *  layout. SHEAF_ERR_INVALID_ARGUMENT: an unknown word without an index for it is named. */
SHEAF_API sheaf_tensor *sheaf_lookup(const sheaf_vocabulary *vocabulary, sheaf_tensor *t);

SHEAF_END_DECLS

#endif
