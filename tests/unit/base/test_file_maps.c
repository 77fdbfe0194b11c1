/* SPDX-License-Identifier: Apache-2.0 */
/* base/file_maps.h */
#include "rig.h"

#include "base/context.h"
#include "base/file_maps.h"
#include "base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 1000

static const char *file_of(int number, char filled)
{
    char name[16], data[SIZE];
    sheaf_error err;
    snprintf(name, sizeof(name), "file-%d", number);
    memset(data, filled, SIZE);
    const char *path = rig_path(name);
    rig_ok(sheaf__file_replace(path, data, SIZE, &err), &err);
    return path;
}

static struct sheaf__map *get(struct sheaf__file_maps *maps, const char *path)
{
    struct sheaf__file *file;
    struct sheaf__map *map = NULL;
    sheaf_error err;
    rig_ok(sheaf__file_open(path, SHEAF__FILE_READ, &file, &err), &err);
    rig_ok(sheaf__file_maps_get(maps, file, &map, &err), &err);
    sheaf__file_close(file, NULL);
    return map;
}

/* A map that is kept, and held here: whoever gets it again has the third count of it. */
static struct sheaf__map *hold(struct sheaf__file_maps *maps, const char *path)
{
    struct sheaf__map *map = get(maps, path);
    assert_int_equal(map->object.refs, 2);
    return map;
}

/* Whether the map of the file is the one that is held; the byte that it is filled with is checked. */
static bool is_kept(struct sheaf__file_maps *maps, const char *path, char filled)
{
    struct sheaf__map *map = get(maps, path);
    assert_int_equal(map->size, SIZE);
    assert_int_equal(map->data[0], filled);
    assert_int_equal(map->data[SIZE - 1], filled);
    const bool kept = map->object.refs == 3;
    sheaf__unref(map);
    return kept;
}

/* The reader before has ended. */
static void begin_next(struct sheaf__file_maps *maps, uint64_t most)
{
    sheaf__file_maps_end(maps);
    sheaf__file_maps_begin(maps, most);
}

static void gives_the_same_map_again(void **state)
{
    (void)state;
    struct sheaf__file_maps maps = {0};
    const char *paths[] = {file_of(0, 'a'), file_of(1, 'b')};
    struct sheaf__map *held[2];
    assert_int_equal(sheaf__file_maps_bytes(NULL), 0);
    sheaf__file_maps_begin(&maps, 2 * SIZE);
    for (int i = 0; i < 2; i++)
        held[i] = hold(&maps, paths[i]);
    assert_int_equal(sheaf__file_maps_bytes(&maps), 2 * SIZE);
    for (int round = 0; round < 3; round++) {
        begin_next(&maps, 2 * SIZE);
        assert_true(is_kept(&maps, paths[1], 'b'));
        assert_true(is_kept(&maps, paths[0], 'a'));
    }
    sheaf__file_maps_clear(&maps);
    assert_int_equal(sheaf__file_maps_bytes(&maps), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(sheaf__object_unique(held[i]));
        sheaf__unref(held[i]);
    }
    sheaf__file_maps_clear(&maps);
}

static void keeps_what_came_first(void **state)
{
    (void)state;
    struct sheaf__file_maps maps = {0};
    const char *paths[] = {file_of(0, 'a'), file_of(1, 'b'), file_of(2, 'c')};
    sheaf__file_maps_begin(&maps, 3 * SIZE - 1);
    struct sheaf__map *held = hold(&maps, paths[0]);
    sheaf__unref(get(&maps, paths[1]));
    assert_int_equal(sheaf__file_maps_bytes(&maps), 2 * SIZE);
    for (int round = 0; round < 2; round++) {
        struct sheaf__map *third = get(&maps, paths[2]);
        assert_true(sheaf__object_unique(third));
        sheaf__unref(third);
        assert_true(is_kept(&maps, paths[0], 'a'));
        assert_int_equal(sheaf__file_maps_bytes(&maps), 2 * SIZE);
        begin_next(&maps, 3 * SIZE - 1);
    }
    /* The second one was not asked for in a round, and has made room. */
    struct sheaf__map *third = get(&maps, paths[2]);
    assert_false(sheaf__object_unique(third));
    sheaf__unref(third);
    sheaf__unref(held);
    sheaf__file_maps_clear(&maps);
}

/* Put in the place of the old one, or written over; the old one's bytes stay for who has them. */
static void maps_another_file_anew(void **state)
{
    (void)state;
    struct sheaf__file_maps maps = {0};
    sheaf__file_maps_begin(&maps, 100 * SIZE);
    const char *path = file_of(0, 'a');
    struct sheaf__map *held = hold(&maps, path);
    file_of(0, 'b');
    assert_false(is_kept(&maps, path, 'b'));
    assert_true(sheaf__object_unique(held));
    assert_int_equal(held->data[0], 'a');
    sheaf__unref(held);
    assert_int_equal(sheaf__file_maps_bytes(&maps), SIZE);

    held = get(&maps, path);
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1, .tv_nsec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_false(is_kept(&maps, path, 'b'));
    sheaf__unref(held);
    assert_int_equal(truncate(path, SIZE / 2), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    held = get(&maps, path);
    assert_int_equal(held->size, SIZE / 2);
    assert_int_equal(sheaf__file_maps_bytes(&maps), SIZE / 2);
    sheaf__unref(held);
    sheaf__file_maps_clear(&maps);
}

/* What a slow reader comes to again is not given up for those who are faster. */
static void waits_for_who_reads(void **state)
{
    (void)state;
    struct sheaf__file_maps maps = {0};
    const char *path = file_of(0, 'a');
    sheaf__file_maps_begin(&maps, SIZE);
    sheaf__unref(get(&maps, path));
    for (int i = 0; i < 5; i++) {
        sheaf__file_maps_begin(&maps, SIZE);
        sheaf__file_maps_end(&maps);
    }
    assert_int_equal(sheaf__file_maps_bytes(&maps), SIZE);
    for (int i = 0; i < 2; i++) {
        begin_next(&maps, SIZE);
        assert_int_equal(sheaf__file_maps_bytes(&maps), i == 0 ? SIZE : 0);
    }
}

/* Not more files than a process may well have mapped. */
static void keeps_so_many(void **state)
{
    (void)state;
    enum { FILES = 1030, MOST = 1024 };
    struct sheaf__file_maps maps = {0};
    sheaf__file_maps_begin(&maps, UINT64_MAX);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "small-%d", i);
        FILE *f = fopen(rig_path(name), "w");
        assert_non_null(f);
        fputc('x', f);
        fclose(f);
        sheaf__unref(get(&maps, rig_path(name)));
    }
    assert_int_equal(sheaf__file_maps_bytes(&maps), MOST);
    sheaf__file_maps_clear(&maps);
}

static sheaf_status go_twice(void *user, sheaf_error *err)
{
    struct sheaf__file_maps maps = {0};
    sheaf_status status = SHEAF_OK;
    sheaf__file_maps_begin(&maps, SIZE);
    for (int i = 0; i < 2 && status >= 0; i++) {
        struct sheaf__file *file = NULL;
        struct sheaf__map *map = NULL;
        status = sheaf__file_open(user, SHEAF__FILE_READ, &file, err);
        if (status >= 0)
            status = sheaf__file_maps_get(&maps, file, &map, err);
        sheaf__file_close(file, NULL);
        sheaf__unref(map);
    }
    sheaf__file_maps_clear(&maps);
    return status;
}

static void goes_without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(go_twice, (void *)(uintptr_t)file_of(0, 'a')) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(gives_the_same_map_again),
        rig_test(keeps_what_came_first),
        rig_test(maps_another_file_anew),
        rig_test(waits_for_who_reads),
        rig_test(keeps_so_many),
        rig_test(goes_without_memory),
    };
    return rig_run(tests);
}
