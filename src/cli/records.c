/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/progress.h"

#include <sheaf/example.h>
#include <sheaf/record.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* sheaf records: TFRecord files, one after the other. A file that cannot be read does not keep the
 * others from being looked at; the exit code says that there was one. */

static struct {
    int64_t number, most;
    const char *compression;
    bool json;
} o;

#define COMPRESSION                                                   \
    {                                                                 \
        "compression", 0, SHEAF__OPTION_TEXT, "KIND", &o.compression, \
            "auto (by the first bytes), none, gzip, zlib or snappy"   \
    }
#define JSON                                                                         \
    {                                                                                \
        "json", 0, SHEAF__OPTION_FLAG, NULL, &o.json, "print one JSON object a line" \
    }
#define NOTES                                   \
    "FILE may be a pipe; - is standard input\n" \
    "exit codes: 0 all is well; 1 a file cannot be read or is damaged; 2 wrong usage"

static const char *const COMPRESSIONS[] = {"auto", "none", "gzip", "zlib", "snappy"};

enum { NOT_SAID = -1, MOST = 8 };

/* What one file is and has. */
struct file {
    const char *path;
    sheaf_record_reader *reader;
    struct sheaf__progress progress;
    uint64_t records, bytes, faults;
};

typedef void (*record_fn)(const struct file *f, uint64_t number, uint64_t offset,
                          sheaf_bytes record);

static bool choose_compression(const struct sheaf__command_line *line, sheaf_compression *kind)
{
    for (int i = 0; i < (int)(sizeof(COMPRESSIONS) / sizeof(*COMPRESSIONS)); i++)
        if (!o.compression || strcmp(o.compression, COMPRESSIONS[i]) == 0) {
            *kind = (sheaf_compression)i;
            return true;
        }
    sheaf__options_misused(line,
                           "--compression: found \"%s\", expected auto, none, gzip, zlib or snappy",
                           o.compression);
    return false;
}

/* Standard input is "-" for who called it so. */
static const char INPUT[] = "/dev/stdin";

static bool is_input(const struct file *f)
{
    return strcmp(f->path, "-") == 0;
}

static void report(struct file *f, const sheaf_error *err)
{
    char text[600];
    sheaf_error shown = *err;
    if (is_input(f) && strcmp(shown.file, INPUT) == 0)
        snprintf(shown.file, sizeof(shown.file), "%s", f->path);
    sheaf_error_format(&shown, text, sizeof(text));
    f->faults++;
    sheaf__progress_end(&f->progress);
    fflush(stdout);
    fprintf(stderr, "sheaf records: %s\n", text);
}

/* Reads records up to the `most`-th (0: all). A damaged record is reported; with `go_on` the next
 * one is read, if the damage leaves a way to it. */
static void read_records(struct file *f, uint64_t most, bool go_on, record_fn fn)
{
    uint64_t offset, before = UINT64_MAX;
    while (most == 0 || f->records < most) {
        sheaf_bytes record;
        sheaf_error err = {0};
        uint64_t number = sheaf_record_reader_position(f->reader, &offset);
        sheaf_status status = sheaf_record_reader_next(f->reader, &record, &err);
        if (status == SHEAF_END)
            return;
        if (status < 0) {
            bool stuck = offset == before; /* the same place failed before: there is no way on */
            if (!stuck)
                report(f, &err);
            if (stuck || !go_on)
                return;
            before = offset;
            continue;
        }
        f->records++;
        f->bytes += record.size;
        if (fn)
            fn(f, number, offset, record);
        sheaf__progress_at(&f->progress, offset);
    }
}

static void scan(struct file *f, sheaf_compression kind, uint64_t most, bool go_on, record_fn fn)
{
    sheaf_error err = {0};
    struct stat st;
    const char *path = is_input(f) ? INPUT : f->path;
    uint64_t size = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    sheaf__progress_start(&f->progress, f->path, size);
    if (sheaf_record_reader_open(path, kind, &f->reader, &err) < 0) {
        report(f, &err);
        return;
    }
    read_records(f, most, go_on, fn);
    sheaf_record_reader_free(f->reader);
    sheaf__progress_end(&f->progress);
}

/* ---- head ---- */

static void print_record(const struct file *f, uint64_t number, uint64_t offset, sheaf_bytes record)
{
    size_t (*const format)(sheaf_bytes, size_t, char *, size_t) =
        o.json ? sheaf_example_json : sheaf_example_format;
    const size_t most = o.most != NOT_SAID ? (size_t)o.most : o.json ? SIZE_MAX : MOST;
    char stack[8192], *text = stack;
    size_t size = format(record, most, text, sizeof(stack));
    if (size >= sizeof(stack)) {
        text = malloc(size + 1);
        if (text)
            format(record, most, text, size + 1);
        else
            size = 0;
    }
    if (o.json) {
        fputs("{\"file\":", stdout);
        sheaf__json_text(f->path);
        printf(",\"record\":%llu,\"offset\":%llu,\"bytes\":%zu,\"features\":",
               (unsigned long long)number, (unsigned long long)offset, record.size);
        printf("%s}\n", size ? text : "null");
    } else {
        printf("%s: record %llu, offset %llu, %zu bytes\n", f->path, (unsigned long long)number,
               (unsigned long long)offset, record.size);
        if (size)
            printf("%s%s", text, text[size - 1] == '\n' ? "" : "\n");
    }
    if (text != stack)
        free(text);
}

static int head_main(int argc, char **argv)
{
    static const struct sheaf__option OPTIONS[] = {
        {"number", 'n', SHEAF__OPTION_COUNT, "N", &o.number, "records of each file (1); 0: all"},
        {"values", 'v', SHEAF__OPTION_COUNT, "N", &o.most,
         "values of each feature (8; as JSON all)"},
        COMPRESSION,
        JSON,
    };
    static const struct sheaf__command_line LINE = {
        .command = "sheaf records head",
        .usage = "[options] FILE...",
        .summary =
            "Prints the first records of TFRecord files, as tf.train.Example if they are some.",
        .options = OPTIONS,
        .option_count = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
        .notes = NOTES,
    };
    sheaf_compression kind;
    int rest, code;
    o.number = 1;
    o.most = NOT_SAID;
    if (!sheaf__options_parse(&LINE, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(&LINE, "a file is missing");
    if (!choose_compression(&LINE, &kind))
        return SHEAF__EXIT_USAGE;
    bool faults = false;
    for (; rest < argc; rest++) {
        struct file f = {.path = argv[rest]};
        scan(&f, kind, (uint64_t)o.number, false, print_record);
        faults = faults || f.faults;
    }
    return faults ? SHEAF__EXIT_FAILED : SHEAF__EXIT_OK;
}

/* ---- count and verify ---- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_sums(const struct file *f, bool verified)
{
    unsigned long long records = f->records, bytes = f->bytes, faults = f->faults;
    if (o.json) {
        fputs("{\"file\":", stdout);
        sheaf__json_text(f->path);
        printf(",\"records\":%llu,\"bytes\":%llu", records, bytes);
        if (verified)
            printf(",\"faults\":%llu", faults);
        puts("}");
    } else if (faults) {
        printf("%s: %llu good record%s, %llu fault%s\n", f->path, records, plural(records), faults,
               plural(faults));
    } else {
        printf("%s: %llu record%s, %llu bytes%s\n", f->path, records, plural(records), bytes,
               verified ? ", every checksum is right" : "");
    }
}

static const struct sheaf__option SUM_OPTIONS[] = {COMPRESSION, JSON};

static int sum_main(const struct sheaf__command_line *line, bool verify, int argc, char **argv)
{
    sheaf_compression kind;
    int rest, code;
    if (!sheaf__options_parse(line, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(line, "a file is missing");
    if (!choose_compression(line, &kind))
        return SHEAF__EXIT_USAGE;
    bool faults = false;
    struct file total = {.path = "total"};
    int files = argc - rest;
    for (; rest < argc; rest++) {
        struct file f = {.path = argv[rest]};
        scan(&f, kind, 0, verify, NULL);
        if (verify || !f.faults)
            print_sums(&f, verify);
        total.records += f.records;
        total.bytes += f.bytes;
        total.faults += f.faults;
        faults = faults || f.faults;
    }
    if (files > 1 && !o.json)
        print_sums(&total, verify);
    return faults ? SHEAF__EXIT_FAILED : SHEAF__EXIT_OK;
}

static int count_main(int argc, char **argv)
{
    static const struct sheaf__command_line LINE = {
        .command = "sheaf records count",
        .usage = "[options] FILE...",
        .summary = "Counts the records of TFRecord files and their bytes.",
        .options = SUM_OPTIONS,
        .option_count = sizeof(SUM_OPTIONS) / sizeof(SUM_OPTIONS[0]),
        .notes = NOTES,
    };
    return sum_main(&LINE, false, argc, argv);
}

static int verify_main(int argc, char **argv)
{
    static const struct sheaf__command_line LINE = {
        .command = "sheaf records verify",
        .usage = "[options] FILE...",
        .summary = "Reads TFRecord files to their ends and reports every record that is damaged.",
        .options = SUM_OPTIONS,
        .option_count = sizeof(SUM_OPTIONS) / sizeof(SUM_OPTIONS[0]),
        .notes = NOTES,
    };
    return sum_main(&LINE, true, argc, argv);
}

int sheaf__records_main(int argc, char **argv)
{
    static const struct sheaf__command COMMANDS[] = {
        {"head", head_main, "print the first records"},
        {"count", count_main, "count records and bytes"},
        {"verify", verify_main, "check every checksum"},
    };
    static const struct sheaf__command_set SET = {"sheaf records", "Looks into TFRecord files.",
                                                  COMMANDS, 3, NULL};
    return sheaf__commands_dispatch(&SET, argc, argv);
}
