#include "base/json.h"
#include "tests/support/unit.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err_code parse(const char *text, const struct json_limits *limits, struct json **ret, struct err *err)
{
    return json_parse(text, strlen(text), limits, ret, err);
}

static struct json *parsed(const char *text)
{
    struct err err = {0};
    struct json *doc = NULL;
    enum err_code rc = parse(text, &json_limits_config, &doc, &err);

    ck_assert_msg(rc == ERR_OK, "%s: %s", text, err.detail);
    return doc;
}

/* --- what is JSON -------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    const char *detail; /* NULL: fine; else a part of the sentence */
} texts[] = {
    {"{}", NULL},
    {" [ ] \r\n\t", NULL},
    {"\xEF\xBB\xBF{\"a\": 1}", NULL},
    {"0", NULL},
    {"-0.5e+10", NULL},
    {"\"\\u00e4\\ud83d\\ude00\\n\\/\"", NULL},
    {"\"\xc3\xa4\xf0\x9f\x98\x80\"", NULL},
    {"{\"\": null}", NULL},
    {"", "(byte 0): the text is empty"},
    {" \n", "the text is empty"},
    {"\xEF\xBB\xBF", "the text is empty"},
    {"\xEF\xBB\xBF\xEF\xBB\xBF{}", "expected a value"},
    {"\xFF\xFE{", "line 1, column 1 (byte 0): expected a value"},
    {"{", "ends in the middle"},
    {"[1,", "ends in the middle"},
    {"[1", "ends in the middle"},
    {"{\"a\"", "ends in the middle"},
    {"{\"a\":", "ends in the middle"},
    {"\"abc", "ends in the middle"},
    {"\"abc\\", "ends in the middle"},
    {"\"\\u12", "ends in the middle"},
    {"-", "ends in the middle"},
    {"1.", "ends in the middle"},
    {"1e", "ends in the middle"},
    {"tru", "expected a value"},
    {"[1,]", "(byte 3): expected a value"},
    {"{\"a\":1,}", "(byte 7): expected a member's name"},
    {"{a:1}", "expected a member's name"},
    {"{'a':1}", "expected a member's name"},
    {"{\"a\" 1}", "expected ':'"},
    {"{\"a\":1 \"b\":2}", "expected ',' or '}'"},
    {"{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3 (byte 13): expected ',' or '}'"},
    {"[1 2]", "expected ',' or ']'"},
    {"[1}", "expected ',' or ']'"},
    {"{} {}", "(byte 3): something follows"},
    {"{}x", "something follows"},
    {"01", "something follows"},
    {"+1", "expected a value"},
    {".5", "expected a value"},
    {"-a", "expected a digit"},
    {"1.e5", "expected a digit after the point"},
    {"1e+x", "expected a digit in the exponent"},
    {"0x10", "something follows"},
    {"True", "expected a value"},
    {"NaN", "NaN and Infinity are not JSON"},
    {"[-Infinity]", "(byte 1): NaN and Infinity are not JSON"},
    {"{\"config\":{\"a\":[Infinity,-Infinity,NaN]},\"training_arguments\":{\"x\":NaN}}", NULL},
    {"{\"requests\":[{\"config\":{\"time_step_limit\":[0.0,Infinity]}}]}", NULL},
    {"{\"config\":{\"a\":NaN},\"b\":NaN}", "(byte 24): NaN and Infinity are not JSON"},
    {"{\"configs\":NaN}", "NaN and Infinity are not JSON"},
    {"{\"conf\\u0069g\":NaN}", "NaN and Infinity are not JSON"},
    {"// c\n1", "expected a value"},
    {"\"a\nb\"", "a control character"},
    {"\"\x01\"", "a control character"},
    {"\"\\x\"", "unknown escape"},
    {"\"\\u00g0\"", "four hexadecimal"},
    {"\"\\u0000\"", "\\u0000 is not accepted"},
    {"{\"a\\u0000b\":1}", "\\u0000 is not accepted"},
    {"\"\\ud83d\"", "surrogate"},
    {"\"\\ud83dx\"", "surrogate"},
    {"\"\\ud83d\\u0041\"", "surrogate"},
    {"\"\\ude00\"", "surrogate"},
    {"\"\x80\"", "not UTF-8"},
    {"\"\xc0\xaf\"", "not UTF-8"},
    {"\"\xe0\x80\xaf\"", "not UTF-8"},
    {"\"\xed\xa0\x80\"", "not UTF-8"},
    {"\"\xf4\x90\x80\x80\"", "not UTF-8"},
    {"\"\xf0\x9f\x98\"", "not UTF-8"},
    {"{\"\xff\":1}", "not UTF-8"},
    {"0.000000000000000000000000000000000000000000000000000000000000001", "more than 63"},
};

START_TEST(grammar)
{
    struct err err = {0};
    struct json *doc = NULL;
    enum err_code rc = parse(texts[_i].text, &json_limits_request, &doc, &err);

    if (!texts[_i].detail) {
        ck_assert_msg(rc == ERR_OK, "%s: %s", texts[_i].text, err.detail);
        ck_assert_ptr_nonnull(doc);
        json_free(doc);
        return;
    }
    ck_assert_int_eq(rc, ERR_JSON);
    ck_assert_ptr_null(doc);
    ck_assert_msg(strstr(err.detail, texts[_i].detail) != NULL, "'%s' lacks '%s'", err.detail, texts[_i].detail);
    ck_assert_str_eq(err.at, "");
}
END_TEST

START_TEST(a_zero_byte_is_no_end)
{
    static const char text[] = "{}\0{}";
    struct err err = {0};
    struct json *doc = NULL;

    ck_assert_int_eq(json_parse(text, sizeof text - 1, &json_limits_request, &doc, &err), ERR_JSON);
    ck_assert_int_eq(json_parse("\"a\0b\"", 5, &json_limits_request, &doc, &err), ERR_JSON);
    ck_assert_int_eq(json_parse("[\0]", 3, &json_limits_request, &doc, &err), ERR_JSON);
}
END_TEST

static const char sample[] = "{\"a\": [1, -2.5e3, true, null, NaN, -Infinity, \"\\u00e4\\\"\xc3\xa4\"], \"b\": {\"c\": \"d\"}}";

/* Every prefix is refused, and never read beyond: the copy has exactly that many bytes for ASan to guard. */
START_TEST(every_truncation_is_refused)
{
    for (size_t n = 0; n < sizeof sample - 1; n++) {
        char *copy = malloc(n ? n : 1);
        struct err err = {0};
        struct json *doc = NULL;

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, sample, n);
        ck_assert_int_eq(json_parse(copy, n, &json_limits_config, &doc, &err), ERR_JSON);
        free(copy);
    }
}
END_TEST

/* Whatever one byte becomes, the answer is a document or ERR_JSON. */
START_TEST(every_changed_byte_is_survived)
{
    char text[sizeof sample];

    for (size_t at = 0; at < sizeof sample - 1; at++) {
        memcpy(text, sample, sizeof sample);
        for (int c = 0; c < 256; c++) {
            struct err err = {0};
            struct json *doc = NULL;
            enum err_code rc;

            text[at] = (char)c;
            rc = json_parse(text, sizeof sample - 1, &json_limits_config, &doc, &err);
            ck_assert_msg(rc == ERR_JSON || (rc == ERR_OK && doc), "byte %zu = %d: %s", at, c, err.detail);
            json_free(doc);
        }
    }
}
END_TEST

/* --- limits -------------------------------------------------------------------------------------------------------------------- */

static enum err_code nested(size_t depth, const char *open, const char *close, struct json **ret, struct err *err)
{
    size_t o = strlen(open), c = strlen(close);
    char *text = malloc(depth * (o + c) + 1);
    enum err_code rc;

    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < depth; i++)
        memcpy(text + i * o, open, o);
    text[depth * o] = '1';
    for (size_t i = 0; i < depth; i++)
        memcpy(text + depth * o + 1 + i * c, close, c);
    rc = json_parse(text, depth * (o + c) + 1, &json_limits_request, ret, err);
    free(text);
    return rc;
}

START_TEST(depth_is_bounded)
{
    static const struct {
        const char *open, *close;
    } kind[] = {{"[", "]"}, {"{\"a\":", "}"}};

    for (size_t k = 0; k < 2; k++) {
        struct err err = {0};
        struct json *doc = NULL;

        ck_assert_int_eq(nested(64, kind[k].open, kind[k].close, &doc, &err), ERR_OK);
        json_free(doc);
        ck_assert_int_eq(nested(65, kind[k].open, kind[k].close, &doc, &err), ERR_JSON);
        ck_assert_ptr_nonnull(strstr(err.detail, "nested too deeply"));
        ck_assert_int_eq(nested(100000, kind[k].open, kind[k].close, &doc, &err), ERR_JSON);
    }
}
END_TEST

START_TEST(size_is_bounded)
{
    size_t bytes = 10 << 20;
    char *text = malloc(bytes);
    struct err err = {0};
    struct json *doc = NULL;

    ck_assert_ptr_nonnull(text);
    memset(text, ' ', bytes);
    text[0] = '1';
    ck_assert_int_eq(json_parse(text, bytes, &json_limits_request, &doc, &err), ERR_TOO_LARGE);
    ck_assert_int_eq(json_parse(text, json_limits_request.bytes, &json_limits_request, &doc, &err), ERR_OK);
    json_free(doc);
    free(text);
}
END_TEST

/* A text of two bytes a value would cost forty times its size in memory. */
START_TEST(values_are_bounded)
{
    struct json_limits limits = {.bytes = 100, .depth = 2, .values = 4};
    struct err err = {0};
    struct json *doc = NULL;

    ck_assert_int_eq(parse("[1,2,3]", &limits, &doc, &err), ERR_OK);
    json_free(doc);
    ck_assert_int_eq(parse("[1,2,3,4]", &limits, &doc, &err), ERR_JSON);
    ck_assert_ptr_nonnull(strstr(err.detail, "too many values"));
    ck_assert_int_eq(parse("[[[1]]]", &limits, &doc, &err), ERR_JSON);
}
END_TEST

/* --- reading ------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    bool whole, natural;
    int64_t value;
} numbers[] = {
    {"0", true, true, 0},
    {"-0", true, true, 0},
    {"7", true, true, 7},
    {"-7", true, false, -7},
    {"1e3", true, true, 1000},
    {"1.0", true, true, 1},
    {"1.5", false, false, 0},
    {"-0.5", false, false, 0},
    {"2147483648", true, true, INT64_C(2147483648)}, /* cJSON's own int saturates here */
    {"9007199254740992", true, true, INT64_C(9007199254740992)},
    {"-9007199254740992", true, false, INT64_C(-9007199254740992)},
    {"9007199254740994", false, false, 0},
    {"1e30", false, false, 0},
    {"1e999", false, false, 0},
    {"Infinity", false, false, 0},
    {"-Infinity", false, false, 0},
    {"\"7\"", false, false, 0},
    {"true", false, false, 0},
    {"null", false, false, 0},
};

START_TEST(whole_numbers_are_exact_or_refused)
{
    struct json *doc = parsed(numbers[_i].text);
    int64_t i = -42;
    uint64_t u = 42;

    ck_assert(json_int64(doc, &i) == numbers[_i].whole);
    ck_assert_int_eq(i, numbers[_i].whole ? numbers[_i].value : -42);
    ck_assert(json_uint64(doc, &u) == numbers[_i].natural);
    ck_assert_uint_eq(u, numbers[_i].natural ? (uint64_t)numbers[_i].value : 42);
    json_free(doc);
}
END_TEST

START_TEST(types_are_told_apart)
{
    struct json *doc = parsed("{\"n\":null,\"t\":true,\"f\":false,\"i\":1,\"s\":\"x\",\"a\":[1,2,3],\"o\":{\"k\":1}}");
    bool b = false;
    double d = 0;

    ck_assert_int_eq(json_type(doc), JSON_OBJECT);
    ck_assert_int_eq(json_type(json_get(doc, "n")), JSON_NULL);
    ck_assert_int_eq(json_type(json_get(doc, "t")), JSON_BOOL);
    ck_assert_int_eq(json_type(json_get(doc, "f")), JSON_BOOL);
    ck_assert_int_eq(json_type(json_get(doc, "i")), JSON_NUMBER);
    ck_assert_int_eq(json_type(json_get(doc, "s")), JSON_STRING);
    ck_assert_int_eq(json_type(json_get(doc, "a")), JSON_ARRAY);
    ck_assert_int_eq(json_type(json_get(doc, "absent")), JSON_ABSENT);
    ck_assert_int_eq(json_type(json_get(doc, "S")), JSON_ABSENT); /* names differ by case */
    ck_assert(json_bool(json_get(doc, "t"), &b) && b);
    ck_assert(json_bool(json_get(doc, "f"), &b) && !b);
    ck_assert(!json_bool(json_get(doc, "i"), &b));
    ck_assert(json_number(json_get(doc, "i"), &d));
    ck_assert(!json_number(json_get(doc, "t"), &d));
    ck_assert_ptr_null(json_str(json_get(doc, "i")));
    ck_assert_ptr_null(json_get(json_get(doc, "a"), "k"));
    ck_assert_ptr_null(json_str(json_get(json_get(doc, "absent"), "k")));
    ck_assert_uint_eq(json_count(doc), 7);
    ck_assert_uint_eq(json_count(json_get(doc, "a")), 3);
    ck_assert_uint_eq(json_count(json_get(doc, "s")), 0);
    ck_assert_ptr_null(json_first(json_get(doc, "s")));
    for (int t = JSON_ABSENT; t <= JSON_OBJECT; t++)
        ck_assert_ptr_nonnull(json_type_name((enum json_type)t));
    json_free(doc);
}
END_TEST

START_TEST(members_and_elements_come_in_order)
{
    struct json *doc = parsed("{\"b\":[3,1,2],\"a\":0}");
    const struct json *first = json_first(doc);
    double sum = 0, weight = 1, d = 0;

    ck_assert_str_eq(json_name(first), "b");
    ck_assert_str_eq(json_name(json_next(first)), "a");
    ck_assert_ptr_null(json_next(json_next(first)));
    json_each(v, first) {
        ck_assert_ptr_null(json_name(v));
        ck_assert(json_number(v, &d));
        sum += d * weight;
        weight *= 10;
    }
    ck_assert_double_eq(sum, 213);
    json_free(doc);
}
END_TEST

START_TEST(the_last_of_duplicates_wins)
{
    struct json *doc = parsed("{\"a\":1,\"b\":2,\"a\":3}");
    int64_t i = 0;

    ck_assert(json_int64(json_get(doc, "a"), &i));
    ck_assert_int_eq(i, 3);
    json_free(doc);
}
END_TEST

START_TEST(floats_are_told_from_integers)
{
    struct json *doc = parsed("{\"a1.5\":2,\"\\\\\\\".5\":[2.0,[],-0.0,0,\"7.5\",{\"x\":1e3,\"y\":-31}],\"z\":NaN,\"end\":1E-2}"), *copy;
    static const bool floats[] = {true, true, false};
    const struct json *list = json_next(json_first(doc)), *item = json_first(list);

    ck_assert(!json_is_float(json_first(doc)));
    ck_assert(json_is_float(json_get(doc, "end")) && !json_is_float(json_get(doc, "z")) && !json_is_float(NULL));
    for (size_t i = 0; i < sizeof floats / sizeof *floats; item = json_next(item))
        if (json_type(item) == JSON_NUMBER)
            ck_assert(json_is_float(item) == floats[i++]);
    copy = json_copy(json_next(item));
    ck_assert(json_is_float(json_get(copy, "x")) && !json_is_float(json_get(copy, "y")));
    json_free(copy);
    json_free(doc);
    doc = parsed("7");
    ck_assert(!json_is_float(doc));
    json_free(doc);
}
END_TEST

START_TEST(python_floats)
{
    struct json *doc = parsed("{\"NaN\":NaN,\"i\":[Infinity,-Infinity],\"s\":\"\\\"NaN\\\\\",\"t\":\"Infinity\"}");
    const struct json *i = json_first(json_get(doc, "i"));
    double d = 0;

    ck_assert_int_eq(json_type(json_get(doc, "NaN")), JSON_NULL);
    ck_assert(json_number(i, &d) && isinf(d) && d > 0);
    ck_assert(json_number(json_next(i), &d) && isinf(d) && d < 0);
    ck_assert_str_eq(json_str(json_get(doc, "s")), "\"NaN\\");
    ck_assert_str_eq(json_str(json_get(doc, "t")), "Infinity");
    json_free(doc);
    doc = parsed("[NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN]");
    ck_assert_uint_eq(json_count(doc), 9);
    json_free(doc);
}
END_TEST

/* --- merging ------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *target, *patch, *name, *value; /* value NULL: absent */
} merges[] = { /* the first ones are RFC 7396, appendix A */
    {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "a", "c"},
    {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "b", "c"},
    {"{\"a\":\"b\"}", "{\"a\":null}", "a", NULL},
    {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "b", "c"},
    {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "a", "c"},
    {"{\"a\":\"b\",\"a\":\"c\"}", "{\"a\":null}", "a", NULL},
    {"{}", "{\"a\":\"b\",\"a\":\"c\"}", "a", "c"},
};

START_TEST(merge_patch)
{
    struct json *target = parsed(merges[_i].target), *patch = parsed(merges[_i].patch);
    struct err err = {0};

    ck_assert_int_eq(json_merge_patch(target, patch, &err), ERR_OK);
    if (merges[_i].value)
        ck_assert_str_eq(json_str(json_get(target, merges[_i].name)), merges[_i].value);
    else
        ck_assert_ptr_null(json_get(target, merges[_i].name));
    json_free(target);
    json_free(patch);
}
END_TEST

START_TEST(merge_patch_goes_into_objects)
{
    struct json *target = parsed("{\"text_config\":{\"vocab\":1,\"hidden\":2},\"list\":[1,2]}");
    struct json *patch = parsed("{\"text_config\":{\"vocab\":7,\"hidden\":null},\"list\":[5],\"new\":{\"x\":null,\"y\":{\"z\":1}}}");
    struct err err = {0};
    const struct json *text;
    int64_t i = 0;

    ck_assert_int_eq(json_merge_patch(target, patch, &err), ERR_OK);
    text = json_get(target, "text_config");
    ck_assert(json_int64(json_get(text, "vocab"), &i));
    ck_assert_int_eq(i, 7);
    ck_assert_ptr_null(json_get(text, "hidden"));
    ck_assert_uint_eq(json_count(json_get(target, "list")), 1);
    ck_assert_ptr_null(json_get(json_get(target, "new"), "x"));
    ck_assert(json_int64(json_get(json_get(json_get(target, "new"), "y"), "z"), &i));
    ck_assert_int_eq(i, 1);
    ck_assert_uint_eq(json_count(json_get(patch, "text_config")), 2);
    json_free(patch); /* nothing of it is in the target */
    ck_assert_uint_eq(json_count(target), 3);
    json_free(target);
}
END_TEST

START_TEST(merging_giants_is_refused)
{
    enum { MEMBERS = 5000 };
    char *text = malloc(MEMBERS * 12 + 2);
    size_t n = 0;
    struct json *target = parsed("{}"), *patch;
    struct err err = {0};

    ck_assert_ptr_nonnull(text);
    text[n++] = '{';
    for (int i = 0; i < MEMBERS; i++)
        n += (size_t)sprintf(text + n, "%s\"%d\":1", i ? "," : "", i);
    text[n++] = '}';
    text[n] = '\0';
    patch = parsed(text);
    ck_assert_int_eq(json_merge_patch(target, patch, &err), ERR_JSON);
    json_free(patch);
    json_free(target);
    free(text);
}
END_TEST

/* --- every allocation's turn to fail ------------------------------------------------------------------------------------------- */

static size_t allocations_left;

static void *scarce_malloc(size_t bytes)
{
    if (!allocations_left)
        return NULL;
    allocations_left--;
    return malloc(bytes);
}

static enum err_code parse_and_merge(const char *text, struct err *err)
{
    struct json *target = NULL, *patch = NULL;
    enum err_code rc = parse(text, &json_limits_config, &target, err);

    if (!rc)
        rc = parse("{\"b\":{\"c\":{\"n\":NaN}},\"new\":{\"x\":[1,\"y\"]}}", &json_limits_config, &patch, err);
    if (!rc)
        rc = json_merge_patch(target, patch, err);
    json_free(target);
    json_free(patch);
    return rc;
}

START_TEST(any_allocation_may_fail)
{
    cJSON_Hooks hooks = {scarce_malloc, free};
    enum err_code rc = ERR_NOMEM;
    size_t n;

    cJSON_InitHooks(&hooks); /* of this forked test only */
    for (n = 0; rc && n < 1000; n++) {
        struct err err = {0};

        allocations_left = n;
        rc = parse_and_merge(sample, &err);
        ck_assert_msg(rc == ERR_OK || rc == ERR_NOMEM, "%zu: %s", n, err.detail);
    }
    ck_assert_int_eq(rc, ERR_OK);
    ck_assert_uint_gt(n, 30);
}
END_TEST

UNIT_TESTS("base/json",
    unit_rows(grammar, texts);
    unit_test(a_zero_byte_is_no_end);
    unit_test(every_truncation_is_refused);
    unit_test(every_changed_byte_is_survived);
    unit_test(depth_is_bounded);
    unit_test(size_is_bounded);
    unit_test(values_are_bounded);
    unit_rows(whole_numbers_are_exact_or_refused, numbers);
    unit_test(types_are_told_apart);
    unit_test(members_and_elements_come_in_order);
    unit_test(the_last_of_duplicates_wins);
    unit_test(floats_are_told_from_integers);
    unit_test(python_floats);
    unit_rows(merge_patch, merges);
    unit_test(merge_patch_goes_into_objects);
    unit_test(merging_giants_is_refused);
    unit_test(any_allocation_may_fail);
)
