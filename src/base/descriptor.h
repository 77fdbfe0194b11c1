/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_DESCRIPTOR_H
#define SHEAF_BASE_DESCRIPTOR_H

/* Every descriptor that the library opens comes through here. */

/* Moves a descriptor out of the first three, closed across exec: a program that was started with one
 * of them closed still prints there, and would print into our file or connection. -1 (the descriptor
 * that was asked for could not be opened) stays as it is. -1 with errno: there is none left, and
 * `fd` is closed. */
int sheaf__descriptor(int fd);

#endif
