/* SPDX-License-Identifier: Apache-2.0 */
/* A position that fits its pipeline and says anything else: files with so many records, seeds, elements and errors. It is
 * refused, or the iterator goes on: what it gives are elements or errors that say what is wrong, it comes to its end, and
 * saves a position that another iterator takes. The first byte says which pipeline, the others are the fields. */
#include "target.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/iterator.h"
#include "data/rewrite.h"
#include "format/record.h"
#include "format/wire.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS = 7, PIPELINE = 1 /* the number of its field */ };
enum { MOST = 1000 /* more than any of the pipelines gives */ };

static const char *const paths[] = {"/a", "/b"};

/* RECORDS records of growing size; `damaged`: the data of one are not as their checksum says. */
static void write_records(const char *path, bool damaged)
{
    uint8_t file[1024];
    size_t size = 0;
    for (size_t i = 0; i < RECORDS; i++) {
        sheaf__record_header(i, file + size);
        memset(file + size + SHEAF__RECORD_HEADER, 'a' + (int)i, i);
        sheaf__record_footer(file + size + SHEAF__RECORD_HEADER, i,
                             file + size + SHEAF__RECORD_HEADER + i);
        size += SHEAF__RECORD_HEADER + i + SHEAF__RECORD_FOOTER;
    }
    if (damaged)
        file[size - 1] ^= 1;
    must(sheaf__file_replace(path, file, size, NULL) == SHEAF_OK);
}

/* ---- pipelines, all of which come to an end ---- */

static sheaf_dataset *names(void)
{
    const sheaf_bytes both[] = {{"/a", 2}, {"/b", 2}};
    return sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(2), both)));
}

static sheaf_dataset *shuffled_records(void)
{
    const sheaf_shuffle_options seed = {.seed = 5};
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_tfrecord_files(paths, 2), 3, &seed);
    return sheaf_dataset_batch(sheaf_dataset_repeat(d, 3), 2, NULL);
}

static sheaf_dataset *interleaved_records(void)
{
    const sheaf_interleave_options in_turns = {.cycle_length = 2, .block_length = 2};
    sheaf_dataset *d = sheaf_dataset_interleave(names(), sheaf_open_tfrecord, NULL, &in_turns);
    d = sheaf_dataset_enumerate(sheaf_dataset_skip(sheaf_dataset_repeat(d, 3), 4), 100);
    return sheaf_dataset_shard(sheaf_dataset_take(d, 30), 2, 1);
}

static sheaf_dataset *forgiving_records(void)
{
    const sheaf_dataset_options skip = {.skip_corrupt = 5};
    sheaf_dataset *d = sheaf_dataset_concatenate(sheaf_tfrecord("/damaged"), sheaf_tfrecord("/a"));
    return sheaf_dataset_with_options(sheaf_dataset_repeat(d, 2), &skip);
}

static sheaf_dataset *damaged_records(void)
{
    return sheaf_dataset_repeat(sheaf_tfrecord("/damaged"), 3);
}

static sheaf_status is_odd(const sheaf_element *in, void *user)
{
    (void)user;
    return (int64_t)sheaf_tensor_number(sheaf_element_at(in, 0), 0) % 2 ? SHEAF_OK : SHEAF_END;
}

static sheaf_dataset *cached_numbers(void)
{
    const sheaf_shuffle_options seed = {.seed = 1, .no_reshuffle = true};
    sheaf_dataset *d = sheaf_dataset_filter(sheaf_dataset_range(0, 9, 1), is_odd, NULL);
    d = sheaf_dataset_shuffle(sheaf_dataset_cache(d, NULL), 3, &seed);
    sheaf_dataset *pair[] = {sheaf_dataset_repeat(d, 4), sheaf_dataset_range(0, 30, 1)};
    return sheaf_dataset_zip(pair, 2);
}

static sheaf_dataset *rebatched_lines(void)
{
    const int64_t sizes[] = {1, 3};
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_text_lines("/lines", NULL), 3, NULL);
    return sheaf_dataset_unbatch(
        sheaf_dataset_rebatch(sheaf_dataset_repeat(d, 3), sizes, 2, false));
}

static sheaf_dataset *(*const pipelines[])(void) = {
    shuffled_records, interleaved_records, forgiving_records,
    damaged_records,  cached_numbers,      rebatched_lines,
};
enum { PIPELINES = sizeof(pipelines) / sizeof(pipelines[0]) };

/* ---- what must hold ---- */

/* The fields, and behind them the iterator's pipeline, between what frames a position. */
static struct sheaf__buf position_of(const sheaf_iterator *it, const uint8_t *fields, size_t size)
{
    struct sheaf__buf buf = {0};
    char *pipeline = sheaf__dataset_order(it->dataset);
    must(pipeline != NULL);
    sheaf__buf_bytes(&buf, "ShfP\1", 5);
    sheaf__buf_bytes(&buf, fields, size);
    sheaf__wire_put_text(&buf, PIPELINE, pipeline);
    sheaf__buf_fixed32(&buf, sheaf__crc32c(buf.data, buf.size));
    must(!buf.failed);
    sheaf__free(pipeline);
    return buf;
}

/* Elements and errors until the end, which is not far away. Nothing is behind more than there are. */
static void run_to_end(sheaf_iterator *it)
{
    const bool nowhere = it->elements > MOST || it->errors > MOST;
    sheaf_status status = SHEAF_OK;
    for (int i = 0; status != SHEAF_END; i++) {
        sheaf_element *e;
        sheaf_error err = {0};
        status = sheaf_iterator_next(it, &e, &err);
        must(status >= 0 || (err.status == status && err.message[0]));
        must(i > 0 || !nowhere || status == SHEAF_ERR_DATA_LOSS);
        must(i < MOST);
        if (status == SHEAF_ERR_DATA_LOSS && it->root->broken)
            return;
    }
}

static void save_and_take(sheaf_iterator *it, sheaf_dataset *d)
{
    sheaf_bytes position;
    sheaf_error err = {0};
    sheaf_iterator *other = sheaf_dataset_iterate(d);
    must(sheaf_iterator_save(it, &position, &err) == SHEAF_OK);
    must(sheaf_iterator_restore(other, position, &err) == SHEAF_OK);
    must(other->elements == it->elements && other->errors == it->errors);
    sheaf_iterator_free(other);
}

static void ignore_line(sheaf_log_level level, const char *line, void *user)
{
    (void)level, (void)line, (void)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (files_in_memory(ignore_line)) {
        write_records("/a", false);
        write_records("/b", false);
        write_records("/damaged", true);
        must(sheaf__file_replace("/lines", "1\n2\n3\n4\n5\n6\n7\n8", 15, NULL) == SHEAF_OK);
    }
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        sheaf_dataset *d = pipelines[data[0] % PIPELINES]();
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        struct sheaf__buf position = position_of(it, data + 1, size - 1);
        sheaf_status status = sheaf_iterator_restore(
            it, (sheaf_bytes){(const char *)position.data, position.size}, &err);
        must(status == SHEAF_OK || (status == err.status && err.message[0]));
        must(status == SHEAF_OK || status == SHEAF_ERR_DATA_LOSS ||
             status == SHEAF_ERR_FAILED_PRECONDITION);
        if (status == SHEAF_OK)
            save_and_take(it, d);
        run_to_end(it);
        sheaf__buf_free(&position);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
    return 0;
}
