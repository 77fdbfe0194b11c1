/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/record.h"
#include "format/wire.h"

#include <sheaf/event.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUEUE    10   /* events that may wait before they are handed over */
#define ATTEMPTS 1000 /* names that are tried */

/* Fields of the messages (formats.md 6.2). */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SOURCE = 10
};
enum { SOURCE_WRITER = 1 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4, DTYPE_FLOAT = 1 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };

struct sheaf_event_writer {
    char *path;
    sheaf_record_writer *records;
    bool used; /* has an event besides the version */
    struct sheaf__buf event;
    struct sheaf__buf value;
    unsigned queued;
};

/* Files of one process and second differ by this number. */
static _Atomic unsigned next_number;

static char *file_path(const char *directory, const char *host, int64_t seconds)
{
    char name[200];
    snprintf(name, sizeof(name), "events.out.tfevents.%010" PRId64 ".%.100s.%ld.%u.v2", seconds,
             host, (long)getpid(),
             atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed));
    return sheaf__path_join(directory, name);
}

static sheaf_status open_file(sheaf_event_writer *w, const char *directory, int64_t seconds,
                              sheaf_error *err)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || !*host)
        sheaf__str_copy(host, sizeof(host), "localhost");
    sheaf_status status = SHEAF_ERR_ALREADY_EXISTS;
    /* A process in another container may have this host's name and our number. */
    for (int i = 0; i < ATTEMPTS && status == SHEAF_ERR_ALREADY_EXISTS; i++) {
        sheaf__free(w->path);
        w->path = file_path(directory, host, seconds);
        if (!w->path)
            return sheaf__no_memory(err, "an event file");
        status = sheaf__record_writer_open(w->path, SHEAF_COMPRESSION_NONE, SHEAF__FILE_NEW,
                                           &w->records, err);
    }
    return status;
}

static sheaf_status put_event(sheaf_event_writer *w, sheaf_error *err)
{
    SHEAF__TRY(sheaf__buf_check(&w->event, "an event", err));
    sheaf_bytes record = {(const char *)w->event.data, w->event.size};
    return sheaf_record_writer_put(w->records, record, err);
}

/* The first record says which version the file has. */
static sheaf_status put_version(sheaf_event_writer *w, int64_t seconds, sheaf_error *err)
{
    static const char writer[] = "sheaf";
    sheaf__wire_put_double(&w->event, EVENT_WALL_TIME, (double)seconds);
    sheaf__wire_put_text(&w->event, EVENT_VERSION, "brain.Event:2");
    sheaf__wire_put_text(&w->value, SOURCE_WRITER, writer);
    SHEAF__TRY(sheaf__buf_check(&w->value, "an event", err));
    sheaf__wire_put_bytes(&w->event, EVENT_SOURCE, w->value.data, w->value.size);
    SHEAF__TRY(put_event(w, err));
    return sheaf__record_writer_flush(w->records, err);
}

sheaf_status sheaf_event_writer_open(const char *directory, sheaf_event_writer **writer,
                                     sheaf_error *err)
{
    if (!directory || !*directory)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no directory of event files");
    SHEAF__TRY(sheaf__file_mkdir(directory, 0, err));
    sheaf_event_writer *w = sheaf__calloc(1, sizeof(*w));
    if (!w)
        return sheaf__no_memory(err, "an event file");
    int64_t seconds = sheaf__clock_wall() / SHEAF__S;
    sheaf_status status = open_file(w, directory, seconds, err);
    if (status >= 0)
        status = put_version(w, seconds, err);
    if (status < 0) {
        (void)!sheaf_event_writer_close(w, NULL);
        return status;
    }
    *writer = w;
    return SHEAF_OK;
}

/* The Value of a scalar as tf.summary writes it: a float tensor of rank 0 for the plugin "scalars".
 */
static void put_scalar(struct sheaf__buf *buf, const char *tag, float value)
{
    static const uint8_t metadata[] = {METADATA_PLUGIN << 3 | SHEAF__WIRE_BYTES,
                                       9,
                                       PLUGIN_NAME << 3 | SHEAF__WIRE_BYTES,
                                       7,
                                       's',
                                       'c',
                                       'a',
                                       'l',
                                       'a',
                                       'r',
                                       's'};
    uint8_t tensor[10] = {TENSOR_DTYPE << 3 | SHEAF__WIRE_VARINT,  DTYPE_FLOAT,
                          TENSOR_SHAPE << 3 | SHEAF__WIRE_BYTES,   0,
                          TENSOR_CONTENT << 3 | SHEAF__WIRE_BYTES, sizeof(value)};
    memcpy(tensor + 6, &value, sizeof(value));
    sheaf__wire_put_text(buf, VALUE_TAG, tag);
    sheaf__wire_put_bytes(buf, VALUE_TENSOR, tensor, sizeof(tensor));
    sheaf__wire_put_bytes(buf, VALUE_METADATA, metadata, sizeof(metadata));
}

sheaf_status sheaf_event_scalar(sheaf_event_writer *w, const char *tag, int64_t step, double value,
                                sheaf_error *err)
{
    if (!w || !tag)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the %s is NULL",
                            w ? "tag of an event" : "event writer");
    sheaf__buf_clear(&w->event);
    sheaf__buf_clear(&w->value);
    put_scalar(&w->value, tag, (float)value);
    SHEAF__TRY(sheaf__buf_check(&w->value, "an event", err));
    /* From microseconds, as TensorFlow does: a double holds them exactly. */
    double wall = (double)(sheaf__clock_wall() / SHEAF__US) / 1e6;
    sheaf__wire_put_double(&w->event, EVENT_WALL_TIME, wall);
    if (step)
        sheaf__wire_put_varint(&w->event, EVENT_STEP, (uint64_t)step);
    sheaf__wire_put_tag(&w->event, EVENT_SUMMARY, SHEAF__WIRE_BYTES);
    sheaf__buf_varint(&w->event, 1 + sheaf__varint_size(w->value.size) + w->value.size);
    sheaf__wire_put_bytes(&w->event, SUMMARY_VALUE, w->value.data, w->value.size);
    SHEAF__TRY(put_event(w, err));
    w->used = true;
    return ++w->queued < QUEUE ? SHEAF_OK : sheaf_event_writer_flush(w, err);
}

sheaf_status sheaf_event_writer_flush(sheaf_event_writer *w, sheaf_error *err)
{
    if (!w)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the event writer is NULL");
    w->queued = 0;
    return sheaf__record_writer_flush(w->records, err);
}

sheaf_status sheaf_event_writer_close(sheaf_event_writer *w, sheaf_error *err)
{
    if (!w)
        return SHEAF_OK;
    sheaf_status status = sheaf_record_writer_close(w->records, false, err);
    if (w->records && !w->used)
        (void)sheaf__file_unlink(w->path, NULL);
    sheaf__buf_free(&w->event);
    sheaf__buf_free(&w->value);
    sheaf__free(w->path);
    sheaf__free(w);
    return status;
}
