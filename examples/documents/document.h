/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCUMENTS_DOCUMENT_H
#define DOCUMENTS_DOCUMENT_H

/** @file
 *  What the programs of this folder begin with: arguments, a strategy over some logical CPUs, and what to do about errors. */

#include <sheaf/sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The error of the call that failed last. */
static sheaf_error err;

/** Ends the program with the error of a call that failed. */
__attribute__((unused)) static void must(sheaf_status status)
{
    if (status < 0)
        exit(sheaf_error_exit(&err));
}

/** The integer given on the command line at `position` (1 = first), or `otherwise`. */
__attribute__((unused)) static int argument(int argc, char **argv, int position, int otherwise)
{
    return argc > position ? atoi(argv[position]) : otherwise;
}

/** A MirroredStrategy over `replicas` logical CPUs. */
__attribute__((unused)) static sheaf_strategy *mirrored(int replicas)
{
    sheaf_strategy *strategy = NULL;
    must(sheaf_devices_configure(replicas, &err));
    must(sheaf_strategy_new("MirroredStrategy", NULL, NULL, &strategy, &err));
    return strategy;
}

/** A step that returns its input. */
__attribute__((unused)) static sheaf_status identity(sheaf_replica *r, const sheaf_element *in,
                                                     sheaf_element *out, void *user)
{
    (void)r;
    (void)user;
    for (size_t i = 0; i < sheaf_element_size(in); i++)
        sheaf_element_put(out, sheaf_element_name(in, i), sheaf_element_at(in, i));
    return SHEAF_OK;
}

#endif
