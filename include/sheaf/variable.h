/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_VARIABLE_H
#define SHEAF_VARIABLE_H

/** @file
 *  Variables: state that a step reads and an optimizer changes.
 *
 *  A variable made inside a strategy's scope lives where the strategy says (copies on every replica, one copy on a
 *  parameter server, rows over several); outside it is a plain one. All are read and written through the same calls,
 *  which follow the calling thread's mode as the table in design section 4 says. */

#include <sheaf/element.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_variable sheaf_variable;
/** Something a checkpoint can walk: a variable, an optimizer, an iterator, a group of them. */
typedef struct sheaf_trackable sheaf_trackable;

/** How the values that replicas write are combined (R5.1). */
typedef enum sheaf_aggregation {
    SHEAF_AGGREGATION_NONE = 0,
    SHEAF_AGGREGATION_SUM = 1,
    SHEAF_AGGREGATION_MEAN = 2,
    SHEAF_AGGREGATION_ONLY_FIRST_REPLICA = 3
} sheaf_aggregation;

/** When the copies are brought together (R5.1). */
typedef enum sheaf_synchronization {
    SHEAF_SYNCHRONIZATION_AUTO = 0,
    SHEAF_SYNCHRONIZATION_NONE = 1,
    SHEAF_SYNCHRONIZATION_ON_WRITE = 2,
    SHEAF_SYNCHRONIZATION_ON_READ = 3
} sheaf_synchronization;

typedef struct sheaf_variable_options {
    bool not_trainable; /**< the tape does not follow it; implied by ON_READ (R5.2) */
    sheaf_synchronization synchronization;
    sheaf_aggregation aggregation;
    /** Under parameter servers: on the server that has this variable of the same strategy (its part 0), whole whatever the
     *  partitioner says, and out of turn (R5.32, R5.45). Elsewhere it has no effect. NULL: in turn */
    sheaf_variable *colocate_with;
    uint64_t reserved[4];
} sheaf_variable_options;

/** Elements [first, first + count) of a variable of that dtype and shape, in row-major order. */
typedef struct sheaf_initial_part {
    sheaf_dtype dtype;
    sheaf_shape shape; /**< of the whole variable */
    uint64_t first, count;
} sheaf_initial_part;
/** Writes a part of an initial value to `data`. Called once per part, on any thread, so that a table larger than memory is
 *  made where it lives. Deterministic in the seed and the elements' numbers. One that cannot says so (sheaf_error_set()), which
 *  is the variable's error. */
typedef void (*sheaf_initializer_fn)(void *data, const sheaf_initial_part *part, uint64_t seed,
                                     const double *args);
/** An initial value by function. Use the makers below. */
typedef struct sheaf_initializer {
    sheaf_initializer_fn fill;
    uint64_t seed;  /**< 0: the next seed of the context */
    double args[4]; /**< meaning is the function's */
} sheaf_initializer;
/** Of any dtype; empty strings. */
SHEAF_API sheaf_initializer sheaf_init_zeros(void);
/** Of a dtype that sheaf_fill() makes. */
SHEAF_API sheaf_initializer sheaf_init_constant(double value);
/** As sheaf_random_uniform() and sheaf_random_normal() (ops.h); what these refuse is latched in the variable. */
SHEAF_API sheaf_initializer sheaf_init_uniform(double low, double high, uint64_t seed);
SHEAF_API sheaf_initializer sheaf_init_normal(double mean, double deviation, uint64_t seed);
/** Uniform within sqrt(6 / (fan in + fan out)), Keras's default for dense layers. */
SHEAF_API sheaf_initializer sheaf_init_glorot_uniform(uint64_t seed);

/** A variable with that initial value. `name` NULL: "Variable". Builder: an error (a failed tensor, a bad combination of
 *  options) is latched and comes out of the first use. Strings are not supported on parameter servers: there that is such
 *  an error. Freed with sheaf_variable_free(). */
SHEAF_API sheaf_variable *sheaf_variable_new(const char *name, sheaf_tensor *initial,
                                             const sheaf_variable_options *options);
/** The same by dtype, shape and initializer. */
SHEAF_API sheaf_variable *sheaf_variable_init(const char *name, sheaf_dtype dtype,
                                              sheaf_shape shape, sheaf_initializer initializer,
                                              const sheaf_variable_options *options);
SHEAF_API sheaf_variable *sheaf_variable_ref(sheaf_variable *v);
SHEAF_API void sheaf_variable_free(sheaf_variable *v);

/** The value now, as a tensor of the frame; later writes do not change it. */
SHEAF_API sheaf_tensor *sheaf_value(sheaf_variable *v);
/** Rows `ids` of a table; asks each part of a partitioned one for its rows only. Sparse gradient. */
SHEAF_API sheaf_tensor *sheaf_embedding_lookup(sheaf_variable *table, sheaf_tensor *ids);

/** Writes. In a replica the values are combined by the aggregation (R5.9), across replicas every copy is written (R5.11).
 *  SHEAF_ERR_INVALID_ARGUMENT: another shape or dtype, or a combination the rules refuse. */
SHEAF_CHECKED sheaf_status sheaf_assign(sheaf_variable *v, sheaf_tensor *value, sheaf_error *err);
SHEAF_CHECKED sheaf_status sheaf_assign_add(sheaf_variable *v, sheaf_tensor *delta,
                                            sheaf_error *err);
SHEAF_CHECKED sheaf_status sheaf_assign_sub(sheaf_variable *v, sheaf_tensor *delta,
                                            sheaf_error *err);

/** SHEAF_OK or the error latched when it was made. */
SHEAF_API sheaf_status sheaf_variable_status(const sheaf_variable *v, sheaf_error *err);
SHEAF_API const char *sheaf_variable_name(const sheaf_variable *v);
SHEAF_API sheaf_dtype sheaf_variable_dtype(const sheaf_variable *v);
SHEAF_API sheaf_shape sheaf_variable_shape(const sheaf_variable *v);
SHEAF_API bool sheaf_variable_trainable(const sheaf_variable *v);
/** Full name of the device the value (copy 0, part 0) lives on: "/job:ps/task:0". */
SHEAF_API const char *sheaf_variable_device(const sheaf_variable *v);
/** Copies in this process: replicas of a mirrored one, else 1. */
SHEAF_API int sheaf_variable_copies(const sheaf_variable *v);
/** Parts over parameter servers: 1 unless partitioned (partitioner.h); and the device of part `i`. */
SHEAF_API int sheaf_variable_parts(const sheaf_variable *v);
SHEAF_API const char *sheaf_variable_part_device(const sheaf_variable *v, int i);
/** Copy `replica` of a mirrored or sync-on-read variable, the variable itself of others. Borrowed. */
SHEAF_API sheaf_variable *sheaf_variable_copy(sheaf_variable *v, int replica);
/** Its text (P5.3, P5.4): "<tf.Variable 'w:0' shape=(2,) …>", "MirroredVariable:{…}". Text of the frame. */
SHEAF_API const char *sheaf_variable_str(sheaf_variable *v);

/** For checkpoints; borrowed, lives as long as the variable. */
SHEAF_API sheaf_trackable *sheaf_variable_trackable(sheaf_variable *v);
/** The random numbers of the current context as a part of checkpoints: its global seed, and how far the sequence is that seeds
 *  operations, initializers and shuffles without a seed of their own. Who goes on from the checkpoint draws what the first run
 *  would have drawn. Without a global seed nothing is restored. Of several tasks it is that of the one that saves, for all.
 *  Borrowed, lives as long as the context. */
SHEAF_API sheaf_trackable *sheaf_random_trackable(void);

/** A hook on the creation of variables: may change name, options or initializer, then must call
 *  sheaf_variable_create_next(request) and return its result, or a variable of its own; NULL is the variable's error. */
typedef struct sheaf_variable_request {
    const char *name;
    sheaf_dtype dtype;
    sheaf_shape shape;
    sheaf_tensor *initial; /**< NULL: `initializer` */
    sheaf_initializer initializer;
    sheaf_variable_options options;
    void *next; /**< the library's */
} sheaf_variable_request;
typedef sheaf_variable *(*sheaf_variable_creator_fn)(sheaf_variable_request *request, void *user);
SHEAF_API sheaf_variable *sheaf_variable_create_next(sheaf_variable_request *request);

/** Runs `fn` for every variable the calling thread makes in the block; hooks nest, innermost first (S91). Without a function
 *  the block does not run and sheaf_frame_status() has the error. */
#define SHEAF_CREATOR(fn, user)                                                \
    for (sheaf_creator_scope SHEAF_BLOCK_NAME(sheaf_creator_)                  \
             __attribute__((cleanup(sheaf_creator_scope_leave))) = SHEAF_ZERO; \
         sheaf_creator_scope_enter(&SHEAF_BLOCK_NAME(sheaf_creator_), (fn), (user));)
typedef struct sheaf_creator_scope {
    struct sheaf_creator_scope *parent;
    sheaf_variable_creator_fn fn;
    void *user;
    int32_t open, reserved;
} sheaf_creator_scope;
SHEAF_API bool sheaf_creator_scope_enter(sheaf_creator_scope *scope, sheaf_variable_creator_fn fn,
                                         void *user);
SHEAF_API void sheaf_creator_scope_leave(sheaf_creator_scope *scope);

SHEAF_END_DECLS

#endif
