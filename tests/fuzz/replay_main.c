/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without a fuzzing engine: over each file of its corpus as it is, cut short at
 * every length and with single bits turned over. A target aborts when what its comment says does
 * not hold; the sanitizers do the rest. Prints one TAP line a file. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts and flips of a file; larger files are sampled at this many places. */
enum { PLACES = 400 };

/* A copy of its own size, so that a read past the end is seen. */
static void run_copy(const uint8_t *data, size_t size, size_t flip)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    if (flip < 8 * size)
        copy[flip / 8] ^= (uint8_t)(1U << flip % 8);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_file(const uint8_t *data, size_t size)
{
    size_t step = size / PLACES + 1;
    run_copy(data, size, SIZE_MAX);
    for (size_t at = 0; at < size; at += step) {
        run_copy(data, at, SIZE_MAX);
        run_copy(data, size, 8 * at + at % 8);
    }
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    long length;
    if (file && fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0) {
        data = malloc((size_t)length + 1);
        rewind(file);
        if (data && fread(data, 1, (size_t)length, file) != (size_t)length) {
            free(data);
            data = NULL;
        }
        *size = (size_t)length;
    }
    if (file)
        fclose(file);
    return data;
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **names = NULL;
    int failures = 0;
    int count = argc == 2 ? scandir(argv[1], &names, not_hidden, alphasort) : -1;
    if (count <= 0) {
        printf("1..1\nnot ok 1 - no corpus in %s\n",
               argc == 2 ? argv[1] : "(usage: replay FOLDER)");
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        char path[4096];
        size_t size = 0;
        snprintf(path, sizeof(path), "%s/%s", argv[1], names[i]->d_name);
        uint8_t *data = read_file(path, &size);
        if (data)
            run_file(data, size);
        else
            failures++;
        printf("%s %d - %s\n", data ? "ok" : "not ok", i + 1, names[i]->d_name);
        fflush(stdout);
        free(data);
        free(names[i]);
    }
    free(names);
    return failures != 0;
}
