/* SPDX-License-Identifier: Apache-2.0 */

/* What this machine can do at most, for the works of the benchmarks: lines "limit<TAB>work<TAB>figure<TAB>unit".
 * usage: limits train|allreduce|ps|checkpoint|input [DIR [WORK]] */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *floats(size_t count)
{
    float *data = NULL;
    if (posix_memalign((void **)&data, 64, count * sizeof(float)) != 0) {
        fputs("limits: not enough memory\n", stderr);
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        data[i] = 1e-3f;
    return data;
}

/* ---- two threads that share a pass over memory ---- */

struct half {
    void (*pass)(const struct half *h);
    float *a, *b, *c, *d;
    size_t begin, end;
    int rounds;
    pthread_barrier_t *barrier;
};

static void *run_half(void *user)
{
    const struct half *h = user;
    for (int i = 0; i < h->rounds; i++) {
        pthread_barrier_wait(h->barrier);
        h->pass(h);
    }
    pthread_barrier_wait(h->barrier);
    return NULL;
}

/* Seconds of a pass by two threads, best of three measurements. */
static double time_pass(void (*pass)(const struct half *h), float *const *memory, size_t count,
                        int rounds)
{
    double best = 1e9;
    for (int time = 0; time < 3; time++) {
        pthread_barrier_t barrier;
        pthread_t thread;
        pthread_barrier_init(&barrier, NULL, 2);
        struct half halves[2];
        for (int i = 0; i < 2; i++)
            halves[i] = (struct half){pass,
                                      memory[0],
                                      memory[1],
                                      memory[2],
                                      memory[3],
                                      i ? count / 2 : 0,
                                      i ? count : count / 2,
                                      rounds,
                                      &barrier};
        pthread_create(&thread, NULL, run_half, &halves[1]);
        double begin = now();
        run_half(&halves[0]);
        double seconds = (now() - begin) / rounds;
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&barrier);
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* ---- train: oneDNN's products of a step alone, and the update of Adam alone ---- */

static int (*sgemm)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                    const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                    int64_t ldc);

/* C (m, n) = A B, where one may be stored transposed. */
struct product {
    char transa, transb;
    int64_t m, n, k;
    float *a, *b, *c;
};

static const int64_t SIZES[] = {784, 512, 512, 10};
enum { LAYERS = 3, PRODUCTS = 3 * LAYERS - 1 };
static struct product products[PRODUCTS];

static void set_product(struct product *p, char transa, char transb, int64_t m, int64_t n,
                        int64_t k)
{
    *p = (struct product){transa,
                          transb,
                          m,
                          n,
                          k,
                          floats((size_t)(m * k)),
                          floats((size_t)(k * n)),
                          floats((size_t)(m * n))};
}

/* Forward, then back: the gradient of a layer's input, which the first does not need, and of its weights. */
static void set_products(int batch)
{
    struct product *p = products;
    for (int i = 0; i < LAYERS; i++)
        set_product(p++, 'N', 'N', batch, SIZES[i + 1], SIZES[i]);
    for (int i = LAYERS - 1; i >= 0; i--) {
        if (i > 0)
            set_product(p++, 'N', 'T', batch, SIZES[i], SIZES[i + 1]);
        set_product(p++, 'T', 'N', SIZES[i], SIZES[i + 1], batch);
    }
}

static void free_products(void)
{
    for (int i = 0; i < PRODUCTS; i++) {
        free(products[i].a);
        free(products[i].b);
        free(products[i].c);
    }
}

/* One thread's half of every product: of the longer side of C. */
static void gemms_pass(const struct half *h)
{
    for (const struct product *p = products; p < products + PRODUCTS; p++) {
        bool down = p->m >= p->n, transa = p->transa == 'T', transb = p->transb == 'T';
        int64_t whole = down ? p->m : p->n, from = h->begin ? whole / 2 : 0;
        int64_t row = down ? from : 0, column = down ? 0 : from;
        int64_t size = h->begin ? whole - whole / 2 : whole / 2;
        int64_t lda = transa ? p->m : p->k, ldb = transb ? p->k : p->n;
        sgemm(p->transa, p->transb, down ? size : p->m, down ? p->n : size, p->k, 1,
              p->a + (transa ? row : row * lda), lda, p->b + (transb ? column * ldb : column), ldb,
              0, p->c + row * p->n + column, p->n);
    }
}

/* Nothing is printed where oneDNN is not installed. */
static void gemms(void)
{
    setenv("OMP_NUM_THREADS", "1", 1); /* each of the two threads computes by itself */
    void *library = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    library = library ? library : dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    *(void **)&sgemm = library ? dlsym(library, "dnnl_sgemm") : NULL;
    float *const none[4] = {NULL};
    for (int batch = 32; sgemm && batch <= 256; batch *= 8) {
        set_products(batch);
        double seconds = time_pass(gemms_pass, none, 2, 100);
        printf("gemms\ttrain MLP 784-512-512-10 batch %d sgd\t%.0f\texamples/s\n", batch,
               batch / seconds);
        free_products();
    }
}

static void adam_pass(const struct half *h)
{
    float *restrict w = h->a, *restrict m = h->c, *restrict v = h->d;
    const float *restrict g = h->b;
    for (size_t i = h->begin; i < h->end; i++) {
        m[i] += (g[i] - m[i]) * 0.1f;
        v[i] += (g[i] * g[i] - v[i]) * 0.001f;
        w[i] -= m[i] * 1e-3f / (__builtin_sqrtf(v[i]) + 1e-7f);
    }
}

static void train(void)
{
    size_t count = 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10;
    float *memory[4] = {floats(count), floats(count), floats(count), floats(count)};
    double seconds = time_pass(adam_pass, memory, count, 100);
    for (int batch = 32; batch <= 256; batch *= 8)
        printf("adam-pass\ttrain MLP 784-512-512-10 batch %d adam\t%.0f\texamples/s\n", batch,
               batch / seconds);
    gemms();
}

/* ---- allreduce: each of two threads sums one half and copies the other ---- */

static void sum_pass(const struct half *h)
{
    float *restrict a = h->a, *restrict b = h->b;
    for (size_t i = h->begin; i < h->end; i++)
        a[i] = b[i] = a[i] + b[i];
}

static void allreduce(void)
{
    static const size_t COUNTS[] = {16384, 262144, 1 << 20, 1 << 24};
    for (size_t i = 0; i < sizeof(COUNTS) / sizeof(COUNTS[0]); i++) {
        size_t count = COUNTS[i];
        float *memory[4] = {floats(count), floats(count)};
        double seconds = time_pass(sum_pass, memory, count, count > 1 << 18 ? 20 : 300);
        printf("memory\tall-reduce n=2 %zuB\t%.1f\tus\n", count * sizeof(float), seconds * 1e6);
        free(memory[0]);
        free(memory[1]);
    }
}

/* ---- ps: into another process's memory and back, and one pass of the update ---- */

static void copy_and_update(pid_t other, float *remote, float *local, float *value, size_t count)
{
    size_t bytes = count * sizeof(float);
    struct iovec here = {local, bytes}, there = {remote, bytes};
    if (process_vm_readv(other, &here, 1, &there, 1, 0) != (ssize_t)bytes ||
        process_vm_writev(other, &here, 1, &there, 1, 0) != (ssize_t)bytes) {
        fprintf(stderr, "limits: cannot copy between processes: %s\n", strerror(errno));
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        value[i] -= local[i] * 1e-6f;
}

static void ps(void)
{
    static const size_t COUNTS[] = {256, 262144, 1 << 22};
    for (size_t i = 0; i < sizeof(COUNTS) / sizeof(COUNTS[0]); i++) {
        size_t count = COUNTS[i];
        float *memory = floats(count), *local = floats(count), *value = floats(count);
        pid_t other = fork();
        if (other == 0) {
            for (size_t k = 0; k < count; k++)
                memory[k] = 2; /* a copy of its own */
            pause();
            _exit(0);
        }
        double best = 1e9;
        int rounds = count > 1 << 20 ? 40 : 200;
        for (int time = 0; time < 4; time++) {
            double begin = now();
            for (int k = 0; k < rounds; k++)
                copy_and_update(other, memory, local, value, count);
            double seconds = (now() - begin) / rounds;
            best = time && seconds < best ? seconds : best;
        }
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        printf("copy+update\tps pull+push %zuB dense step\t%.1f\tus\n", count * sizeof(float),
               best * 1e6);
        free(memory);
        free(local);
        free(value);
    }
}

/* ---- checkpoint: the same bytes as one plain file ---- */

enum { COUNT = 64, SIZE = 16 << 20 };

static void make_buffers(char **buffers)
{
    for (int i = 0; i < COUNT; i++)
        buffers[i] = (char *)floats(SIZE / sizeof(float));
}

static void free_buffers(char **buffers)
{
    for (int i = 0; i < COUNT; i++)
        free(buffers[i]);
}

/* 1 GiB from 64 buffers into 64 others that were touched. */
static void copy_all(const char *work)
{
    char *from[COUNT], *to[COUNT];
    double seconds = 0;
    make_buffers(from);
    make_buffers(to);
    for (int time = 0; time < 3; time++) {
        double begin = now();
        for (int i = 0; i < COUNT; i++)
            memcpy(to[i], from[i], SIZE);
        seconds = now() - begin;
    }
    printf("memcpy\t%s\t%.3f\tGiB/s\n", work, (to[3][5] == from[3][5]) / seconds);
    free_buffers(from);
    free_buffers(to);
}

/* All from one buffer. */
static void write_plain(const char *path, const char *data)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    int done = 0;
    while (fd >= 0 && done < COUNT && write(fd, data, SIZE) == SIZE)
        done++;
    if (fd < 0 || done < COUNT || fsync(fd) != 0) {
        fprintf(stderr, "limits: cannot write %s: %s\n", path, strerror(errno));
        exit(1);
    }
    close(fd);
}

static void read_plain(const char *path, char **to)
{
    int fd = open(path, O_RDONLY);
    int done = 0;
    while (fd >= 0 && done < COUNT && read(fd, to[done], SIZE) == SIZE)
        done++;
    if (done < COUNT) {
        fprintf(stderr, "limits: cannot read %s: %s\n", path, strerror(errno));
        exit(1);
    }
    close(fd);
}

/* 1 GiB as one file, written or read twice; the second time counts. */
static void plain_file(const char *directory, const char *work, int saves)
{
    char path[4096], *buffers[COUNT];
    double seconds = 0;
    snprintf(path, sizeof(path), "%s/plain", directory);
    make_buffers(buffers);
    if (!saves)
        write_plain(path, buffers[0]);
    for (int time = 0; time < 2; time++) {
        double begin = now();
        if (saves)
            write_plain(path, buffers[0]);
        else
            read_plain(path, buffers);
        seconds = now() - begin;
    }
    unlink(path);
    free_buffers(buffers);
    printf("%s\t%s\t%.3f\tGiB/s\n", saves ? "write+fsync" : "read", work, 1 / seconds);
}

static void checkpoint_limits(const char *directory, const char *work)
{
    if (strcmp(work, "background save 64x16MiB, time blocked") == 0)
        copy_all(work);
    else if (strcmp(work, "save 64x16MiB") == 0)
        plain_file(directory, work, 1);
    else if (strcmp(work, "restore 64x16MiB") == 0)
        plain_file(directory, work, 0);
}

/* ---- input: the CRCs of mapped files' records, two threads with half of the files each; mapped anew in every pass, as
 * readers do, and once for all passes, which leaves the CRCs and the memory alone ---- */

enum { FILES = 4 };

struct mapped {
    unsigned char *data;
    size_t size;
};

static uint32_t masked_crc(const unsigned char *at, uint64_t size)
{
    uint32_t crc = ~crc32_iscsi((unsigned char *)at, (int)size, ~0U);
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static struct mapped map_file(const char *directory, const char *kind, int i)
{
    struct stat st = {0};
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s-%05d-of-%05d.tfrecord", directory, kind, i, FILES);
    int fd = open(path, O_RDONLY);
    void *data = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        fprintf(stderr, "limits: cannot map %s: %s\n", path, strerror(errno));
        exit(1);
    }
    close(fd);
    return (struct mapped){data, (size_t)st.st_size};
}

/* The number of records. */
static long check_records(const unsigned char *data, size_t size)
{
    long records = 0;
    size_t at = 0;
    for (; at + 16 <= size; records++) {
        uint64_t length;
        uint32_t of_length, of_data;
        memcpy(&length, data + at, 8);
        memcpy(&of_length, data + at + 8, 4);
        if (masked_crc(data + at, 8) != of_length || length > size - at - 16)
            break;
        memcpy(&of_data, data + at + 12 + length, 4);
        if (masked_crc(data + at + 12, length) != of_data)
            break;
        at += length + 16;
    }
    if (at != size || records == 0) {
        fputs("limits: a file has no records, or bad ones\n", stderr);
        exit(1);
    }
    return records;
}

struct crc_half {
    const char *directory, *kind;
    const struct mapped *kept; /* NULL: mapped anew */
    int first;
    long records; /* of its files */
};

static void *check_half(void *user)
{
    struct crc_half *h = user;
    h->records = 0;
    for (int i = h->first; i < FILES; i += 2) {
        const struct mapped file = h->kept ? h->kept[i] : map_file(h->directory, h->kind, i);
        h->records += check_records(file.data, file.size);
        if (!h->kept)
            munmap(file.data, file.size);
    }
    return NULL;
}

static void crc_passes(const char *name, const char *directory, const char *kind,
                       const struct mapped *kept)
{
    double begin = now(), seconds;
    long total = 0;
    do {
        struct crc_half halves[2] = {{directory, kind, kept, 0, 0}, {directory, kind, kept, 1, 0}};
        pthread_t thread;
        pthread_create(&thread, NULL, check_half, &halves[1]);
        check_half(&halves[0]);
        pthread_join(thread, NULL);
        total += halves[0].records + halves[1].records;
        seconds = now() - begin;
    } while (seconds < 0.5);
    printf("%s\traw read %s\t%.0f\trecords/s\n", name, kind, (double)total / seconds);
}

static void crc_pass(const char *directory, const char *kind)
{
    struct mapped files[FILES];
    crc_passes("crc-pass", directory, kind, NULL);
    for (int i = 0; i < FILES; i++)
        files[i] = map_file(directory, kind, i);
    crc_passes("crc-pass-kept", directory, kind, files);
    for (int i = 0; i < FILES; i++)
        munmap(files[i].data, files[i].size);
}

static void input(const char *directory, const char *work)
{
    static const char *const KINDS[] = {"ctr", "img"};
    for (int i = 0; i < 2; i++)
        if (!*work || (strncmp(work, "raw read ", 9) == 0 && strcmp(work + 9, KINDS[i]) == 0))
            crc_pass(directory, KINDS[i]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "train") == 0) {
        train();
    } else if (strcmp(what, "allreduce") == 0) {
        allreduce();
    } else if (strcmp(what, "ps") == 0) {
        ps();
    } else if (strcmp(what, "checkpoint") == 0 && argc > 3) {
        checkpoint_limits(argv[2], argv[3]);
    } else if (strcmp(what, "input") == 0 && argc > 2) {
        input(argv[2], argc > 3 ? argv[3] : "");
    } else {
        fputs("usage: limits train|allreduce|ps|checkpoint|input [DIR [WORK]]\n", stderr);
        return 2;
    }
    return 0;
}
