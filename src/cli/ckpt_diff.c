/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ckpt.h"

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/name.h"
#include "cli/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* sheaf ckpt diff: what two files of tensors differ in. Exit codes are those of diff(1). */

enum { DIFFERENT = 1, TROUBLE = 2 };

static struct {
    bool json;
} o;

struct counts {
    size_t same, different;
};

static void print_name(const char *name, const char *how)
{
    fputs("{\"name\":", stdout);
    sheaf__json_text(name);
    printf(",\"difference\":\"%s\"", how);
}

static void print_kind(const sheaf_tensor_file_entry *e)
{
    char shape[200];
    sheaf_shape_format(e->shape, shape, sizeof(shape));
    printf("%s %s", sheaf_dtype_name(e->dtype), shape);
}

static void print_json_kind(const char *member, const sheaf_tensor_file_entry *e)
{
    printf(",\"%s\":{\"dtype\":\"%s\",\"shape\":[", member, sheaf_dtype_name(e->dtype));
    for (int i = 0; i < e->shape.rank; i++)
        printf("%s%lld", i ? "," : "", (long long)e->shape.dims[i]);
    fputs("]}", stdout);
}

/* A tensor that only one of the files has: 0 or 1. */
static void print_missing(int file, const sheaf_tensor_file_entry *e)
{
    if (o.json) {
        print_name(e->name, file ? "only in B" : "only in A");
        print_json_kind(file ? "b" : "a", e);
        puts("}");
        return;
    }
    printf("only in %s: ", file ? "B" : "A");
    sheaf__name_print(e->name);
    putchar(' ');
    print_kind(e);
    puts("");
}

static void print_kinds(const sheaf_tensor_file_entry *a, const sheaf_tensor_file_entry *b)
{
    if (o.json) {
        print_name(a->name, a->dtype != b->dtype ? "dtype" : "shape");
        print_json_kind("a", a);
        print_json_kind("b", b);
        puts("}");
        return;
    }
    sheaf__name_print(a->name);
    fputs(": ", stdout);
    print_kind(a);
    fputs(" in A, ", stdout);
    print_kind(b);
    puts(" in B");
}

static void print_values(const sheaf_tensor_file_entry *e, long long all,
                         const sheaf_tensor_difference *d)
{
    if (o.json) {
        print_name(e->name, "values");
        printf(",\"elements\":%lld,\"of\":%lld", (long long)d->elements, all);
        if (isfinite(d->largest))
            printf(",\"largest\":%.17g}\n", d->largest);
        else
            printf(",\"largest\":\"%s\"}\n", isnan(d->largest) ? "NaN" : "Infinity");
        return;
    }
    sheaf__name_print(e->name);
    printf(": %lld of %lld element%s differ%s", (long long)d->elements, all, sheaf__plural(all),
           d->elements == 1 ? "s" : "");
    if (!isnan(d->largest))
        printf(", by at most %.9g", d->largest);
    puts("");
}

/* Compares a tensor that both have. */
static sheaf_status compare(sheaf_tensor_file *const files[2],
                            const sheaf_tensor_file_entry entries[2], struct counts *counts,
                            sheaf_error *err)
{
    const sheaf_tensor_file_entry *a = &entries[0], *b = &entries[1];
    sheaf_tensor_difference d = {0};
    const bool alike = a->dtype == b->dtype && sheaf_shape_equal(a->shape, b->shape);
    const sheaf_status status = sheaf_tensor_file_compare(files[0], files[1], a->name, &d, err);
    if (!alike && status == SHEAF_ERR_INVALID_ARGUMENT) {
        print_kinds(a, b);
        counts->different++;
        return SHEAF_OK;
    }
    if (status < 0)
        return status;
    if (d.elements) /* the object graph in two forms is one string */
        print_values(a, alike ? (long long)sheaf_shape_elements(a->shape) : 1, &d);
    counts->same += d.elements == 0;
    counts->different += d.elements != 0;
    return SHEAF_OK;
}

/* Walks both in the order of names. */
static sheaf_status compare_all(sheaf_tensor_file *const files[2], struct counts *counts,
                                sheaf_error *err)
{
    sheaf_tensor_file_entry entries[2];
    size_t at[2] = {0};
    for (;;) {
        const bool a = sheaf_tensor_file_get(files[0], at[0], &entries[0]) == SHEAF_OK;
        const bool b = sheaf_tensor_file_get(files[1], at[1], &entries[1]) == SHEAF_OK;
        if (!a && !b)
            return SHEAF_OK;
        const int order = !a ? 1 : !b ? -1 : strcmp(entries[0].name, entries[1].name);
        if (order) {
            print_missing(order > 0, &entries[order > 0]);
            counts->different++;
        } else {
            const sheaf_status status = compare(files, entries, counts, err);
            if (status < 0)
                return status;
        }
        at[0] += order <= 0;
        at[1] += order >= 0;
    }
}

static int diff(char *const names[2])
{
    sheaf_error err = {0};
    sheaf_tensor_file *files[2] = {NULL, NULL};
    struct counts counts = {0};
    char path[SHEAF__CKPT_PATH];
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 2 && status >= 0; i++) {
        status = sheaf__ckpt_resolve(names[i], path, &err);
        if (status >= 0)
            status = sheaf_tensor_file_open(path, &files[i], &err);
    }
    if (status >= 0)
        status = compare_all(files, &counts, &err);
    for (int i = 0; i < 2; i++)
        sheaf_tensor_file_free(files[i]);
    if (status < 0) {
        sheaf__ckpt_failed(&err);
        return TROUBLE;
    }
    if (o.json)
        printf("{\"same\":%zu,\"different\":%zu}\n", counts.same, counts.different);
    else
        printf("%zu tensor%s same, %zu different\n", counts.same,
               sheaf__plural((int64_t)counts.same), counts.different);
    return counts.different ? DIFFERENT : SHEAF__EXIT_OK;
}

int sheaf__ckpt_diff_main(int argc, char **argv)
{
    static const struct sheaf__option OPTIONS[] = {
        {"json", 0, SHEAF__OPTION_FLAG, NULL, &o.json, "print JSON, one object a line"},
    };
    static const struct sheaf__command_line LINE = {
        .command = "sheaf ckpt diff",
        .usage = "[options] A B",
        .summary = "Compares names, dtypes, shapes and, bit for bit, values of tensors.",
        .options = OPTIONS,
        .option_count = 1,
        .notes =
            "A and B are prefixes of checkpoints (or their index files), directories, whose newest "
            "checkpoints are meant, files .safetensors (or .safetensors.index.json) or .npz\n"
            "exit codes: 0 they are equal; 1 they are not; 2 one cannot be read, or wrong usage",
    };
    int rest, code;
    if (!sheaf__options_parse(&LINE, argc, argv, &rest, &code))
        return code;
    if (argc - rest != 2)
        return sheaf__options_misused(&LINE, "%d arguments, expected two", argc - rest);
    return diff(argv + rest);
}
