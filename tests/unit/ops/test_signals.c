/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <sheaf/sheaf.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

/* A program's signal handlers run on the stack, whatever is computed meanwhile. */

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    (void)number;
    ticks++;
}

static void every(long microseconds)
{
    const struct timeval t = {.tv_usec = microseconds};
    const struct itimerval timer = {t, t};
    setitimer(ITIMER_REAL, &timer, NULL);
}

enum { BLOCKS = 64, MOST = 9000 };

/* Memory in the neighbourhood of what the product takes for itself. */
static void check_and_renew(unsigned char **blocks, size_t *sizes, unsigned round)
{
    const unsigned i = round * 37 % BLOCKS;
    for (unsigned b = 0; b < BLOCKS; b++)
        for (size_t at = 0; blocks[b] && at < sizes[b]; at++)
            if (blocks[b][at] != (unsigned char)b)
                fail_msg("byte %zu of block %u was overwritten", at, b);
    free(blocks[i]);
    sizes[i] = 1000 + round * 977 % (MOST - 1000);
    blocks[i] = malloc(sizes[i]);
    memset(blocks[i], (int)i, sizes[i]);
}

static void during_products(void **state)
{
    (void)state;
    enum { ENOUGH = 3000 };
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART}, before;
    sheaf_tensor *a =
        sheaf_tensor_keep(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(64, 300), -1, 1, 1));
    sheaf_tensor *b =
        sheaf_tensor_keep(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(300, 200), -1, 1, 2));
    sheaf_tensor *right = sheaf_tensor_keep(sheaf_matmul(a, b));
    const time_t end = time(NULL) + 20;
    sigaction(SIGALRM, &action, &before);
    ticks = 0;
    every(100);
    for (unsigned round = 0; ticks < ENOUGH && time(NULL) < end; round++)
        SHEAF_FRAME
        {
            assert_memory_equal(sheaf_tensor_data(sheaf_matmul(a, b)), sheaf_tensor_data(right),
                                64 * 200 * sizeof(float));
            check_and_renew(blocks, sizes, round);
        }
    every(0);
    sigaction(SIGALRM, &before, NULL);
    assert_true(ticks > 100);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    sheaf_tensor_free(a);
    sheaf_tensor_free(b);
    sheaf_tensor_free(right);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(during_products)};
    return rig_run(tests);
}
