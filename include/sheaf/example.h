/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_EXAMPLE_H
#define SHEAF_EXAMPLE_H

/** @file
 *  tf.train.Example: building messages, and parsing batches of them into columns. */

#include <sheaf/element.h>

SHEAF_BEGIN_DECLS

/** How a feature becomes a tensor. Of sparse and ragged ones sheaf_tensor_values() and its like give the parts. */
typedef enum sheaf_feature_kind {
    SHEAF_FEATURE_FIXED = 0, /**< FixedLenFeature: shape of every example is `shape` */
    SHEAF_FEATURE_VAR = 1,   /**< VarLenFeature: sparse */
    SHEAF_FEATURE_RAGGED = 2 /**< RaggedFeature: values and row splits */
} sheaf_feature_kind;

/** One feature to parse. */
typedef struct sheaf_feature {
    const char *key;   /**< name in the Example, and of the tensor unless `name` is given */
    sheaf_dtype dtype; /**< SHEAF_INT64, SHEAF_FLOAT32 or SHEAF_STRING */
    sheaf_feature_kind kind;
    int rank; /**< FIXED: axes of one example, 0 for a scalar */
    /** FIXED: their sizes; the first may be SHEAF_UNKNOWN_DIM (padded with the default) */
    int64_t dims[4];
    /** FIXED: value when the key is missing or has no values (T34): elements of the shape (sheaf_bytes for strings);
     *  NULL: the key is required. Copied. */
    const void *default_value;
    const char *name;
    uint64_t reserved[4];
} sheaf_feature;

/** Parses `count` serialized Examples into one element: tensor i has shape (count, dims of feature i).
 *  SHEAF_ERR_INVALID_ARGUMENT: names the key, the number of the example in the batch, found and expected; SHEAF_ERR_DATA_LOSS: the
 *  bytes are no Example. The element belongs to the frame. */
SHEAF_CHECKED sheaf_status sheaf_example_parse(const sheaf_bytes *serialized, size_t count,
                                               const sheaf_feature *features, size_t feature_count,
                                               sheaf_element **element, sheaf_error *err);

/** Builds one Example message. Builder: errors come out of sheaf_example_serialize(). */
typedef struct sheaf_example sheaf_example;
SHEAF_API sheaf_example *sheaf_example_new(void);
SHEAF_API void sheaf_example_int64(sheaf_example *x, const char *key, const int64_t *values,
                                   size_t n);
SHEAF_API void sheaf_example_float(sheaf_example *x, const char *key, const float *values,
                                   size_t n);
SHEAF_API void sheaf_example_bytes(sheaf_example *x, const char *key, const sheaf_bytes *values,
                                   size_t n);
/** The message with keys in order of insertion; valid until the example is changed or freed. */
SHEAF_CHECKED sheaf_status sheaf_example_serialize(sheaf_example *x, sheaf_bytes *message,
                                                   sheaf_error *err);
/** Empties it for the next message. */
SHEAF_API void sheaf_example_clear(sheaf_example *x);
SHEAF_API void sheaf_example_free(sheaf_example *x);

/** Writes a readable text of a serialized Example ("image: int64[64] 0 0 5 …") as snprintf does, lists cut after `most`
 *  values; returns 0 if the bytes are none. */
SHEAF_API size_t sheaf_example_format(sheaf_bytes serialized, size_t most, char *text, size_t size);
/** The same as JSON: {"image":[0,0,5],"label":[4]}. Strings that are no UTF-8 become {"b64":"…"}, as TensorFlow Serving
 *  writes them; floats that are no numbers "NaN", "Infinity" and "-Infinity", as protobuf does. */
SHEAF_API size_t sheaf_example_json(sheaf_bytes serialized, size_t most, char *text, size_t size);

SHEAF_END_DECLS

#endif
