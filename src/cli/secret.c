/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secret.h"

#include "cli/launch_say.h"

#include <errno.h>
#include <fcntl.h>
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

int sheaf__run_secret_choose(struct sheaf__run_secret *secret)
{
    /* A directory of the user alone if there is one. */
    const char *directory = getenv("XDG_RUNTIME_DIR");
    char name[17];
    if (!directory || access(directory, W_OK) != 0)
        directory = getenv("TMPDIR");
    if (!directory || !*directory)
        directory = "/tmp";
    int code = random_hex(secret->run_id, 16);
    if (code == 0)
        code = random_hex(name, 8);
    if (code)
        return code;
    int size = snprintf(secret->path, sizeof(secret->path), "%s/sheaf-run-%s", directory, name);
    snprintf(secret->ended, sizeof(secret->ended), "%.255s.ended", secret->path);
    return size < (int)sizeof(secret->path) ? 0 : ENAMETOOLONG;
}

int sheaf__run_secret_write(const struct sheaf__run_secret *secret)
{
    char text[65];
    int code = random_hex(text, 32);
    if (code)
        return code;
    int fd = open(secret->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    text[64] = '\n';
    if (write(fd, text, sizeof(text)) != (ssize_t)sizeof(text))
        code = errno ? errno : EIO;
    if (close(fd) != 0 && code == 0)
        code = errno;
    return code;
}

void sheaf__run_note_end(const struct sheaf__run_secret *secret, const char *task, const char *how)
{
    char line[200];
    const int size = snprintf(line, sizeof(line), "%s %.100s\n", task, how);
    const int fd =
        open(secret->ended, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)size) != size)
        sheaf__launch_say("cannot note in %s that %s has ended", secret->ended, task);
    close(fd);
}

void sheaf__run_secret_remove(const struct sheaf__run_secret *secret)
{
    unlink(secret->path);
    unlink(secret->ended);
}
