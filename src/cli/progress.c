/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { AFTER_MS = 1000, EVERY_MS = 100, WIDTH = 30 };

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void sheaf__progress_start(struct sheaf__progress *p, const char *what, uint64_t total)
{
    *p = (struct sheaf__progress){.what = what, .total = total, .begin = now_ms()};
    p->next = isatty(2) ? p->begin + AFTER_MS : INT64_MAX;
}

void sheaf__progress_at(struct sheaf__progress *p, uint64_t done)
{
    if (p->next == INT64_MAX)
        return;
    int64_t now = now_ms();
    if (now < p->next)
        return;
    p->next = now + EVERY_MS;
    p->shown = 1;
    if (p->total) {
        double share = done < p->total ? (double)done / (double)p->total : 1;
        int full = (int)(share * WIDTH);
        fprintf(stderr, "\r\033[K%s [%.*s%*s] %3.0f%%", p->what, full,
                "##############################", WIDTH - full, "", share * 100);
    } else {
        fprintf(stderr, "\r\033[K%s %llu", p->what, (unsigned long long)done);
    }
    fflush(stderr);
}

void sheaf__progress_end(struct sheaf__progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}
