#include "base/json.h"
#include "base/jsonw.h"
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

static char room[1 << 14];

static void sample(struct jsonw *w)
{
    jsonw_object(w, NULL);
    jsonw_str(w, "model", "opt");
    jsonw_object(w, "empty");
    jsonw_end(w);
    jsonw_array(w, "list");
    jsonw_u64(w, NULL, 1);
    jsonw_null(w, NULL);
    jsonw_bool(w, NULL, true);
    jsonw_end(w);
    jsonw_raw(w, "raw", "[7]", 3);
    jsonw_str(w, "none", NULL);
    jsonw_end(w);
}

START_TEST(compact)
{
    struct buf b;
    struct jsonw w;

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, false);
    ck_assert(!jsonw_done(&w));
    sample(&w);
    ck_assert(jsonw_done(&w));
    ck_assert_str_eq(buf_text(&b), "{\"model\":\"opt\",\"empty\":{},\"list\":[1,null,true],\"raw\":[7],\"none\":null}");
}
END_TEST

START_TEST(pretty)
{
    struct buf b;
    struct jsonw w;

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, true);
    sample(&w);
    ck_assert(jsonw_done(&w));
    ck_assert_str_eq(buf_text(&b), "{\n  \"model\": \"opt\",\n  \"empty\": {},\n  \"list\": [\n    1,\n    null,\n    true\n  ],\n"
                                   "  \"raw\": [7],\n  \"none\": null\n}\n");
}
END_TEST

static const struct {
    const char *raw, *json;
} strings[] = {
    {"", "\"\""},
    {"plain", "\"plain\""},
    {"\"\\/", "\"\\\"\\\\/\""},
    {"\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""},
    {"\xc3\xa4\xf0\x9f\x98\x80", "\"\xc3\xa4\xf0\x9f\x98\x80\""},
    {"a\xc3", "\"a\xEF\xBF\xBD\""}, /* a sentence that snprintf cut within a character */
    {"\xed\xa0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
};

START_TEST(strings_are_escaped)
{
    struct buf b;
    struct jsonw w;

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, false);
    jsonw_str(&w, NULL, strings[_i].raw);
    ck_assert_str_eq(buf_text(&b), strings[_i].json);
}
END_TEST

START_TEST(a_zero_byte_is_escaped)
{
    struct buf b;
    struct jsonw w;

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, false);
    jsonw_str_n(&w, NULL, "a\0b", 3);
    ck_assert_str_eq(buf_text(&b), "\"a\\u0000b\"");
}
END_TEST

static const struct {
    double value;
    unsigned decimals;
    const char *json;
} decimals[] = {
    {0, 3, "0"},
    {-0.0, 3, "0"},
    {-0.0001, 3, "0"},
    {1, 0, "1"},
    {0.5, 0, "1"},
    {-0.5, 0, "-1"},
    {0.5, 3, "0.5"},
    {-0.125, 3, "-0.125"},
    {0.125, 2, "0.13"},
    {0.05, 2, "0.05"},
    {0.1, 9, "0.1"},
    {99.999, 2, "100"},
    {1.000000001, 9, "1.000000001"},
    {123456789.25, 4, "123456789.25"},
    {9007199254740991.0, 9, "9007199254740991"},
    {1e15, 2, "1000000000000000"},
    {1e16, 2, "10000000000000000"},
    {-1e20, 2, "-100000000000000000000"},
    {INFINITY, 2, "null"},
    {-INFINITY, 2, "null"},
    {NAN, 2, "null"},
};

START_TEST(decimals_are_plain)
{
    struct buf b;
    struct jsonw w;

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, false);
    jsonw_fixed(&w, NULL, decimals[_i].value, decimals[_i].decimals);
    ck_assert_str_eq(buf_text(&b), decimals[_i].json);
}
END_TEST

START_TEST(largest_numbers)
{
    struct buf b;
    struct jsonw w;

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, false);
    jsonw_array(&w, NULL);
    jsonw_u64(&w, NULL, UINT64_MAX);
    jsonw_i64(&w, NULL, INT64_MIN);
    jsonw_i64(&w, NULL, INT64_MAX);
    jsonw_fixed(&w, NULL, 1.7976931348623157e308, 9);
    jsonw_end(&w);
    ck_assert(jsonw_done(&w));
    ck_assert(memcmp(buf_text(&b), "[18446744073709551615,-9223372036854775808,9223372036854775807,17976931", 71) == 0);
    ck_assert_uint_eq(b.bytes, 1 + 20 + 1 + 20 + 1 + 19 + 1 + 309 + 1);
}
END_TEST

/* Too little room is told at the end, never written beyond. */
START_TEST(any_room)
{
    size_t need = 0;

    for (size_t bytes = 1; bytes < 200; bytes++) {
        struct buf b;
        struct jsonw w;

        room[bytes] = 'x';
        buf_init_fixed(&b, room, bytes);
        jsonw_init(&w, &b, true);
        sample(&w);
        ck_assert_int_eq(room[bytes], 'x');
        if (jsonw_done(&w) && !need)
            need = bytes;
        ck_assert(jsonw_done(&w) == (need != 0));
    }
    ck_assert_uint_gt(need, 0);
}
END_TEST

/* What is written can be read back. */
START_TEST(round_trip)
{
    struct buf b;
    struct jsonw w;
    struct json *doc = NULL;
    struct err err = {0};

    buf_init_fixed(&b, room, sizeof room);
    jsonw_init(&w, &b, true);
    jsonw_array(&w, NULL);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        jsonw_str(&w, NULL, strings[i].raw);
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals; i++)
        jsonw_fixed(&w, NULL, decimals[i].value, decimals[i].decimals);
    jsonw_end(&w);
    ck_assert(jsonw_done(&w));
    ck_assert_int_eq(json_parse(buf_text(&b), b.bytes, &json_limits_request, &doc, &err), ERR_OK);
    ck_assert_str_eq(json_str(json_next(json_next(json_first(doc)))), strings[2].raw);
    json_free(doc);
}
END_TEST

UNIT_TESTS("base/jsonw",
    unit_test(compact);
    unit_test(pretty);
    unit_rows(strings_are_escaped, strings);
    unit_test(a_zero_byte_is_escaped);
    unit_rows(decimals_are_plain, decimals);
    unit_test(largest_numbers);
    unit_test(any_room);
    unit_test(round_trip);
)
