#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program under valgrind: valgrind.sh PROGRAM [ARGUMENTS…]. What the process keeps until it ends can still be reached
# then and is no leak; the stacks of threads that live as long are what valgrind calls possibly lost.
exec valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect \
    --show-leak-kinds=definite,indirect "$@"
