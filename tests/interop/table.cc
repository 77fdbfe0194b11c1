/* SPDX-License-Identifier: Apache-2.0 */

/* LevelDB's own reader on the index of a checkpoint, for check.py: `table FILE...` opens each, verifies the checksums of all blocks,
 * looks every key up again, and prints "key value" in hexadecimal, a line each. */

#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

static void must(const leveldb::Status &status, const char *file)
{
    if (status.ok())
        return;
    std::fprintf(stderr, "%s: %s\n", file, status.ToString().c_str());
    std::exit(1);
}

static void print(const leveldb::Slice &bytes, char end)
{
    for (size_t i = 0; i < bytes.size(); i++)
        std::printf("%02x", static_cast<unsigned char>(bytes[i]));
    std::putchar(end);
}

static void read(const char *file)
{
    leveldb::Options options;
    options.paranoid_checks = true;
    leveldb::ReadOptions check;
    check.verify_checksums = true;
    uint64_t size = 0;
    leveldb::RandomAccessFile *opened = nullptr;
    leveldb::Table *table = nullptr;
    must(options.env->GetFileSize(file, &size), file);
    must(options.env->NewRandomAccessFile(file, &opened), file);
    std::unique_ptr<leveldb::RandomAccessFile> own_file(opened);
    must(leveldb::Table::Open(options, opened, size, &table), file);
    std::unique_ptr<leveldb::Table> own_table(table);
    std::unique_ptr<leveldb::Iterator> it(table->NewIterator(check));
    std::unique_ptr<leveldb::Iterator> again(table->NewIterator(check));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
        again->Seek(it->key());
        if (!again->Valid() || again->key() != it->key() || again->value() != it->value())
            must(leveldb::Status::Corruption("a key is not found where it is"), file);
        print(it->key(), ' ');
        print(it->value(), '\n');
    }
    must(it->status(), file);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        read(argv[i]);
    return 0;
}
