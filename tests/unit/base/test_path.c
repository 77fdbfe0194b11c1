/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/file.h"
#include "base/mem.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static void joins_and_splits(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *directory;
        const char *name;
    } cases[] = {{"a/b/c", "a/b", "c"}, {"c", ".", "c"},   {"/c", "/", "c"},  {"a/", "a", ""},
                 {"a//b", "a", "b"},    {"//b", "/", "b"}, {"./b", ".", "b"}, {"a/b/", "a/b", ""}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *directory = sheaf__path_directory(cases[i].path);
        assert_string_equal(directory, cases[i].directory);
        assert_string_equal(sheaf__path_name(cases[i].path), cases[i].name);
        sheaf__free(directory);
    }
    char *a = sheaf__path_join("a", "b");
    char *b = sheaf__path_join("a/", "b");
    char *c = sheaf__path_join("", "b");
    assert_string_equal(a, "a/b");
    assert_string_equal(b, "a/b");
    assert_string_equal(c, "b");
    sheaf__free(a);
    sheaf__free(b);
    sheaf__free(c);
}

/* fnmatch(3) with FNM_PATHNAME is what TensorFlow's list_files calls. */
static void matches_as_fnmatch(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*",       "a*",    "*a",     "a*b*c",
                                           "?",       "a?c",   "[abc]",  "[a-c]x",
                                           "[!a-c]x", "[^a]*", "[]a]",   "[!]a]",
                                           "[a",      "\\*",   "a\\[b",  "*/b",
                                           "a/*",     "a/?",   "a[/]b",  "digits-*.tfrecord",
                                           "**",      "*.*",   "",       "a**b",
                                           "[-a]",    "[a-]",  "*[0-9]", "a*/*b",
                                           "[\\]]",   ".*",    "?*",     "*?c"};
    static const char *const texts[] = {"",
                                        "a",
                                        "b",
                                        "c",
                                        "abc",
                                        "aXbYc",
                                        "ax",
                                        "dx",
                                        "]",
                                        "*",
                                        "[a",
                                        "a[b",
                                        "/b",
                                        "a/b",
                                        "a/",
                                        "x/b",
                                        "a/c/b",
                                        "-",
                                        "\\",
                                        "digits-train-0.tfrecord",
                                        "digits-.tfrecord",
                                        ".a",
                                        "a.b",
                                        "axxb",
                                        "a5",
                                        "/",
                                        "xc"};
    for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++) {
        for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
            bool expected = fnmatch(patterns[p], texts[t], FNM_PATHNAME) == 0;
            if (sheaf__glob_match(patterns[p], texts[t]) != expected)
                fail_msg("pattern \"%s\", text \"%s\": expected %d", patterns[p], texts[t],
                         expected);
        }
    }
}

/* Stars cost no exponential time. */
static void many_stars_are_fast(void **state)
{
    (void)state;
    char text[2001];
    memset(text, 'a', 2000);
    text[2000] = '\0';
    assert_false(sheaf__glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

static void touch(const char *name)
{
    sheaf_error err = {0};
    char *directory = sheaf__path_directory(rig_path(name));
    rig_ok(sheaf__file_mkdir(directory, 0, &err), &err);
    rig_ok(sheaf__file_replace(rig_path(name), "", 0, &err), &err);
    sheaf__free(directory);
}

static void expect_glob(const char *pattern, const char *expected)
{
    struct sheaf__strings paths = {0};
    char joined[512] = "";
    sheaf_error err = {0};
    size_t skip = strlen(rig_folder()) + 1;
    rig_ok(sheaf__file_glob(NULL, rig_path(pattern), &paths, &err), &err);
    for (size_t i = 0; i < paths.count; i++) {
        strcat(joined, paths.items[i] + skip);
        strcat(joined, " ");
    }
    assert_string_equal(joined, expected);
    sheaf__strings_clear(&paths);
}

static void finds_files_in_order(void **state)
{
    (void)state;
    static const char *const names[] = {"b-2", "b-10", "b-1",     "a/x",
                                        "a/y", "c/x",  ".hidden", "B-3"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        touch(names[i]);
    expect_glob("b-*", "b-1 b-10 b-2 ");
    expect_glob("?-*", "B-3 b-1 b-10 b-2 ");
    expect_glob("*/x", "a/x c/x ");
    expect_glob("*/*", "a/x a/y c/x ");
    expect_glob("a/[yx]", "a/x a/y ");
    expect_glob("a/x", "a/x ");
    expect_glob("none-*", "");
    expect_glob("none", "");
    expect_glob("b-1/*", "");
    expect_glob(".h*", ".hidden ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(joins_and_splits),
        rig_test(matches_as_fnmatch),
        rig_test(many_stars_are_fast),
        rig_test(finds_files_in_order),
    };
    return rig_run(tests);
}
