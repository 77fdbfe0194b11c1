/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/context.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void is_512_bytes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(sheaf_error), 512);
}

static void fills_and_names_the_origin(void **state)
{
    (void)state;
    sheaf_error err = {0};
    assert_int_equal(sheaf__error(NULL, SHEAF_ERR_IO, "x"), SHEAF_ERR_IO);
    assert_int_equal(sheaf_error_set(&err, SHEAF_ERR_ABORTED, "found %d", 3), SHEAF_ERR_ABORTED);
    assert_string_equal(err.message, "found 3");
    assert_int_equal(err.origin.index, -1);
    sheaf__context_set_task(sheaf__context(), "worker", 2);
    sheaf__error(&err, SHEAF_ERR_DATA_LOSS, "line\nbreak\t%s", err.message);
    assert_string_equal(err.message, "line break found 3");
    assert_string_equal(err.origin.job, "worker");
    assert_int_equal(err.origin.index, 2);
    sheaf__error_suffix(&err, "(%s)", "in a file");
    assert_string_equal(err.message, "line break found 3 (in a file)");
    sheaf__error_set_peer(&err, "ps", 1);
    assert_string_equal(err.peer.job, "ps");
    assert_int_equal(err.offset, UINT64_MAX);
}

static void says_where(void **state)
{
    (void)state;
    char text[600];
    sheaf_error err = {0};
    struct sheaf__place where = {"train-003.tfrecord", 17, 40960};
    sheaf__context_set_task(sheaf__context(), "worker", 0);
    sheaf__error_at(&err, SHEAF_ERR_DATA_LOSS, &where, "data crc %x, expected %x", 0x1a2b, 0x3c4d);
    size_t size = sheaf_error_format(&err, text, sizeof(text));
    assert_string_equal(text, "worker:0: data crc 1a2b, expected 3c4d (file train-003.tfrecord, "
                              "record 17, offset 40960)");
    assert_int_equal(size, strlen(text));
    /* As snprintf: cut, terminated, the whole length returned. */
    char small[12];
    assert_int_equal(sheaf_error_format(&err, small, sizeof(small)), size);
    assert_string_equal(small, "worker:0: d");
    assert_int_equal(sheaf_error_format(&err, NULL, 0), size);
}

static void long_parts_are_cut(void **state)
{
    (void)state;
    char path[400];
    char text[600];
    memset(path, 'd', sizeof(path));
    strcpy(path + 390, "/name.txt");
    sheaf_error err = {0};
    struct sheaf__place where = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    memset(text, 'm', sizeof(text));
    text[599] = '\0';
    sheaf__error_at(&err, SHEAF_ERR_IO, &where, "%s", text);
    assert_int_equal(strlen(err.file), sizeof(err.file) - 1);
    assert_memory_equal(err.file, "...", 3);
    assert_string_equal(err.file + strlen(err.file) - 9, "/name.txt");
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    sheaf__error_prefix(&err, "stage %s", "map");
    assert_memory_equal(err.message, "stage map: mmm", 14);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

/* However long the names in it are, the reason stays, and both ends of the names. */
static void reasons_survive_long_names(void **state)
{
    (void)state;
    char name[5000], a[300], b[300];
    sheaf_error err = {0};
    memset(name, 'a', sizeof(name));
    memcpy(name + sizeof(name) - 7, ":65535", 7);
    sheaf__error(&err, SHEAF_ERR_IO, "address \"%s\": name or service not known", name);
    assert_memory_equal(err.message, "address \"aaaaaaaa", 17);
    assert_non_null(strstr(err.message, "aaaaaaaa...aaaaaaaa"));
    assert_non_null(strstr(err.message, "aaaaaaaa:65535\": name or service not known"));
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    /* Who passes it on shortens the same word further. */
    sheaf__error_prefix(&err, "cannot connect to /job:worker/task:11 at %s", name);
    assert_int_equal(
        sscanf(err.message, "cannot connect to /job:worker/task:11 at %299s address %299s", a, b),
        2);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_non_null(strstr(a, "aaaaaaaa..."));
    assert_non_null(strstr(a, "aaaaaaaa:65535:"));
    assert_non_null(strstr(b, "\"aaaaaaaa"));
    assert_non_null(strstr(b, "...aaaaaaaa"));
    assert_non_null(strstr(err.message, "a:65535\": name or service not known"));
    /* What is said behind it takes nothing away. */
    char before[sizeof(err.message)];
    strcpy(before, err.message);
    sheaf__error_suffix(&err, "(in passing)");
    assert_string_equal(err.message, before);
    sheaf__error(&err, SHEAF_ERR_IO, "%.200s", name);
    sheaf__error_suffix(&err, "(found by %s)", name);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_memory_equal(err.message + 195, "aaaaa (found by aaaa", 20);
    assert_string_equal(err.message + strlen(err.message) - 7, ":65535)");
    /* Many words without a long one: the middle of all. */
    name[0] = '\0';
    for (int i = 0; i < 100; i++)
        strcat(name, "word ");
    sheaf__error(&err, SHEAF_ERR_IO, "first %slast", name);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_memory_equal(err.message, "first word", 10);
    assert_string_equal(err.message + strlen(err.message) - 9, "word last");
    assert_non_null(strstr(err.message, "..."));
}

static void from_errno(void **state)
{
    (void)state;
    sheaf_error err = {0};
    assert_int_equal(sheaf__errno_error(&err, ENOENT, "a.txt", "open"), SHEAF_ERR_NOT_FOUND);
    assert_string_equal(err.message, "cannot open: no such file or directory");
    assert_string_equal(err.file, "a.txt");
    assert_int_equal(sheaf__errno_status(EACCES), SHEAF_ERR_PERMISSION);
    assert_int_equal(sheaf__errno_status(EROFS), SHEAF_ERR_PERMISSION);
    assert_int_equal(sheaf__errno_status(EEXIST), SHEAF_ERR_ALREADY_EXISTS);
    assert_int_equal(sheaf__errno_status(ENOSPC), SHEAF_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(sheaf__errno_status(EIO), SHEAF_ERR_IO);
}

static void the_first_is_kept(void **state)
{
    (void)state;
    sheaf_error first = {0};
    sheaf_error one = {0};
    sheaf_error two = {0};
    sheaf__error(&one, SHEAF_ERR_IO, "one");
    sheaf__error(&two, SHEAF_ERR_ABORTED, "two");
    sheaf__error_keep_first(&first, &one);
    sheaf__error_keep_first(&first, &two);
    assert_string_equal(first.message, "one");
    assert_int_equal(sheaf__error_copy(&two, &first), SHEAF_ERR_IO);
    assert_string_equal(two.message, "one");
    assert_int_equal(sheaf__error_copy(NULL, &first), SHEAF_ERR_IO);
}

/* What another task sends is an error of the right size, or none; its texts are lines that end. */
static void only_errors_are_copied_out(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const sheaf_error none = {0};
    sheaf_error_set(&err, SHEAF_ERR_IO, "the first");
    assert_int_equal(sheaf__error_copy(&err, &none), SHEAF_OK);
    assert_int_equal(err.status, SHEAF_ERR_IO);
    assert_string_equal(err.message, "the first");
    sheaf_error out = {0};
    assert_int_equal(sheaf__error_copy(&out, &err), SHEAF_ERR_IO);
    assert_string_equal(out.message, "the first");
}

static void unpacks(void **state)
{
    (void)state;
    sheaf_error sent, err = {.status = SHEAF_OK};
    memset(&sent, 'x', sizeof(sent));
    sent.status = SHEAF_ERR_DATA_LOSS;
    sent.message[3] = '\n';
    assert_true(sheaf__error_unpack(&err, &sent, sizeof(sent)));
    assert_int_equal(err.status, SHEAF_ERR_DATA_LOSS);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_memory_equal(err.message, "xxx xx", 6);
    assert_int_equal(strlen(err.file), sizeof(err.file) - 1);
    assert_int_equal(strlen(err.origin.job), sizeof(err.origin.job) - 1);
    assert_int_equal(strlen(err.peer.job), sizeof(err.peer.job) - 1);
    memset(&err, 0, sizeof(err));
    sent.status = SHEAF_OK;
    assert_false(sheaf__error_unpack(&err, &sent, sizeof(sent)));
    sent.status = SHEAF_ERR_IO;
    assert_false(sheaf__error_unpack(&err, &sent, sizeof(sent) - 1));
    assert_int_equal(err.status, SHEAF_OK);
}

/* S221: stable codes with TensorFlow's names. */
static void s221_names(void **state)
{
    (void)state;
    assert_string_equal(sheaf_status_name(SHEAF_OK), "OK");
    assert_string_equal(sheaf_status_name(SHEAF_ERR_OUT_OF_RANGE), "OutOfRangeError");
    assert_string_equal(sheaf_status_name(SHEAF_ERR_INVALID_ARGUMENT), "InvalidArgumentError");
    assert_int_equal(SHEAF_ERR_INVALID_ARGUMENT, -1);
    assert_int_equal(SHEAF_ERR_OUT_OF_RANGE, -2);
    assert_int_equal(SHEAF_ERR_UNAVAILABLE, -40);
    assert_int_equal(SHEAF_ERR_TEAM_LOST, -60);
    assert_string_equal(sheaf_status_name((sheaf_status)-39), "UnknownError");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(is_512_bytes),       rig_test(fills_and_names_the_origin), rig_test(says_where),
        rig_test(long_parts_are_cut), rig_test(reasons_survive_long_names), rig_test(from_errno),
        rig_test(the_first_is_kept),  rig_test(only_errors_are_copied_out), rig_test(unpacks),
        rig_test(s221_names),
    };
    return rig_run(tests);
}
