/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/mem.h"

/* CSV files (R9.36). */

static const char *write_text(const char *name, const char *text, size_t size)
{
    const char *path = rig_path(name);
    sheaf_error err = {0};
    rig_ok(sheaf__file_replace(path, text, size, &err), &err);
    return path;
}

/* ---- what TensorFlow gives ---- */

static sheaf_dtype dtype_of(const json_t *column)
{
    sheaf_dtype dtype = sheaf_dtype_named(text_at(column, "dtype"));
    assert_int_not_equal(dtype, SHEAF_INVALID_DTYPE);
    return dtype;
}

/* One default value, in room for any. */
union value {
    int32_t int32;
    int64_t int64;
    float float32;
    double float64;
    sheaf_bytes string;
};

static void set_default(union value *v, sheaf_dtype dtype, const json_t *value)
{
    if (dtype == SHEAF_STRING)
        v->string = (sheaf_bytes){json_string_value(value), json_string_length(value)};
    else if (dtype == SHEAF_INT32)
        v->int32 = (int32_t)json_integer_value(value);
    else if (dtype == SHEAF_INT64)
        v->int64 = json_integer_value(value);
    else if (dtype == SHEAF_FLOAT32)
        v->float32 = (float)json_number_value(value);
    else
        v->float64 = json_number_value(value);
}

/* What the case asks for. */
struct request {
    sheaf_csv_column columns[4];
    union value defaults[4];
    int64_t select[4];
    sheaf_csv_options options;
};

static void read_request(const json_t *c, struct request *r)
{
    const json_t *columns = json_object_get(c, "columns"),
                 *select = json_object_get(c, "select_cols");
    memset(r, 0, sizeof(*r));
    r->options.column_count = json_array_size(columns);
    r->options.columns = r->columns;
    assert_true(r->options.column_count <= 4);
    for (size_t i = 0; i < json_array_size(columns); i++) {
        const json_t *column = json_array_get(columns, i),
                     *value = json_object_get(column, "default");
        r->columns[i].dtype = dtype_of(column);
        if (value) {
            set_default(&r->defaults[i], r->columns[i].dtype, value);
            r->columns[i].default_value = &r->defaults[i];
        }
        if (select)
            r->select[i] = json_integer_value(json_array_get(select, i));
    }
    r->options.select = select ? r->select : NULL;
    r->options.header = json_is_true(json_object_get(c, "header"));
    r->options.no_quotes = json_is_false(json_object_get(c, "use_quote_delim"));
    r->options.delimiter = text_at(c, "field_delim")[0];
    r->options.na_value = json_string_value(json_object_get(c, "na_value"));
}

static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("csv.json"), *c, *row;
    size_t i, k;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        char text[1024];
        struct request r;
        const char *path = write_text("golden.csv", text, text_of(json_object_get(c, "csv"), text));
        read_request(c, &r);
        json_t *rows = json_object_get(c, "rows");
        json_array_foreach(rows, k, row) if (json_is_object(row)) json_object_del(row, "text");
        sheaf_dataset *d = sheaf_csv(path, &r.options);
        memset(&r, 0xff, sizeof(r)); /* the dataset has copies */
        assert_json(elements_by(d, components_json), rows, text_at(c, "name"));
        d = sheaf_dataset_prefetch(d, 2);
        assert_json(elements_by(d, components_json), rows, text_at(c, "name"));
        sheaf_dataset_free(d);
    }
    assert_true(i >= 43);
    json_decref(root);
}

/* ---- T35 ---- */

static const sheaf_csv_column text_and_number[] = {{.name = "text", .dtype = SHEAF_STRING},
                                                   {.name = "number", .dtype = SHEAF_INT64}};
static const sheaf_csv_options headed = {
    .columns = text_and_number, .column_count = 2, .header = true};

static sheaf_dataset *csv_of(const char *text, const sheaf_csv_options *options)
{
    return sheaf_csv(write_text("some.csv", text, strlen(text)), options);
}

/* The same rows as the file without the peculiarity; what is in quotes stays; no row more. */
static void test_T35_line_ends_marks_and_blanks(void **state)
{
    (void)state;
    static const char *const same[] = {"text,number\na,1\nb,2\n",
                                       "text,number\r\na,1\r\nb,2\r\n",
                                       "\xef\xbb\xbf\"text\",\"number\"\na,1\nb,2\n",
                                       "text,number\na,1\nb,2",
                                       "text,number\na,1\nb,2\n\n",
                                       "\xef\xbb\xbftext,number\r\na,1\r\nb,2\r\n\r\n",
                                       "text,number\ra,1\rb,2\r",
                                       "text,number\ra,1\rb,2\r\r"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        assert_gives(csv_of(same[i], &headed), "[[\"a\", 1], [\"b\", 2]]");
    assert_gives(csv_of("text,number\r\n\"a\r\nb\",1\r\n\"\n\",2\r\n", &headed),
                 "[[\"a\\r\\nb\", 1], [\"\\n\", 2]]");
    sheaf_csv_options plain = headed;
    plain.header = false;
    assert_gives(csv_of("\xef\xbb\xbf\"a\",1\n", &plain), "[[\"a\", 1]]");
    /* A blank line elsewhere is a wrong row; of a lone column it is a row. */
    assert_gives(csv_of("a,1\n\n\n", &plain), "[[\"a\", 1], {\"status\": \"InvalidArgument\"}]");
    const int64_t nine = 9;
    const sheaf_csv_column one = {.dtype = SHEAF_INT64, .default_value = &nine};
    const sheaf_csv_options lone = {.columns = &one, .column_count = 1};
    assert_gives(csv_of("1\n\n", &lone), "[1, 9]");
}

/* ---- what elements are ---- */

static void test_elements_are_named_by_columns(void **state)
{
    (void)state;
    sheaf_dataset *d = csv_of("text,number\na,1\n", &headed);
    const sheaf_element_spec *spec = sheaf_dataset_element_spec(d);
    assert_int_equal(sheaf_element_spec_size(spec), 2);
    assert_string_equal(sheaf_element_spec_at(spec, 1).name, "number");
    assert_int_equal(sheaf_element_spec_at(spec, 1).dtype, SHEAF_INT64);
    assert_int_equal(sheaf_element_spec_at(spec, 1).shape.rank, 0);
    assert_int_equal(sheaf_dataset_cardinality(d), SHEAF_UNKNOWN);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    SHEAF_FRAME
    {
        sheaf_element *e;
        sheaf_error err = {0};
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, "number"), 0), 1);
        assert_string_equal(sheaf_element_name(e, 0), "text");
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Strings stay when the iterator and the dataset are gone: those of the file, of the defaults, and
 * those that are not as the file has them. */
static void test_strings_outlive_everything(void **state)
{
    (void)state;
    const sheaf_bytes none = {"none", 4};
    const sheaf_csv_column columns[] = {{.dtype = SHEAF_STRING, .default_value = &none},
                                        {.dtype = SHEAF_STRING}};
    const sheaf_csv_options o = {.columns = columns, .column_count = 2};
    sheaf_element *kept = NULL;
    sheaf_dataset *d = sheaf_dataset_batch(csv_of(",\"a\"\"b\"\nx,\"\"\"\"\ny,z\n", &o), 3, NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    SHEAF_FRAME
    {
        sheaf_element *e;
        sheaf_error err = {0};
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        kept = sheaf_element_keep(e);
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    json_t *expected = literal("[[\"none\", \"x\", \"y\"], [\"a\\\"b\", \"\\\"\", \"z\"]]");
    assert_json(components_json(kept), expected, "kept");
    json_decref(expected);
    sheaf_element_free(kept);
}

/* ---- what is wrong ---- */

static void assert_wrong_at(const char *text, const sheaf_csv_options *o, uint64_t row,
                            uint64_t offset, const char *part)
{
    sheaf_dataset *d = csv_of(text, o);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_status status;
    do {
        SHEAF_FRAME
        {
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, &err);
        }
    } while (status == SHEAF_OK);
    rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    assert_non_null(strstr(err.message, "stage 1 (csv): line "));
    assert_string_equal(sheaf__path_name(err.file), "some.csv");
    assert_int_equal(err.record, row);
    assert_int_equal(err.offset, offset);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Files, rows, offsets, lines as an editor counts them, fields, found and expected. */
static void test_errors_say_where(void **state)
{
    (void)state;
    assert_wrong_at("t,n\na,1\nb,x2\n", &headed, 1, 8,
                    "line 3: field 1 (number) is \"x2\", expected int64");
    assert_wrong_at("t,n\n\"a\nb\n\",1\n,2\n", &headed, 1, 13,
                    "line 5: field 0 (text) is empty, expected string: it has no default");
    assert_wrong_at("t,n\na\n", &headed, 0, 4, "line 2: the row has 1 fields, expected 2");
    assert_wrong_at("t,n\na,1,2\n", &headed, 0, 4, "line 2: the row has 3 fields, expected 2");
    assert_wrong_at("t,n\na,1\na\"b,2\n", &headed, 1, 8,
                    "line 3: field 0 has a quote inside, but none around it");
    assert_wrong_at("t,n\n\"a\"b\",2\n", &headed, 0, 4,
                    "line 2: field 0 goes on behind its closing quote");
    assert_wrong_at("t,n\na,\"1\nb,2\n", &headed, 0, 4,
                    "line 2: field 1 has no closing quote before the end of the file");
    assert_wrong_at("", &headed, 0, 0, "line 1: the file is empty, expected a header");
    assert_wrong_at("t,n\"\n", &headed, 0, 0, "line 1: field 1 of the header has a quote inside");
    const int64_t third[] = {0, 2};
    sheaf_csv_options selected = headed;
    selected.select = third;
    assert_wrong_at("t,x,n\na,1\n", &selected, 0, 6,
                    "line 2: the row has 2 fields, expected at least 3");
    assert_wrong_at("t,x,n\na,1,b,c\n", &selected, 0, 6, "field 2 (number) is \"b\"");
}

/* A wrong header does not keep the rows back (as in TensorFlow); an unreadable file not the next. */
static void test_reading_goes_on(void **state)
{
    (void)state;
    assert_gives(csv_of("t\"x,n\na,1\nb,2\n", &headed),
                 "[{\"status\": \"InvalidArgument\"}, [\"a\", 1], [\"b\", 2]]");
    const char *paths[] = {write_text("1.csv", "t,n\na,1\nb\nc,3\n", 14), rig_path("missing.csv"),
                           write_text("3.csv", "", 0), write_text("4.csv", "t,n\n", 4),
                           write_text("5.csv", "t,n\nd,4\n", 8)};
    assert_gives(
        sheaf_csv_files(paths, 5, &headed),
        "[[\"a\", 1], {\"status\": \"InvalidArgument\"}, [\"c\", 3], {\"status\": \"NotFound\"}, "
        "{\"status\": \"InvalidArgument\"}, [\"d\", 4]]");
    sheaf_csv_options plain = headed;
    plain.header = false;
    assert_gives(sheaf_csv_files(paths + 2, 1, &plain), "[]"); /* T32 */
    assert_gives(sheaf_dataset_flat_map(sheaf_list_files(rig_path("5.csv"), NULL), sheaf_open_csv,
                                        (void *)(uintptr_t)&headed),
                 "[[\"d\", 4]]");
}

static void test_misuse(void **state)
{
    (void)state;
    const char *path = write_text("x.csv", "1\n", 2);
    const sheaf_csv_column odd = {.dtype = SHEAF_UINT8},
                           newer = {.dtype = SHEAF_INT64, .reserved = {1}};
    const sheaf_csv_column twice[] = {{.name = "a", .dtype = SHEAF_INT64},
                                      {.name = "a", .dtype = SHEAF_INT64}};
    const int64_t back[] = {2, 2}, negative[] = {-1, 2};
    const struct {
        sheaf_csv_options options;
        const char *message;
    } wrong[] = {
        {{0}, "there are no columns"},
        {{.columns = &odd, .column_count = 1}, "column 0 is uint8, expected int32, int64"},
        {{.columns = &newer, .column_count = 1}, "the options say something"},
        {{.columns = twice, .column_count = 2}, "columns 0 and 1 are both called \"a\""},
        {{.columns = text_and_number, .column_count = 2, .select = back},
         "select[1] is 2, expected at least 3"},
        {{.columns = text_and_number, .column_count = 2, .select = negative},
         "select[0] is -1, expected at least 0"},
        {{.columns = text_and_number, .column_count = 2, .delimiter = '\n'},
         "the delimiter is the byte 0x0a"},
        {{.columns = text_and_number, .column_count = 2, .delimiter = '"'},
         "the delimiter is the byte 0x22"},
        {{.columns = text_and_number, .column_count = 2, .reserved = {0, 0, 0, 1}},
         "the options say something"},
        {{.columns = text_and_number, .column_count = 2, .compression = (sheaf_compression)9},
         "compression is 9"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_first_fails(sheaf_csv(path, &wrong[i].options), SHEAF_ERR_INVALID_ARGUMENT,
                           wrong[i].message);
    assert_first_fails(sheaf_csv(path, NULL), SHEAF_ERR_INVALID_ARGUMENT, "there are no columns");
}

/* ---- memory ---- */

static sheaf_status read_it(void *path, sheaf_error *err)
{
    const sheaf_bytes none = {"none", 4};
    const sheaf_csv_column columns[] = {
        {.name = "s", .dtype = SHEAF_STRING, .default_value = &none},
        {.name = "n", .dtype = SHEAF_FLOAT32}};
    const sheaf_csv_options o = {.columns = columns, .column_count = 2, .na_value = "NA"};
    sheaf_dataset *d = sheaf_csv(path, &o);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_status status;
    int rows = 0;
    do {
        SHEAF_FRAME
        {
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, err);
            rows += status == SHEAF_OK;
        }
    } while (status == SHEAF_OK);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return status == SHEAF_END && rows != 3
               ? sheaf_error_set(err, SHEAF_ERR_INTERNAL, "%d rows", rows)
               : status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    char *path = sheaf__strdup(write_text("some.csv", "a,1\n\"b\"\"c\",2.5\n,3\n", 18));
    sheaf_error err = {0};
    assert_int_equal(read_it(path, &err), SHEAF_END); /* makes the context's counters and names */
    assert_true(rig_fail_allocations(read_it, path) > 10);
    sheaf__free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden),
        rig_test(test_T35_line_ends_marks_and_blanks),
        rig_test(test_elements_are_named_by_columns),
        rig_test(test_strings_outlive_everything),
        rig_test(test_errors_say_where),
        rig_test(test_reading_goes_on),
        rig_test(test_misuse),
        rig_test(test_every_allocation_may_fail),
    };
    return rig_run(tests);
}
