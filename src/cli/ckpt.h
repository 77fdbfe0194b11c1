/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_CKPT_H
#define SHEAF_CLI_CKPT_H

/* What the subcommands of sheaf ckpt have in common. */

#include <sheaf/tensor_file.h>

enum { SHEAF__CKPT_PATH = 4096 };

/* The path that an argument means: of a directory its newest checkpoint, of an index its prefix. SHEAF_ERR_NOT_FOUND: there is
 * nothing of this name. */
sheaf_status sheaf__ckpt_resolve(const char *name, char path[SHEAF__CKPT_PATH], sheaf_error *err);
/* What the name of a file says of its format; neither: a checkpoint. */
bool sheaf__ckpt_is_safetensors(const char *path);
bool sheaf__ckpt_is_npz(const char *path);
/* What makes a plural of a word behind the count: "1 tensor", "2 tensors". */
static inline const char *sheaf__plural(int64_t count)
{
    return count == 1 ? "" : "s";
}
/* Prints the error; the exit code. */
int sheaf__ckpt_failed(const sheaf_error *err);

/* Each has a file ckpt_NAME.c. */
int sheaf__ckpt_convert_main(int argc, char **argv);
int sheaf__ckpt_reshard_main(int argc, char **argv);
int sheaf__ckpt_diff_main(int argc, char **argv);

#endif
