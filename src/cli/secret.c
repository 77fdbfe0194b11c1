/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secret.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static int random_hex(char *text, size_t bytes)
{
    uint8_t data[64];
    if (getrandom(data, bytes, 0) != (ssize_t)bytes)
        return errno ? errno : EIO;
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", data[i]);
    return 0;
}

int sheaf__run_secret_make(struct sheaf__run_secret *secret)
{
    /* A directory of the user alone if there is one. */
    const char *directory = getenv("XDG_RUNTIME_DIR");
    if (!directory || access(directory, W_OK) != 0)
        directory = getenv("TMPDIR");
    if (!directory || !*directory)
        directory = "/tmp";
    int size = snprintf(secret->path, sizeof(secret->path), "%s/sheaf-run-XXXXXX", directory);
    if (size >= (int)sizeof(secret->path))
        return ENAMETOOLONG;
    char text[65];
    int code = random_hex(text, 32);
    if (code == 0)
        code = random_hex(secret->run_id, 16);
    if (code)
        return code;
    int fd = mkstemp(secret->path);
    if (fd < 0)
        return errno;
    text[64] = '\n';
    if (write(fd, text, 65) != 65)
        code = errno ? errno : EIO;
    if (close(fd) != 0 && code == 0)
        code = errno;
    if (code)
        unlink(secret->path);
    return code;
}

void sheaf__run_secret_remove(struct sheaf__run_secret *secret)
{
    if (secret->path[0])
        unlink(secret->path);
    secret->path[0] = '\0';
}
