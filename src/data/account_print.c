/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "tensor/frame.h"

#include <sheaf/account.h>

/* Accounts as text. */

static void add_some(struct sheaf__str *s, int64_t n, const char *one, const char *more)
{
    if (n > 0)
        sheaf__str_printf(s, ", %lld %s", (long long)n, n == 1 ? one : more);
}

static void add_losses(struct sheaf__str *s, int64_t skipped, int64_t lost, int64_t repeated)
{
    add_some(s, skipped, "corrupt record skipped", "corrupt records skipped");
    add_some(s, lost, "byte lost", "bytes lost");
    add_some(s, repeated, "repeated", "repeated");
}

const char *sheaf_account_str(const sheaf_account *a)
{
    struct sheaf__str s = {0};
    if (!a)
        return "";
    sheaf__str_printf(&s, "%lld %s", (long long)a->examples,
                      a->examples == 1 ? "example" : "examples");
    add_losses(&s, a->skipped, a->lost_bytes, a->repeated);
    add_some(&s, a->dropped, "dropped", "dropped");
    return sheaf__frame_str(&s);
}

const char *sheaf_account_files_str(const sheaf_account *a)
{
    struct sheaf__str s = {0};
    for (size_t i = 0; a && a->files && i < a->file_count; i++) {
        const sheaf_file_account *f = &a->files[i];
        sheaf__str_printf(&s, "worker %lld: %s: %lld read", (long long)f->worker, f->path,
                          (long long)f->read);
        add_losses(&s, f->skipped, f->lost_bytes, f->repeated);
        sheaf__str_char(&s, '\n');
    }
    return sheaf__frame_str(&s);
}
