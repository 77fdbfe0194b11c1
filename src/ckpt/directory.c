/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/directory.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/bundle.h"
#include "tensor/frame.h"

#include <string.h>

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "a directory of checkpoints");
}

char *sheaf__directory_resolve(const char *directory, const char *path)
{
    return *path == '/' ? sheaf__strdup(path) : sheaf__path_join(directory, path);
}

bool sheaf__directory_has(const char *path)
{
    char *index = sheaf__bundle_index_path(path);
    bool there = index && sheaf__file_exists(index);
    sheaf__free(index);
    return there;
}

/* Takes out of a state what no longer exists, and `path` wherever it stands. */
static sheaf_status drop_gone(struct sheaf__state_file *s, const char *directory, const char *path,
                              sheaf_error *err)
{
    for (size_t i = s->paths.count; i-- > 0;) {
        char *full = sheaf__directory_resolve(directory, s->paths.items[i]);
        if (!full)
            return no_memory(err);
        if (!strcmp(full, path) || !sheaf__directory_has(full))
            sheaf__state_file_drop(s, i);
        sheaf__free(full);
    }
    return SHEAF_OK;
}

static sheaf_status note_in(struct sheaf__state_file *s, const char *directory, const char *path,
                            sheaf_error *err)
{
    /* One that cannot be read is replaced. */
    if (sheaf__state_file_read(s, directory, NULL) < 0)
        *s = (struct sheaf__state_file){0};
    SHEAF__TRY(drop_gone(s, directory, path, err));
    const char *name = sheaf__path_name(path);
    const double now = (double)sheaf__clock_wall() / 1e9;
    return sheaf__state_file_add_latest(s, name, now) ? SHEAF_OK : no_memory(err);
}

sheaf_status sheaf__directory_note(const char *path,
                                   sheaf_status (*before)(void *user, sheaf_error *err), void *user,
                                   sheaf_error *err)
{
    struct sheaf__state_file s = {0};
    char *directory = sheaf__path_directory(path);
    sheaf_status status = directory ? note_in(&s, directory, path, err) : no_memory(err);
    if (status >= 0)
        status = sheaf__state_file_write(&s, directory, before, user, err);
    sheaf__state_file_free(&s);
    sheaf__free(directory);
    return status;
}

/* Adds a checkpoint once, if it has an index. */
static sheaf_status add_candidate(struct sheaf__strings *paths, const char *directory,
                                  const char *name, sheaf_error *err)
{
    char *full = sheaf__directory_resolve(directory, name);
    if (!full)
        return no_memory(err);
    if (!sheaf__directory_has(full) || sheaf__strings_has(paths, full)) {
        sheaf__free(full);
        return SHEAF_OK;
    }
    return sheaf__strings_take(paths, full) ? SHEAF_OK : no_memory(err);
}

static sheaf_status add_state(struct sheaf__strings *paths, const char *directory,
                              const struct sheaf__state_file *s, sheaf_error *err)
{
    if (s->latest)
        SHEAF__TRY(add_candidate(paths, directory, s->latest, err));
    for (size_t i = s->paths.count; i-- > 0;)
        SHEAF__TRY(add_candidate(paths, directory, s->paths.items[i], err));
    return SHEAF_OK;
}

int64_t sheaf__directory_number(const char *text, size_t size, const char *name)
{
    const char *dash = name ? text + strnlen(text, strlen(name)) : memrchr(text, '-', size);
    const size_t begin = dash ? (size_t)(dash - text) + 1 : size;
    char digits[24];
    int64_t number = -1;
    if (begin >= size || size - begin >= sizeof(digits) || *dash != '-' ||
        (name && memcmp(text, name, begin - 1) != 0))
        return -1;
    memcpy(digits, text + begin, size - begin);
    digits[size - begin] = 0;
    return strspn(digits, "0123456789") == size - begin && sheaf__str_to_int(digits, &number)
               ? number
               : -1;
}

/* The N of "<name>-N.index", of any name if that is NULL; -1: it is no such file. */
static int64_t number_of(const char *file, const char *name)
{
    return sheaf__str_ends(file, ".index")
               ? sheaf__directory_number(file, strlen(file) - strlen(".index"), name)
               : -1;
}

/* Time of the last change of a file of the directory; -1: it is not there. */
static int64_t changed(const char *directory, const char *name)
{
    struct sheaf__file_stat stat = {.mtime_ns = -1};
    char *path = sheaf__path_join(directory, name);
    if (!path || sheaf__file_stat(path, &stat, NULL) < 0)
        stat.mtime_ns = -1;
    sheaf__free(path);
    return stat.mtime_ns;
}

/* What is in the directory. One that is not there, or cannot be looked into, is the save's to speak of; but who has no memory
 * or descriptors left does not know what there is. */
static sheaf_status list_files(const char *directory, struct sheaf__strings *files,
                               sheaf_error *err)
{
    sheaf_error fault = {0};
    const sheaf_status status = sheaf__file_list(directory, files, &fault);
    return status == SHEAF_ERR_RESOURCE_EXHAUSTED ? sheaf__error_copy(err, &fault) : SHEAF_OK;
}

/* Adds the "<name>-N" of the directory that were finished after the time `since`, the highest
 * number first. */
static sheaf_status add_numbered(struct sheaf__strings *paths, const char *directory,
                                 const char *name, int64_t since, sheaf_error *err)
{
    struct sheaf__strings files = {0};
    sheaf_status status = list_files(directory, &files, err);
    int64_t last = INT64_MAX;
    while (status >= 0) {
        const char *best = NULL;
        int64_t best_number = -1;
        for (size_t i = 0; i < files.count; i++) {
            int64_t number = number_of(files.items[i], name);
            if (number > best_number && number < last &&
                changed(directory, files.items[i]) > since) {
                best = files.items[i];
                best_number = number;
            }
        }
        if (!best)
            break;
        char *prefix = sheaf__strndup(best, strlen(best) - strlen(".index"));
        status = prefix ? add_candidate(paths, directory, prefix, err) : no_memory(err);
        sheaf__free(prefix);
        last = best_number;
    }
    sheaf__strings_clear(&files);
    return status;
}

/* A checkpoint that was finished after the state file was written is newer than all it names. */
static void move_last_to_front(struct sheaf__strings *paths, size_t known)
{
    for (size_t i = known; i < paths->count; i++) {
        char *newer = paths->items[i];
        size_t to = i - known;
        memmove(paths->items + to + 1, paths->items + to, (i - to) * sizeof(*paths->items));
        paths->items[to] = newer;
    }
}

/* Whether the newest checkpoint that a state file names is there: if not, the directory was moved or
 * copied in part, and the file says nothing of what is in it. */
static bool names_what_is_there(const struct sheaf__state_file *s, const char *directory)
{
    char *latest = s->latest ? sheaf__directory_resolve(directory, s->latest) : NULL;
    const bool there = latest && sheaf__directory_has(latest);
    sheaf__free(latest);
    return there;
}

/* Reads the state file; false, with a warning if `warn`, if it is no help. */
static bool read_state(struct sheaf__state_file *s, const char *directory, bool warn)
{
    sheaf_error fault = {0};
    sheaf_status status = sheaf__state_file_read(s, directory, &fault);
    const bool usable = status >= 0 && names_what_is_there(s, directory);
    if (!warn || usable || status == SHEAF_ERR_NOT_FOUND)
        return usable;
    if (status < 0)
        sheaf__log(SHEAF_LOG_WARN, "%s: %s; looking at the files of the directory", fault.file,
                   fault.message);
    else
        sheaf__log(SHEAF_LOG_WARN,
                   "%s/checkpoint: its newest checkpoint '%s' is not there; looking at the files "
                   "of the directory",
                   directory, s->latest ? s->latest : "");
    return false;
}

/* What the state file names, then what was finished after it. */
static sheaf_status add_by_state(struct sheaf__strings *paths, const char *directory,
                                 const char *name, const struct sheaf__state_file *s,
                                 sheaf_error *err)
{
    const char *latest = sheaf__path_name(s->latest), *dash = strrchr(latest, '-');
    char *own = name || !dash ? NULL : sheaf__strndup(latest, (size_t)(dash - latest));
    sheaf_status status = add_state(paths, directory, s, err);
    const size_t known = paths->count;
    if (status >= 0 && (name || own))
        status = add_numbered(paths, directory, name ? name : own, changed(directory, "checkpoint"),
                              err);
    if (status >= 0)
        move_last_to_front(paths, known);
    sheaf__free(own);
    return status;
}

sheaf_status sheaf__directory_candidates(const char *directory, const char *name, bool warn,
                                         struct sheaf__strings *paths, sheaf_error *err)
{
    struct sheaf__state_file s = {0};
    sheaf_status status = SHEAF_OK;
    if (read_state(&s, directory, warn)) {
        status = add_by_state(paths, directory, name, &s, err);
    } else {
        status = add_numbered(paths, directory, name, -1, err);
        if (status >= 0)
            status = add_state(paths, directory, &s, err);
    }
    sheaf__state_file_free(&s);
    return status;
}

sheaf_status sheaf__directory_highest(const char *prefix, int64_t *number, sheaf_error *err)
{
    struct sheaf__strings files = {0};
    char *directory = sheaf__path_directory(prefix);
    *number = 0;
    if (!directory)
        return no_memory(err);
    const sheaf_status status = list_files(directory, &files, err);
    for (size_t i = 0; i < files.count; i++) {
        int64_t n = number_of(files.items[i], sheaf__path_name(prefix));
        *number = n > *number ? n : *number;
    }
    sheaf__strings_clear(&files);
    sheaf__free(directory);
    return status;
}

static sheaf_status index_crc(const char *path, uint32_t *crc, sheaf_error *err)
{
    char *index = sheaf__bundle_index_path(path);
    struct sheaf__map *map = NULL;
    if (!index)
        return no_memory(err);
    sheaf_status status = sheaf__file_load(index, &map, err);
    sheaf__free(index);
    SHEAF__TRY(status);
    *crc = sheaf__crc32c(map->data, map->size);
    sheaf__unref(map);
    return SHEAF_OK;
}

sheaf_status sheaf__directory_sidecar(const char *path, struct sheaf__sidecar *sidecar,
                                      sheaf_error *err)
{
    uint32_t crc;
    *sidecar = (struct sheaf__sidecar){0};
    SHEAF__TRY(index_crc(path, &crc, err));
    return sheaf__sidecar_read(path, crc, sidecar, err);
}

sheaf_status sheaf__directory_end_run(const char *path, sheaf_error *err)
{
    struct sheaf__sidecar s = {0};
    uint32_t crc;
    SHEAF__TRY(index_crc(path, &crc, err));
    sheaf_status status = sheaf__sidecar_read(path, crc, &s, err);
    char *run = sheaf__strdup(sheaf__config_text(SHEAF__CONFIG_RUN_ID));
    if (status >= 0 && !run)
        status = no_memory(err);
    if (status >= 0) {
        sheaf__free(s.run_id);
        s.run_id = run;
        run = NULL;
        s.last = true;
        status = sheaf__sidecar_write(path, crc, &s, err);
    }
    sheaf__free(run);
    sheaf__sidecar_free(&s);
    return status;
}

const char *sheaf_checkpoint_latest(const char *directory)
{
    struct sheaf__strings paths = {0};
    const char *latest = NULL;
    if (directory && sheaf__directory_candidates(directory, NULL, true, &paths, NULL) >= 0 &&
        paths.count)
        latest = sheaf__frame_text(paths.items[0], strlen(paths.items[0]));
    sheaf__strings_clear(&paths);
    return latest;
}
