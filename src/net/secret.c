/* SPDX-License-Identifier: Apache-2.0 */
#include "net/secret.h"

#include "base/config.h"
#include "base/digest.h"
#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wait.h"

#include <ctype.h>
#include <string.h>

enum { SHORTEST = 16, OWN_KEY = 32 };
#define LOCK_WAIT (10 * SHEAF__S)
#define LOCK_STEP (5 * SHEAF__MS)

void sheaf__secret_wipe(struct sheaf__secret *secret)
{
    sheaf__digest_wipe(secret->bytes, sizeof(secret->bytes));
    secret->size = 0;
}

static sheaf_status read_secret(const char *path, struct sheaf__secret *secret, sheaf_error *err)
{
    char *data = NULL;
    size_t size = 0;
    SHEAF__TRY(sheaf__file_read_all(path, SHEAF__SECRET_MAX, &data, &size, err));
    /* Editors and `echo` end a file with a line end that is not meant. */
    size_t used = size;
    while (used > 0 && isspace((unsigned char)data[used - 1]))
        used--;
    sheaf_status status = SHEAF_OK;
    if (used < SHORTEST) {
        struct sheaf__place at = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        status = sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &at,
                                 "the secret has %zu bytes, expected at least %d", used, SHORTEST);
    } else {
        memcpy(secret->bytes, data, used);
        secret->size = used;
    }
    sheaf__digest_wipe(data, size);
    sheaf__free(data);
    return status;
}

/* The secret of the whole cluster is only one if others cannot read it. */
static sheaf_status check_mode(const char *path, bool strict, sheaf_error *err)
{
    struct sheaf__file_stat st;
    SHEAF__TRY(sheaf__file_stat(path, &st, err));
    if ((st.mode & 077) == 0)
        return SHEAF_OK;
    if (strict) {
        struct sheaf__place at = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        return sheaf__error_at(err, SHEAF_ERR_PERMISSION, &at,
                               "the key has mode %04o, expected 0600", st.mode & 0777U);
    }
    sheaf__log_once(SHEAF_LOG_WARN, "net.secret.mode", "%s can be read by others (mode %04o)", path,
                    st.mode & 0777U);
    return SHEAF_OK;
}

/* The directory of the user's key: a new string, NULL if the environment names none. */
static char *key_directory(void)
{
    const char *state = sheaf__env_get("XDG_STATE_HOME");
    const char *home = sheaf__env_get("HOME");
    const char *runtime = sheaf__env_get("XDG_RUNTIME_DIR");
    if (state && state[0] == '/')
        return sheaf__path_join(state, "sheaf");
    if (home && home[0] == '/')
        return sheaf__path_join(home, ".local/state/sheaf");
    if (runtime && runtime[0] == '/')
        return sheaf__path_join(runtime, "sheaf");
    return NULL;
}

/* Writes a new key beside and puts it in place whole, so that nobody reads half of it. */
static sheaf_status write_key(const char *path, sheaf_error *err)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t key[OWN_KEY];
    char text[2 * OWN_KEY + 1];
    struct sheaf__file *file = NULL;
    SHEAF__TRY(sheaf__random_bytes(key, sizeof(key), err));
    for (size_t i = 0; i < sizeof(key); i++) {
        text[2 * i] = digits[key[i] >> 4];
        text[2 * i + 1] = digits[key[i] & 15];
    }
    text[2 * OWN_KEY] = '\n';
    char *beside = sheaf__printf("%s.new", path);
    if (!beside)
        return sheaf__no_memory(err, "a key");
    sheaf_status status = sheaf__file_open(beside, SHEAF__FILE_CREATE, &file, err);
    if (status == SHEAF_OK) {
        status = sheaf__file_chmod(beside, 0600, err);
        if (status == SHEAF_OK)
            status = sheaf__file_write(file, text, sizeof(text), err);
        sheaf_status closed = sheaf__file_close(file, status == SHEAF_OK ? err : NULL);
        status = status == SHEAF_OK ? closed : status;
    }
    if (status == SHEAF_OK)
        status = sheaf__file_rename(beside, path, err);
    sheaf__digest_wipe(key, sizeof(key));
    sheaf__digest_wipe(text, sizeof(text));
    sheaf__free(beside);
    return status;
}

/* Takes the lock, or waits for whoever has it. */
static sheaf_status take_lock(struct sheaf__file *lock, sheaf_error *err)
{
    const int64_t deadline = sheaf__clock_after(LOCK_WAIT);
    for (;;) {
        sheaf_error taken = {0};
        sheaf_status status = sheaf__file_lock(lock, &taken);
        if (status == SHEAF_OK)
            return SHEAF_OK;
        if (status != SHEAF_ERR_ALREADY_EXISTS || sheaf__clock_left(deadline) == 0)
            return sheaf__error_copy(err, &taken);
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(LOCK_STEP), NULL, err));
    }
}

/* Makes the key if it is not there. Tasks that start together do so one after the other. */
static sheaf_status make_key(const char *directory, const char *path, sheaf_error *err)
{
    struct sheaf__file *lock = NULL;
    SHEAF__TRY(sheaf__file_mkdir(directory, 0700, err));
    char *name = sheaf__printf("%s.lock", path);
    if (!name)
        return sheaf__no_memory(err, "a key");
    sheaf_status status = sheaf__file_open(name, SHEAF__FILE_UPDATE, &lock, err);
    if (status == SHEAF_OK) {
        status = take_lock(lock, err);
        if (status == SHEAF_OK && !sheaf__file_exists(path))
            status = write_key(path, err);
        sheaf__file_close(lock, NULL);
    }
    sheaf__free(name);
    return status;
}

static sheaf_status user_key(struct sheaf__secret *secret, sheaf_error *err)
{
    char *directory = key_directory();
    char *path = directory ? sheaf__path_join(directory, "key") : NULL;
    sheaf_status status = SHEAF_OK;
    if (!path)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "no place for a key: set HOME, XDG_STATE_HOME or SHEAF_SECRET_FILE");
    else if (!sheaf__file_exists(path))
        status = make_key(directory, path, err);
    if (status == SHEAF_OK)
        status = check_mode(path, true, err);
    if (status == SHEAF_OK)
        status = read_secret(path, secret, err);
    if (status < 0 && path)
        sheaf__error_prefix(err,
                            "the user's key, for which SHEAF_SECRET_FILE may name another file");
    sheaf__free(path);
    sheaf__free(directory);
    return status;
}

sheaf_status sheaf__secret_find(bool loopback, struct sheaf__secret *secret, sheaf_error *err)
{
    const char *file = sheaf__config_text(SHEAF__CONFIG_SECRET_FILE);
    secret->size = 0;
    if (file[0]) {
        sheaf_status status = check_mode(file, false, err);
        if (status >= 0)
            status = read_secret(file, secret, err);
        if (status < 0)
            sheaf__error_prefix(err, "the secret of SHEAF_SECRET_FILE");
        return status;
    }
    if (sheaf__config_int(SHEAF__CONFIG_INSECURE)) {
        if (!loopback)
            sheaf__log_once(SHEAF_LOG_WARN, "net.insecure",
                            "SHEAF_INSECURE: every process that reaches this task may command it");
        return SHEAF_OK;
    }
    if (loopback)
        return user_key(secret, err);
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "no secret for a cluster with addresses that are not loopback: name a file "
                        "that all tasks have with SHEAF_SECRET_FILE, or set SHEAF_INSECURE=1");
}
