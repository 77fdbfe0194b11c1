/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCUMENTS_RECORDS_H
#define DOCUMENTS_RECORDS_H

/** @file
 *  TFRecord files for the documents' programs, written into the current folder. */

#include "document.h"
#include <sys/stat.h>
#include <unistd.h>

/** Writes `count` records, `prefix` and the numbers from `first` on, into `path`. Tasks of one folder may all write it: it
 *  appears whole. */
__attribute__((unused)) static void write_records(const char *path, const char *prefix, int first,
                                                  int count)
{
    char temporary[64], text[32];
    sheaf_record_writer *writer;
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    must(sheaf_record_writer_open(temporary, SHEAF_COMPRESSION_NONE, &writer, &err));
    for (int r = first; r < first + count; r++) {
        const int size = snprintf(text, sizeof(text), "%s%d", prefix, r);
        must(sheaf_record_writer_put(writer, (sheaf_bytes){text, (size_t)size}, &err));
    }
    must(sheaf_record_writer_close(writer, false, &err));
    if (rename(temporary, path) < 0) {
        perror(path);
        exit(1);
    }
}

/** Document A's files, of 3, 2, 3 and 2 records "file/record". */
static const char *const a_files[] = {"a/1.tfr", "a/2.tfr", "a/3.tfr", "a/4.tfr"};
__attribute__((unused)) static void write_a_files(void)
{
    static const char *const prefixes[] = {"1/", "2/", "3/", "4/"};
    mkdir("a", 0777);
    for (int f = 0; f < 4; f++)
        write_records(a_files[f], prefixes[f], 0, f % 2 ? 2 : 3);
}

/** The integer that a record spells. */
__attribute__((unused)) static sheaf_status to_number(const sheaf_element *in, sheaf_element *out,
                                                      void *user)
{
    const sheaf_bytes record = sheaf_tensor_bytes(sheaf_element_at(in, 0), 0);
    char text[32];
    (void)user;
    snprintf(text, sizeof(text), "%.*s", (int)record.size, (const char *)record.data);
    return sheaf_element_put(out, "", sheaf_long(atoll(text)));
}

#endif
