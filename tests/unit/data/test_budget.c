/* SPDX-License-Identifier: Apache-2.0 */
#include "damaged.h"

#include "base/sim.h"

/* A number of corrupt records in all that is smaller than there are: which of them are skipped does not depend on
 * who reads ahead. */

enum { FILES = 5, EACH = 9, BAD = 9 };

/* File f lacks record `bad[f][...]`. */
static bool is_bad(int file, int record)
{
    static const int bad[FILES][3] = {{8, -1, -1}, {0, 5, 6}, {1, 2, -1}, {-1, -1, -1}, {0, 1, 8}};
    return bad[file][0] == record || bad[file][1] == record || bad[file][2] == record;
}

static const char *name_of(int file)
{
    char name[8];
    snprintf(name, sizeof(name), "%d", file);
    return rig_path(name);
}

/* The files, and a file of their names; with `damaged` the second name comes twice, and corrupt the first time. */
static const char *write_files(bool damaged)
{
    const char *names = rig_path("names");
    sheaf_record_writer *w;
    sheaf_error err = {0};
    rig_ok(sheaf_record_writer_open(names, SHEAF_COMPRESSION_NONE, &w, &err), &err);
    for (int f = 0; f < FILES; f++) {
        const char *path = name_of(f);
        write_records(strrchr(path, '/') + 1, f * EACH, EACH, SHEAF_COMPRESSION_NONE);
        for (int i = 0; i < EACH; i++)
            if (is_bad(f, i))
                flip_data(path, i);
        for (int copies = damaged && f == 1 ? 2 : 1; copies > 0; copies--)
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){path, strlen(path)}, &err), &err);
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    if (damaged)
        flip(names, (long)(16 + strlen(name_of(0)) + 13));
    return names;
}

/* ---- pipelines ---- */

enum inside { NOTHING, PREFETCH, MAP, SHUFFLE, BATCH, INTERLEAVE, INSIDES };

struct form {
    enum inside inside; /* of each file's dataset */
    int cycle, block, threads;
    bool unordered;
    int64_t limit;
    bool zip; /* two files beside each other instead of all in turn */
};

static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    sheaf__thread_point();
    return sheaf_element_put(out, "", sheaf_element_at(in, 0));
}

static sheaf_dataset *open_file(const sheaf_element *in, void *user)
{
    const struct form *f = user;
    const sheaf_map_options two = {.parallel = f->threads > 0 ? 2 : 0};
    const sheaf_interleave_options cycle = {.cycle_length = 1, .parallel = f->threads > 0};
    if (f->inside == INTERLEAVE)
        return sheaf_dataset_interleave(
            sheaf_dataset_from_tensors(sheaf_element_of(sheaf_element_at(in, 0))),
            sheaf_open_tfrecord, NULL, &cycle);
    sheaf_dataset *d = sheaf_open_tfrecord(in, NULL);
    switch (f->inside) {
    case PREFETCH:
        return sheaf_dataset_prefetch(d, f->threads);
    case MAP:
        return sheaf_dataset_map(d, same, NULL, &two);
    case SHUFFLE:
        return sheaf_dataset_shuffle(d, 4, &(sheaf_shuffle_options){.seed = 3});
    case BATCH:
        return sheaf_dataset_unbatch(sheaf_dataset_batch(d, 2, NULL));
    default:
        return d;
    }
}

static sheaf_dataset *pipeline(struct form *f, const char *names)
{
    const sheaf_interleave_options o = {.cycle_length = f->cycle,
                                        .block_length = f->block,
                                        .parallel = f->threads,
                                        .unordered = f->unordered};
    if (f->zip) {
        sheaf_dataset *two[] = {sheaf_dataset_prefetch(sheaf_tfrecord(name_of(1)), f->threads),
                                sheaf_dataset_prefetch(sheaf_tfrecord(name_of(4)), f->threads)};
        return skipping(sheaf_dataset_prefetch(sheaf_dataset_zip(two, 2), f->threads), 0, f->limit);
    }
    sheaf_dataset *d = sheaf_tfrecord(names);
    d = sheaf_dataset_interleave(d, f->inside == NOTHING ? sheaf_open_tfrecord : open_file, f, &o);
    return skipping(sheaf_dataset_prefetch(d, f->threads), 0, f->limit);
}

/* ---- what comes out ---- */

struct run {
    struct form form;
    const char *names;
    int stop;         /* after so many elements and errors another iterator goes on; 0: none does */
    char found[1024]; /* numbers, and "E<file>:<record>" */
    int64_t skipped;
    int errors;
};

static void add(struct run *r, const char *text)
{
    strncat(r->found, text, sizeof(r->found) - strlen(r->found) - 1);
}

static void add_error(struct run *r, const sheaf_error *err)
{
    char text[64];
    snprintf(text, sizeof(text), "E%s:%d ", strrchr(err->file, '/') + 1, (int)err->record);
    add(r, err->status == SHEAF_ERR_DATA_LOSS ? text : err->message);
    r->errors++;
}

static void go_on_with_another(sheaf_iterator **it, sheaf_dataset *d)
{
    sheaf_iterator *other = sheaf_dataset_iterate(d);
    sheaf_bytes position;
    sheaf_error err = {0};
    rig_ok(sheaf_iterator_save(*it, &position, &err), &err);
    rig_ok(sheaf_iterator_restore(other, position, &err), &err);
    sheaf_iterator_free(*it);
    *it = other;
}

static void run(void *user)
{
    struct run *r = user;
    sheaf_dataset *d = pipeline(&r->form, r->names);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_status status = SHEAF_OK;
    r->found[0] = 0;
    r->errors = 0;
    for (int i = 0; i < 1000 && status != SHEAF_END; i++)
        SHEAF_FRAME
        {
            sheaf_error err = {0};
            sheaf_element *e;
            char text[16];
            if (i > 0 && i == r->stop)
                go_on_with_another(&it, d);
            status = sheaf_iterator_next(it, &e, &err);
            if (status < 0)
                add_error(r, &err);
            if (status != SHEAF_OK)
                continue;
            snprintf(text, sizeof(text), "%.4s",
                     sheaf_tensor_bytes(sheaf_element_at(e, 0), 0).data);
            const int number = atoi(text);
            snprintf(text, sizeof(text), "%d ", number);
            add(r, text);
        }
    SHEAF_FRAME
    {
        sheaf_account a;
        sheaf_error err = {0};
        status = sheaf_iterator_account(it, &a, &err);
        r->skipped = status < 0 ? -1 : a.skipped;
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* ---- the naive model: one after the other ---- */

struct model {
    struct run *r;
    int64_t left;      /* of the number */
    int file[FILES];   /* of each slot; FILES: none */
    int record[FILES]; /* its next */
};

/* One element, or the error in its place; false: the file is at its end. */
static bool take_one(struct model *m, int slot)
{
    char text[32];
    const int file = m->file[slot];
    while (m->record[slot] < EACH) {
        const int record = m->record[slot]++;
        const bool bad = is_bad(file, record);
        if (bad && m->left > 0) {
            m->left--;
            continue;
        }
        if (bad)
            snprintf(text, sizeof(text), "E%d:%d ", file, record);
        else
            snprintf(text, sizeof(text), "%d ", file * EACH + record);
        add(m->r, text);
        return true;
    }
    return false;
}

static void run_model(struct run *r)
{
    const struct form *f = &r->form;
    struct model m = {.r = r, .left = f->limit};
    int next = 0, in_block = 0;
    r->found[0] = 0;
    for (int i = 0; i < f->cycle; i++)
        m.file[i] = FILES;
    for (int slot = 0, empty = 0; empty < f->cycle; slot = (slot + 1) % f->cycle) {
        if (m.file[slot] == FILES && next < FILES) {
            m.file[slot] = next++;
            m.record[slot] = 0;
        }
        empty = m.file[slot] == FILES ? empty + 1 : 0;
        if (m.file[slot] == FILES)
            continue;
        for (in_block = 0; in_block < f->block && take_one(&m, slot); in_block++)
            ;
        if (in_block < f->block)
            m.file[slot] = FILES;
    }
}

/* ---- the tests ---- */

static void assert_counts(const struct run *r, int bad)
{
    if (r->skipped != r->form.limit || r->errors != bad - r->form.limit)
        fail_msg("limit %d: %d skipped, %d errors: %s", (int)r->form.limit, (int)r->skipped,
                 r->errors, r->found);
}

static void assert_same(const struct run *r, const struct run *other)
{
    if (strcmp(r->found, other->found) != 0)
        fail_msg("inside %d, cycle %d, block %d, threads %d, limit %d: %s, expected %s",
                 r->form.inside, r->form.cycle, r->form.block, r->form.threads, (int)r->form.limit,
                 r->found, other->found);
}

/* The same up to the first error, behind which an interleave without threads has another order. */
static void assert_begins_alike(const struct run *r, const struct run *alone)
{
    const char *error = strchr(alone->found, 'E');
    const size_t n = error ? (size_t)(strchr(error, ' ') - alone->found) : strlen(alone->found);
    if (strncmp(r->found, alone->found, n) != 0)
        fail_msg("inside %d, limit %d: %s, expected %s", r->form.inside, (int)r->form.limit,
                 r->found, alone->found);
}

/* What does not reorder or batch gives what the model says, with any number of threads. */
static void test_T29_threads_skip_what_the_model_skips(void **state)
{
    (void)state;
    const enum inside kinds[] = {NOTHING, PREFETCH, MAP, INTERLEAVE};
    const char *names = write_files(false);
    for (int c = 0; c < 4 * 3 * 2; c++)
        for (int64_t limit = 1; limit <= BAD; limit += 2) {
            struct run model = {.form = {kinds[c % 4], c / 4 % 3 + 1, c / 12 + 1, 0, false, limit}};
            run_model(&model);
            for (int threads = 1; threads <= model.form.cycle; threads++) {
                struct run r = {.form = model.form, .names = names};
                r.form.threads = threads;
                run(&r);
                assert_same(&r, &model);
                assert_counts(&r, BAD);
            }
        }
    rig_log_take();
}

/* Under a scheduler that picks who goes on, and where stages keep rows back or the names are damaged themselves. */
static void test_T29_any_order_of_events(void **state)
{
    (void)state;
    for (int damaged = 0; damaged < 2; damaged++) {
        const char *names = write_files(damaged);
        for (int c = 0; c < INSIDES * 3; c++) {
            struct run first = {.form = {c % INSIDES, 3, 2, 1, false, 1 + c / INSIDES * 3}, names};
            struct run alone = first;
            run(&first);
            assert_counts(&first, BAD + damaged);
            alone.form.threads = 0;
            run(&alone);
            assert_begins_alike(&first, &alone);
            for (uint64_t seed = 1; seed <= 12; seed++) {
                struct run r = first;
                sheaf_error err = {0};
                r.form.threads = 1 + (int)(seed % 3);
                rig_ok(sheaf__sim_run(seed, run, &r, NULL, &err), &err);
                assert_same(&r, &first);
                assert_counts(&r, BAD + damaged);
            }
        }
    }
    rig_log_take();
}

/* Inputs that are read beside each other. */
static void test_T29_zip(void **state)
{
    (void)state;
    write_files(false);
    for (int64_t limit = 1; limit <= 5; limit++) {
        struct run alone = {.form = {.zip = true, .limit = limit}};
        run(&alone);
        for (uint64_t seed = 1; seed <= 30; seed++) {
            struct run r = {.form = {.zip = true, .threads = 3, .limit = limit}};
            sheaf_error err = {0};
            rig_ok(sheaf__sim_run(seed, run, &r, NULL, &err), &err);
            assert_same(&r, &alone);
            assert_int_equal(r.skipped, alone.skipped);
        }
    }
    rig_log_take();
}

/* Gone on with after any element or error, in a form that keeps rows back and in one that does not. */
static void test_T29_resumed(void **state)
{
    (void)state;
    const char *names = write_files(true);
    for (int c = 0; c < 2 * 3 * 2; c++) {
        const enum inside inside = c % 2 ? SHUFFLE : PREFETCH;
        struct run whole = {.form = {inside, 3, 2, c / 2 % 3, false, 3}, .names = names};
        whole.form.zip = c >= 6;
        run(&whole);
        for (int stop = 1; stop <= FILES * EACH; stop++) {
            struct run r = whole;
            r.stop = stop;
            run(&r);
            assert_same(&r, &whole);
            assert_int_equal(r.skipped, whole.skipped);
        }
    }
    rig_log_take();
}

/* Any order is right then, but not any number. */
static void test_T29_counts_are_exact_without_order(void **state)
{
    (void)state;
    const char *names = write_files(false);
    for (int64_t limit = 1; limit <= BAD; limit++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            struct run r = {.form = {NOTHING, 3, 1, 3, true, limit}, .names = names};
            sheaf_error err = {0};
            rig_ok(sheaf__sim_run(seed, run, &r, NULL, &err), &err);
            assert_counts(&r, BAD);
        }
    rig_log_take();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T29_threads_skip_what_the_model_skips),
        rig_test(test_T29_any_order_of_events),
        rig_test(test_T29_zip),
        rig_test(test_T29_resumed),
        rig_test(test_T29_counts_are_exact_without_order),
    };
    return rig_run(tests);
}
