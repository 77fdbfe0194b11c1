/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_DISTRIBUTE_TRAINING_H
#define SHEAF_TEST_DISTRIBUTE_TRAINING_H

/* A small network on fixed data, trained under any strategy: its losses must be the same ones. */

#include <sheaf/sheaf.h>

enum { TRAINING_STEPS = 12 };

struct training {
    double losses[TRAINING_STEPS];
    float weights[64]; /* of the first layer at the end */
};

/* Trains under `s` with that optimizer, and frees what it made. Global batches of 8; the last one of each pass is short. */
sheaf_status train(sheaf_strategy *s, const char *optimizer, struct training *t, sheaf_error *err);

#endif
