/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_EXAMPLE_H
#define SHEAF_FORMAT_EXAMPLE_H

/* Parsing batches of tf.train.Example (formats.md 3) straight into the memory of columns.
 *
 * A parser is made once from the features and used by any number of threads at once. It follows
 * protobuf's rules (fields in any order, packed and unpacked lists mixed, the last of repeated keys
 * and of a oneof wins, unknown fields are skipped), not the short cuts of TensorFlow's parser. */

#include <sheaf/example.h>

struct sheaf__example_parser;

/* Copies all of `features`. SHEAF_ERR_INVALID_ARGUMENT: a feature that cannot be (no key, a dtype
 * but int64, float32, string, a bad size, the same key or the same name twice). */
sheaf_status sheaf__example_parser_new(const sheaf_feature *features, size_t count,
                                       struct sheaf__example_parser **parser, sheaf_error *err);
/* A count of the parser; given back with _free. */
struct sheaf__example_parser *sheaf__example_parser_ref(struct sheaf__example_parser *parser);
void sheaf__example_parser_free(struct sheaf__example_parser *parser);
size_t sheaf__example_parser_size(const struct sheaf__example_parser *parser);
const sheaf_feature *sheaf__example_parser_feature(const struct sheaf__example_parser *parser,
                                                   size_t i);

/* What is parsed: `count` messages. Strings in the result are views into them; what keeps the bytes
 * alive is said by `like` (a string tensor whose elements they are) or `owners` (counted objects),
 * and the result takes counts of it. With neither the strings are copied. */
struct sheaf__example_input {
    const sheaf_bytes *serialized;
    size_t count;
    const sheaf_tensor *like;
    void *const *owners;
    size_t owner_count;
    bool single; /* `count` is 1, and the batch axis is left out, as parse_single_example does */
};

/* Parses into one element of the frame: sheaf_example_parse() with a parser made before. */
sheaf_status sheaf__example_parser_run(const struct sheaf__example_parser *parser,
                                       const struct sheaf__example_input *input,
                                       sheaf_element **element, sheaf_error *err);

#endif
