/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels against each other: oneDNN's and the reference's, vector and portable loops, any number
 * of threads. */
#include "rig.h"

#include "ops_help.h"

#include "base/array.h"
#include "base/dl.h"
#include "base/file.h"
#include "base/mem.h"
#include "ops/gemm.h"
#include "ops/op.h"
#include "ops/vector.h"

#include <stdlib.h>
#include <string.h>

/* A context with these variables set. */
static sheaf_context *enter(const char *const *environment)
{
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    const sheaf_context_options options = {.environment = environment};
    rig_ok(sheaf_context_new(&options, &context, &err), &err);
    sheaf_context_enter(context);
    return context;
}

static void leave(sheaf_context *context, sheaf_context *before)
{
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

struct product {
    int m, n, k;
    bool transpose_a, transpose_b;
    sheaf_dtype dtype;
};

/* The product under the environment, copied to memory of the caller's. */
static void *compute(const struct product *p, const char *const *environment)
{
    sheaf_context *before = sheaf_context_enter(NULL);
    sheaf_context *context = enter(environment);
    size_t size = (size_t)p->m * (size_t)p->n * sheaf_dtype_size(p->dtype);
    void *copy = sheaf__alloc(size);
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        sheaf_shape a = p->transpose_a ? SHEAF_SHAPE(p->k, p->m) : SHEAF_SHAPE(p->m, p->k);
        sheaf_shape b = p->transpose_b ? SHEAF_SHAPE(p->n, p->k) : SHEAF_SHAPE(p->k, p->n);
        sheaf_tensor *x = sheaf_cast(sheaf_random_uniform(SHEAF_FLOAT32, a, -1, 1, 1), p->dtype);
        sheaf_tensor *y = sheaf_cast(sheaf_random_uniform(SHEAF_FLOAT32, b, -1, 1, 2), p->dtype);
        sheaf_tensor *z = sheaf_matmul_ex(x, y, p->transpose_a, p->transpose_b);
        rig_ok(sheaf_tensor_status(z, &err), &err);
        memcpy(copy, sheaf_tensor_data(z), size);
    }
    leave(context, before);
    return copy;
}

static double number(const void *data, sheaf_dtype dtype, size_t i)
{
    double value = 0;
    SHEAF_FRAME
    value = sheaf_tensor_number(
        sheaf_tensor_new(dtype, SHEAF_SCALAR, (const char *)data + i * sheaf_dtype_size(dtype)), 0);
    return value;
}

static const int sizes[][3] = {{1, 1, 1},      {2, 3, 4},     {32, 10, 512},  {33, 257, 65},
                               {70, 300, 1},   {512, 10, 32}, {300, 17, 129}, {128, 384, 200},
                               {530, 12, 200}, {40, 520, 785}};

static const char *const reference[] = {"SHEAF_KERNELS=reference", "SHEAF_THREADS=1", NULL};

static void compare(const struct product *p, const char *const *environment, double limit)
{
    void *wanted = compute(p, reference), *got = compute(p, environment);
    for (size_t i = 0; i < (size_t)p->m * (size_t)p->n; i++) {
        double x = number(got, p->dtype, i), y = number(wanted, p->dtype, i);
        if (!(fabs(x - y) <= limit * (1 + fabs(y))))
            fail_msg("(%d, %d, %d) %d%d %s, element %zu: %g, reference %g", p->m, p->n, p->k,
                     p->transpose_a, p->transpose_b, sheaf_dtype_name(p->dtype), i, x, y);
    }
    sheaf__free(wanted);
    sheaf__free(got);
}

static void compare_all(sheaf_dtype dtype, const char *const *environment, double limit)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int t = 0; t < 4; t++) {
            const struct product p = {sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t >> 1, dtype};
            compare(&p, environment, limit);
        }
}

static bool have_onednn(void)
{
    sheaf_error err = {0};
    if (sheaf__onednn_open(&err) >= 0)
        return true;
    print_message("skipped: %s\n", err.message);
    return false;
}

static void onednn_agrees_with_the_reference(void **state)
{
    (void)state;
    static const char *const onednn[] = {"SHEAF_KERNELS=onednn", "SHEAF_THREADS=2", NULL};
    if (!have_onednn())
        skip();
    compare_all(SHEAF_FLOAT32, onednn, 2e-5);
    compare_all(SHEAF_BFLOAT16, onednn, 1e-2);
    compare_all(SHEAF_FLOAT64, onednn, 1e-13);
}

/* The reference itself, against sums in double. */
static void the_reference_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int t = 0; t < 4; t++) {
            const struct product p = {sizes[i][0], sizes[i][1], sizes[i][2],
                                      t & 1,       t >> 1,      SHEAF_FLOAT64};
            double *got = compute(&p, reference);
            SHEAF_FRAME
            {
                size_t a_count = (size_t)p.m * (size_t)p.k, b_count = (size_t)p.k * (size_t)p.n;
                const float *a = sheaf_tensor_data(
                    sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE((int64_t)a_count), -1, 1, 1));
                const float *b = sheaf_tensor_data(
                    sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE((int64_t)b_count), -1, 1, 2));
                for (int r = 0; r < p.m; r++)
                    for (int c = 0; c < p.n; c++) {
                        double sum = 0;
                        for (int k = 0; k < p.k; k++)
                            sum += (double)a[p.transpose_a ? k * p.m + r : r * p.k + k] *
                                   (double)b[p.transpose_b ? c * p.k + k : k * p.n + c];
                        assert_true(fabs(sum - got[r * p.n + c]) < 1e-12);
                    }
            }
            sheaf__free(got);
        }
}

/* Bits depend neither on the number of threads nor on the run. */
static void repeats_bit_for_bit(void **state)
{
    (void)state;
    static const char *const kernels[] = {"SHEAF_KERNELS=reference", "SHEAF_KERNELS=auto"};
    static const char *const threads[] = {"SHEAF_THREADS=1", "SHEAF_THREADS=2", "SHEAF_THREADS=5"};
    static const struct product products[] = {
        {32, 512, 784, false, false, SHEAF_FLOAT32},  {512, 512, 32, true, false, SHEAF_FLOAT32},
        {256, 520, 785, false, false, SHEAF_FLOAT32}, {784, 512, 32, true, false, SHEAF_FLOAT32},
        {32, 512, 512, false, true, SHEAF_FLOAT32},   {512, 10, 256, true, false, SHEAF_FLOAT32},
        {256, 10, 512, false, false, SHEAF_FLOAT32},  {256, 512, 10, false, true, SHEAF_FLOAT32}};
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        for (int k = 0; k < 2; k++) {
            void *first = NULL;
            for (int t = 0; t < 6; t++) {
                const char *const environment[] = {kernels[k], threads[t % 3], NULL};
                void *got = compute(&products[i], environment);
                if (first)
                    assert_memory_equal(got, first,
                                        (size_t)products[i].m * (size_t)products[i].n * 4);
                else
                    first = got;
                if (got != first)
                    sheaf__free(got);
            }
            sheaf__free(first);
        }
}

static void take(const struct sheaf__sink *sink, const void *elements, size_t first, size_t count)
{
    memcpy((float *)sink->user + first, elements, count * sizeof(float));
}

/* However the product is cut, a sink gets the bits that stand in C otherwise. */
static void a_sink_gets_the_same_bits(void **state)
{
    (void)state;
    static const struct product products[] = {
        {48, 520, 401, false, false, SHEAF_FLOAT32}, {300, 520, 401, false, false, SHEAF_FLOAT32},
        {784, 512, 32, true, false, SHEAF_FLOAT32},  {300, 1030, 40, true, false, SHEAF_FLOAT32},
        {32, 512, 512, false, true, SHEAF_FLOAT32},  {3, 5, 4, true, true, SHEAF_FLOAT32}};
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        SHEAF_FRAME
        {
            const struct product *p = &products[i];
            sheaf_error err = {0};
            float *c = sheaf__calloc((size_t)p->m * (size_t)p->n, sizeof(float));
            float *taken = sheaf__calloc((size_t)p->m * (size_t)p->n, sizeof(float));
            sheaf_shape a = SHEAF_SHAPE(p->m, p->k), b = SHEAF_SHAPE(p->k, p->n);
            struct sheaf__gemm g = {
                .dtype = SHEAF_FLOAT32,
                .transpose_a = p->transpose_a,
                .transpose_b = p->transpose_b,
                .m = p->m,
                .n = p->n,
                .k = p->k,
                .a = sheaf_tensor_data(sheaf_random_uniform(SHEAF_FLOAT32, a, -1, 1, 1)),
                .b = sheaf_tensor_data(sheaf_random_uniform(SHEAF_FLOAT32, b, -1, 1, 2)),
                .c = c,
                .lda = p->transpose_a ? p->m : p->k,
                .ldb = p->transpose_b ? p->k : p->n,
                .ldc = p->n};
            rig_ok(sheaf__gemm_run(sheaf__device_current(&err), &g, &err), &err);
            const struct sheaf__sink sink = {.take = take, .user = taken};
            g.c = NULL;
            g.sink = &sink;
            rig_ok(sheaf__gemm_run(sheaf__device_current(&err), &g, &err), &err);
            assert_memory_equal(taken, c, (size_t)p->m * (size_t)p->n * sizeof(float));
            sheaf__free(c);
            sheaf__free(taken);
        }
}

static int count_threads(void)
{
    struct sheaf__strings tasks = {0};
    sheaf_error err = {0};
    rig_ok(sheaf__file_list("/proc/self/task", &tasks, &err), &err);
    int count = (int)tasks.count;
    sheaf__strings_clear(&tasks);
    return count;
}

/* OpenMP's own setting of the calling thread is what it was, and it started no threads of its own.
 */
static void leaves_openmp_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"libgomp.so.1", NULL};
    void *library = NULL;
    void (*set_threads)(int) = NULL;
    int (*get_threads)(void) = NULL;
    const struct sheaf__dl_symbol symbols[] = {{"omp_set_num_threads", (void **)&set_threads},
                                               {"omp_get_max_threads", (void **)&get_threads}};
    if (!have_onednn() || sheaf__dl_open(names, "a test", &library, NULL, NULL) < 0 ||
        sheaf__dl_symbols(library, names[0], symbols, 2, NULL) < 0)
        skip();
    enum { N = 512 };
    float *a = sheaf__calloc(N * N, sizeof(float)), *c = sheaf__calloc(N * N, sizeof(float));
    struct sheaf__gemm g = {.dtype = SHEAF_FLOAT32,
                            .m = N,
                            .n = N,
                            .k = N,
                            .a = a,
                            .b = a,
                            .c = c,
                            .lda = N,
                            .ldb = N,
                            .ldc = N};
    int before = get_threads(), threads = count_threads();
    set_threads(3);
    assert_true(sheaf__onednn_gemm(&g));
    assert_int_equal(get_threads(), 3);
    assert_int_equal(count_threads(), threads);
    set_threads(before);
    g.dtype = SHEAF_FLOAT64;
    assert_false(sheaf__onednn_gemm(&g)); /* not for it */
    sheaf__free(a);
    sheaf__free(c);
}

/* A dense layer is the product, the sum and the activation, to the bit. */
static void dense_layers_equal_their_parts(void **state)
{
    (void)state;
    const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16};
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < 3; i++)
            SHEAF_FRAME
            {
                /* One piece; halves of C; halves of k. */
                static const int64_t cases[][3] = {{3, 5, 4}, {300, 520, 40}, {48, 520, 401}};
                int64_t m = cases[i][0], n = cases[i][1], k = cases[i][2];
                sheaf_tensor *x = sheaf_cast(
                    sheaf_random_normal(SHEAF_FLOAT32, SHEAF_SHAPE(m, k), 0, 1, 1), dtypes[d]);
                sheaf_tensor *w = sheaf_cast(
                    sheaf_random_normal(SHEAF_FLOAT32, SHEAF_SHAPE(k, n), 0, 1, 2), dtypes[d]);
                sheaf_tensor *b = sheaf_cast(
                    sheaf_random_normal(SHEAF_FLOAT32, SHEAF_SHAPE(n), 0, 1, 3), dtypes[d]);
                sheaf_tensor *sum = sheaf_add(sheaf_matmul(x, w), b), *relu = sheaf_relu(sum);
                size_t size = (size_t)(m * n) * sheaf_dtype_size(dtypes[d]);
                assert_memory_equal(sheaf_tensor_data(sheaf_dense(x, w, b, SHEAF_ACTIVATION_NONE)),
                                    sheaf_tensor_data(sum), size);
                assert_memory_equal(sheaf_tensor_data(sheaf_dense(x, w, b, SHEAF_ACTIVATION_RELU)),
                                    sheaf_tensor_data(relu), size);
            }
    sheaf_tensor *x = F32(SHEAF_SHAPE(1, 2), 1, 2), *w = F32(SHEAF_SHAPE(2, 1), 1, 1);
    expect_failed(sheaf_dense(x, w, x, SHEAF_ACTIVATION_NONE),
                  "dense: bias of shape (1, 2) (dtype float32), wanted (1,)");
    expect_failed(sheaf_dense(x, x, w, SHEAF_ACTIVATION_NONE), "dense: shapes (1, 2) and (1, 2)");
    expect_failed(sheaf_dense(x, w, F32(SHEAF_SHAPE(1), 0), (sheaf_activation)7),
                  "dense: activation 7");
    EXPECT(sheaf_dense(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2, 0)),
                       sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 1)), F32(SHEAF_SHAPE(1), 3),
                       SHEAF_ACTIVATION_NONE),
           SHEAF_FLOAT32, SHEAF_SHAPE(2, 1), 3, 3);
}

static void vectors_give_the_portable_bits(void **state)
{
    (void)state;
    enum { N = 1003 };
    float in[N], dy[N], out[N], grad[N], sum[N];
    for (int i = 0; i < N; i++) {
        in[i] = i % 7 == 0 ? NAN : (float)(i % 13 - 6);
        dy[i] = (float)(i % 17 - 8);
    }
    sheaf__vector()->relu(out, in, N);
    sheaf__vector()->relu_grad(grad, dy, out, N);
    memcpy(sum, in, sizeof(sum));
    sheaf__vector()->add_relu(sum, sum, dy, N);
    for (int i = 0; i < N; i++) {
        float wanted = in[i] < 0 ? 0 : in[i], wanted_grad = out[i] > 0 ? dy[i] : 0;
        float wanted_sum = in[i] + dy[i] < 0 ? 0 : in[i] + dy[i];
        assert_memory_equal(&out[i], &wanted, 4);
        assert_memory_equal(&grad[i], &wanted_grad, 4);
        assert_memory_equal(&sum[i], &wanted_sum, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(the_reference_is_right),
        rig_test(onednn_agrees_with_the_reference),
        rig_test(repeats_bit_for_bit),
        rig_test(a_sink_gets_the_same_bits),
        rig_test(leaves_openmp_alone),
        rig_test(dense_layers_equal_their_parts),
        rig_test(vectors_give_the_portable_bits),
    };
    return rig_run(tests);
}
