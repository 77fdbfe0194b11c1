/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIMIZER_H
#define SHEAF_OPTIMIZER_H

/** @file
 *  Optimizers: update rules, learning-rate schedules, clipping (tf-semantics 12.2).
 *
 *  Slots live beside the variable they belong to, the update runs there. One optimizer serves one set of variables and
 *  one strategy. Builders latch errors; the first minimize reports them. Workers that step together must have the same rule and
 *  numbers, which they compare in the first update: SHEAF_ERR_FAILED_PRECONDITION names the first that differs. */

#include <sheaf/ops.h>
#include <sheaf/variable.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_optimizer sheaf_optimizer;
typedef struct sheaf_schedule sheaf_schedule;

/** Which of TensorFlow's three families of formulas and defaults to follow (12.2). */
typedef enum sheaf_optimizer_family {
    /** tf.keras of 2.16 and later, but repeated rows of a sparse gradient are summed first and rows without one stay as
     *  they are, unless keras3_sparse is set (R12.4) */
    SHEAF_OPTIMIZER_KERAS3 = 0,
    SHEAF_OPTIMIZER_LEGACY = 1, /**< tf-keras' legacy classes */
    SHEAF_OPTIMIZER_V1 = 2      /**< tf.compat.v1.train */
} sheaf_optimizer_family;

/** Options of every optimizer. A field that a rule does not know must be 0. */
typedef struct sheaf_optimizer_options {
    const char *name;         /**< NULL: the rule's own ("SGD") */
    double learning_rate;     /**< 0: the family's default */
    sheaf_schedule *schedule; /**< instead of learning_rate; the optimizer takes a count */
    double momentum;          /**< sgd, rmsprop */
    bool nesterov;            /**< sgd */
    double beta1, beta2;      /**< adam, adamax, nadam, lion; 0: 0.9, 0.999 (lion: 0.99) */
    bool has_beta1, has_beta2;
    double epsilon; /**< 0: the family's default */
    bool has_epsilon;
    bool amsgrad;               /**< adam */
    double initial_accumulator; /**< adagrad, ftrl; 0: 0.1 */
    bool has_initial_accumulator;
    double rho;    /**< rmsprop; 0: 0.9. adadelta; 0: 0.95 */
    bool centered; /**< rmsprop */
    double l1, l2, l2_shrinkage, beta, learning_rate_power; /**< ftrl; power 0: -0.5 */
    double decay;                                           /**< legacy: lr / (1 + decay (t - 1)) */
    double weight_decay;                                    /**< keras3 */
    double clipvalue;                                       /**< at most one of the three */
    double clipnorm;                                        /**< each gradient */
    double global_clipnorm;                                 /**< all gradients together */
    sheaf_optimizer_family family;
    /** keras3: squares of repeated rows summed one by one, untouched rows decay (R12.4) */
    bool keras3_sparse;
    uint64_t reserved[4];
} sheaf_optimizer_options;

/** Makers. Freed with sheaf_optimizer_free(). */
SHEAF_API sheaf_optimizer *sheaf_sgd(const sheaf_optimizer_options *options);
SHEAF_API sheaf_optimizer *sheaf_adam(const sheaf_optimizer_options *options);
SHEAF_API sheaf_optimizer *sheaf_adagrad(const sheaf_optimizer_options *options);
SHEAF_API sheaf_optimizer *sheaf_rmsprop(const sheaf_optimizer_options *options);
SHEAF_API sheaf_optimizer *sheaf_ftrl(const sheaf_optimizer_options *options);
SHEAF_API sheaf_optimizer *sheaf_adadelta(const sheaf_optimizer_options *options); /**< not v1 */
SHEAF_API sheaf_optimizer *sheaf_adamax(const sheaf_optimizer_options *options);   /**< not v1 */
SHEAF_API sheaf_optimizer *sheaf_nadam(const sheaf_optimizer_options *options);    /**< keras3 */
SHEAF_API sheaf_optimizer *sheaf_lion(const sheaf_optimizer_options *options);     /**< keras3 */
/** By name: "sgd", "momentum" (sgd with momentum 0.9 unless given), "adam", "adagrad", "rmsprop", "ftrl", "adadelta",
 *  "adamax", "nadam", "lion". An unknown one latches SHEAF_ERR_INVALID_ARGUMENT that lists them. */
SHEAF_API sheaf_optimizer *sheaf_optimizer_named(const char *rule,
                                                 const sheaf_optimizer_options *options);
SHEAF_API void sheaf_optimizer_free(sheaf_optimizer *o);

/** Makes the slots of the trainable ones among `variables`, which are all the optimizer will serve, as Keras's build does: so
 *  that a checkpoint restored before the first step has somewhere to go. Without it the first minimize does so. Under a
 *  strategy: in its scope, by every task alike. */
SHEAF_CHECKED sheaf_status sheaf_optimizer_build(sheaf_optimizer *o,
                                                 sheaf_variable *const *variables, size_t count,
                                                 sheaf_error *err);

/** Takes the gradient of `loss` with respect to every trainable variable the tape saw and applies it: reduced over
 *  replicas and workers under a synchronous strategy (SUM), pushed to the parameter servers under "ps". A variable that some
 *  replicas used counts as zeros on the others, a table that they looked up in as no rows (R4.53); one that is looked up in
 *  here and read whole there is SHEAF_ERR_INVALID_ARGUMENT. So is a loss that depends on none of the variables, Keras's "No
 *  gradients provided for any variable"; where it does not depend on some, one warning names them. Nothing is applied before
 *  the last gradient is reduced. In a replica step of the strategy the variables were made in; or without strategy,
 *  variables of none. The frame has the error, too. */
SHEAF_API sheaf_status sheaf_optimizer_minimize(sheaf_optimizer *o, sheaf_tape *tape,
                                                sheaf_tensor *loss);

/** Applies given gradients: `gradients[i]` to `variables[i]`, reduced as by minimize; one that is there twice is updated twice.
 *  SHEAF_ERR_INVALID_ARGUMENT: no gradients, among others. */
SHEAF_CHECKED sheaf_status sheaf_optimizer_apply(sheaf_optimizer *o,
                                                 sheaf_variable *const *variables,
                                                 sheaf_tensor *const *gradients, size_t count,
                                                 sheaf_error *err);

/** Steps applied so far (TensorFlow's `iterations`), and the learning rate of the next. Under "ps" they are those of all workers,
 *  and a parameter server is asked for them; if it does not answer, what this worker knew last. */
SHEAF_API int64_t sheaf_optimizer_iterations(const sheaf_optimizer *o);
SHEAF_API double sheaf_optimizer_learning_rate(const sheaf_optimizer *o);

/** For checkpoints: iterations, learning rate and the slots of its variables. Borrowed. */
SHEAF_API sheaf_trackable *sheaf_optimizer_trackable(sheaf_optimizer *o);

/* Schedules: learning rate as a function of the step from 0. Freed with sheaf_schedule_free(). */
SHEAF_API sheaf_schedule *sheaf_schedule_exponential(double initial, double decay_steps,
                                                     double decay_rate, bool staircase);
SHEAF_API sheaf_schedule *sheaf_schedule_cosine(double initial, double decay_steps, double alpha,
                                                double warmup_steps, double warmup_target);
SHEAF_API sheaf_schedule *sheaf_schedule_polynomial(double initial, double decay_steps, double end,
                                                    double power, bool cycle);
SHEAF_API sheaf_schedule *sheaf_schedule_piecewise(const int64_t *boundaries, const double *values,
                                                   size_t boundary_count);
SHEAF_API sheaf_schedule *sheaf_schedule_inverse_time(double initial, double decay_steps,
                                                      double decay_rate, bool staircase);
/** The rate at `step`. */
SHEAF_API double sheaf_schedule_at(const sheaf_schedule *s, int64_t step);
SHEAF_API void sheaf_schedule_free(sheaf_schedule *s);

SHEAF_END_DECLS

#endif
