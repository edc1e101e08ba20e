/* POST /estimate/batch, and what an answer says of the config it was made from. */
#include "tests/support/ask.h"
#include "tests/support/carried.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct reply batch(const char *body)
{
    return ask_within(API_ARENA_BYTES, "POST", "/estimate/batch", NULL, body);
}

static const struct {
    const char *body;
    const char *code, *pointer;
} refused[] = {
    {"[]", "field-type", ""},
    {"{}", "field-missing", "/requests"},
    {"{\"requests\":{}}", "field-type", "/requests"},
    {"{\"requests\":[]}", "field-range", "/requests"},
};

START_TEST(refuses)
{
    struct reply reply = batch(refused[_i].body);

    ck_assert_int_eq(reply.r.status, 422);
    ck_assert_str_eq(reply_text(&reply, "code"), refused[_i].code);
    ck_assert_str_eq(reply_text(&reply, "pointer"), refused[_i].pointer);
    reply_done(reply);
}
END_TEST

#define ONE TRAIN("\"seq_len\":64,\"micro_batch_size\":1")
#define TWO "{\"model\":\"openai-community/gpt2\"," GPU ",\"training\":{\"seq_len\":32}}"

START_TEST(an_item_is_the_single_answer)
{
    struct reply many = batch("{\"requests\":[" ONE ",{\"model\":\"nobody/nothing\"," GPU "},7," TWO ",{" OPT "}," ONE "]}");
    struct reply one = ask(ONE), two = ask(TWO);
    const char *first;

    ck_assert_int_eq(many.r.status, 200);
    ck_assert_uint_eq(many.needs.n, 3);
    ck_assert(many.r.fits && many.r.modelled);
    ((char *)(uintptr_t)one.r.body)[one.r.bytes - 1] = 0;
    ((char *)(uintptr_t)two.r.body)[two.r.bytes - 1] = 0;
    first = strstr(many.r.body, one.r.body);
    ck_assert(first && strstr(first + 1, two.r.body) && strstr(first + 1, one.r.body));
    ck_assert_uint_eq(json_count(reply_at(&many, "results")), 6);
    ck_assert_str_eq(json_str(reply_at(&many, "results/1/code")), "model-not-found");
    ck_assert_str_eq(json_str(reply_at(&many, "results/1/pointer")), "/requests/1/model");
    ck_assert_str_eq(json_str(reply_at(&many, "results/2/pointer")), "/requests/2");
    ck_assert_str_eq(json_str(reply_at(&many, "results/4/pointer")), "/requests/4/cluster/gpu");
    reply_done(many);
    reply_done(one);
    reply_done(two);
}
END_TEST

/* --- a batch taken apart ----------------------------------------------------------------------------------------------------------- */

/* Wherever "requests" stands and however it is spelled: bodies without blanks, who is the same as whom, whose config is whose. */
static const struct {
    const char *body, *items; /* joined by '|' */
    const char *same, *needs; /* a digit an item */
} parts[] = {
    {"{\"requests\":[{\"model\":\"a\"}]}", "{\"model\":\"a\"}", "0", "0"},
    {"\xEF\xBB\xBF { \"requests\" : [ 1 , {\"model\" : \"b\"} ,1.0,1] } ", "1|{\"model\":\"b\"}|1.0|1", "0120", "-0--"},
    {"{\"x\":{\"requests\":[7]},\"requests\":[5],\"y\":[{}],\"re\\u0071uests\":[\"a \\\" ]b\",[ [],{ } ]],\"z\":1}", "\"a \\\" ]b\"|[[],{}]", "01", "--"},
    {"{\"a\\\"]\":\"}\",\"requests\":[{\"model\":\"c\",\"revision\":\"v\"},{\"model\":\"c\"},{\"model\":\"c\",\t\"revision\":\n\"v\"},{\"model\":\"c \"}]}",
     "{\"model\":\"c\",\"revision\":\"v\"}|{\"model\":\"c\"}|{\"model\":\"c\",\"revision\":\"v\"}|{\"model\":\"c \"}", "0103", "0101"},
    {"{\"requests\":[{\"config\":{\"a\":NaN, \"b\":-Infinity}}]}", "{\"config\":{\"a\":NaN,\"b\":-Infinity}}", "0", "-"},
};

START_TEST(takes_apart)
{
    void *block = malloc(4 << 20);
    char items[512] = "", same[16] = "", needs[16] = "";
    struct api_response refusal;
    struct api_batch b;
    struct arena arena;
    struct api_request rq = {.method = "POST", .path = "/estimate/batch", .body = parts[_i].body, .body_bytes = strlen(parts[_i].body), .arena = &arena};

    arena_init(&arena, block, 4 << 20);
    ck_assert(api_batch_read(&rq, &b, &refusal));
    for (uint32_t i = 0; i < b.n; i++) {
        (void)snprintf(items + strlen(items), sizeof items - strlen(items), "%s%.*s", i ? "|" : "", (int)b.items[i].bytes, b.items[i].body);
        (void)sprintf(same + i, "%u", b.items[i].same_as);
        (void)sprintf(needs + i, b.items[i].need == API_NO_NEED ? "-" : "%u", b.items[i].need);
    }
    ck_assert_str_eq(items, parts[_i].items);
    ck_assert_str_eq(same, parts[_i].same);
    ck_assert_str_eq(needs, parts[_i].needs);
    free(block);
}
END_TEST

START_TEST(equal_items_have_one_answer)
{
    struct reply many = batch("{\"requests\":[" ONE ", " ONE ",{" OPT "},{ " OPT "}]}");
    const char *second = strstr(many.r.body, "},\n    {\n  \"fits\"");

    ck_assert(second);
    ck_assert_uint_eq(json_count(reply_at(&many, "results")), 4);
    ck_assert_str_eq(json_str(reply_at(&many, "results/0/method")), json_str(reply_at(&many, "results/1/method")));
    ck_assert_str_eq(json_str(reply_at(&many, "results/3/pointer")), "/requests/3/cluster/gpu");
    reply_done(many);
}
END_TEST

/* n requests, of models m0, m1, ... that nobody has. */
static char *many_requests(unsigned n, unsigned models)
{
    char *body = malloc((size_t)n * 80 + 64), *p = body + sprintf(body, "{\"requests\":[");

    for (unsigned i = 0; i < n; i++)
        p += sprintf(p, "%s{\"model\":\"m%u\",\"revision\":\"%s\"," GPU "}", i ? "," : "", i % models, i % 2 ? "main" : "v1");
    (void)strcpy(p, "]}");
    return body;
}

START_TEST(takes_a_thousand_and_needs_each_once)
{
    static const struct {
        unsigned n, models, needs;
    } rows[] = {{1000, 1000, 1000}, {1000, 10, 10}, {999, 9, 18}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *body = many_requests(rows[i].n, rows[i].models);
        struct reply reply = batch(body);

        ck_assert_int_eq(reply.r.status, 200);
        ck_assert_uint_eq(reply.needs.n, rows[i].needs);
        ck_assert_uint_eq(json_count(reply_at(&reply, "results")), rows[i].n);
        reply_done(reply);
        free(body);
    }
}
END_TEST

START_TEST(takes_no_more)
{
    char *body = many_requests(1001, 1);
    struct reply reply = batch(body);

    ck_assert_int_eq(reply.r.status, 422);
    ck_assert_str_eq(reply_text(&reply, "pointer"), "/requests");
    reply_done(reply);
    free(body);
}
END_TEST

/* Answers that do not fit together are told so one by one; those before them stand. */
START_TEST(answers_what_there_is_room_for)
{
    char *body = malloc(1 << 20), *p = body + sprintf(body, "{\"requests\":[" ONE);
    struct reply reply;
    uint64_t full = 0, refused_items = 0;

    for (int i = 0; i < 60; i++)
        p += sprintf(p, "," ONE);
    (void)strcpy(p, "]}");
    reply = ask_within(4 << 20, "POST", "/estimate/batch", NULL, body);
    ck_assert_int_eq(reply.r.status, 200);
    json_each(item, reply_at(&reply, "results"))
        json_get(item, "candidates") ? full++ : refused_items++;
    ck_assert_uint_eq(full + refused_items, 61);
    reply_done(reply);
    free(body);
}
END_TEST

/* --- where a config comes from --------------------------------------------------------------------------------------------------- */

#define ASK_A "{\"model\":\"a/b\",\"revision\":\"v1\"," GPU ",\"training\":{\"seq_len\":64,\"micro_batch_size\":1}}"

START_TEST(names_the_origin)
{
    const struct builtin *b = builtin_find("facebook/opt-125m");
    struct api_config config = {.model = "a/b", .revision = "v1", .text = carried_text(b), .bytes = b->bytes, .source = "hub",
                                .commit = "0123456789012345678901234567890123456789", .note = "a note", .parameters = 125239297};
    struct reply reply = ask_with(&config, 1, "POST", "/estimate", ASK_A);

    ck_assert_str_eq(json_str(reply_at(&reply, "model/id")), "a/b");
    ck_assert_str_eq(json_str(reply_at(&reply, "model/revision")), "v1");
    ck_assert_str_eq(json_str(reply_at(&reply, "model/commit")), config.commit);
    ck_assert_str_eq(json_str(reply_at(&reply, "model/source")), "hub");
    ck_assert_str_eq(json_str(reply_at(&reply, "warnings/0")), "a note");
    ck_assert(strstr(json_str(reply_at(&reply, "warnings/1")), "counts 125239297 parameters"));
    reply_done(reply);
    config.parameters = 125239296;
    config.note = NULL;
    reply = ask_with(&config, 1, "POST", "/estimate", ASK_A);
    ck_assert_uint_eq(json_count(json_get(reply.doc, "warnings")), 0);
    reply_done(reply);
    config.revision = "main"; /* not what was asked */
    reply = ask_with(&config, 1, "POST", "/estimate", ASK_A);
    ck_assert_int_eq(reply.r.status, 404);
    reply_done(reply);
}
END_TEST

static const struct {
    enum err_code code;
    int status;
    const char *slug, *pointer;
    unsigned retry_after_s;
} failures[] = {
    {ERR_MODEL_NOT_FOUND, 404, "model-not-found", "/model", 0},
    {ERR_REVISION_NOT_FOUND, 404, "revision-not-found", "/revision", 0},
    {ERR_CONFIG_NOT_FOUND, 404, "config-not-found", "/model", 0},
    {ERR_MODEL_GATED, 403, "model-gated", "/model", 0},
    {ERR_HUB_FORBIDDEN, 403, "hub-forbidden", "/model", 0},
    {ERR_HUB_TOKEN, 401, "hub-token-refused", "/model", 0},
    {ERR_HUB_FAILED, 502, "hub-failed", "/model", 0},
    {ERR_HUB_TIMEOUT, 504, "hub-timeout", "/model", 0},
    {ERR_HUB_LIMITED, 503, "hub-rate-limited", "/model", 77},
};

START_TEST(tells_why_there_is_no_config)
{
    struct err err = {.code = failures[_i].code, .detail = "because"};
    struct api_config config = {.model = "a/b", .revision = "v1", .err = &err, .retry_after_s = failures[_i].retry_after_s};
    struct reply reply = ask_with(&config, 1, "POST", "/estimate", ASK_A);
    struct reply many = ask_with(&config, 1, "POST", "/estimate/batch", "{\"requests\":[1," ASK_A "]}");
    struct reply inlined = ask_with(&config, 1, "POST", "/models", "{\"model\":\"a/b\",\"revision\":\"v1\",\"config\":{\"model_type\":\"opt\"}}");
    char pointer[64];

    (void)snprintf(pointer, sizeof pointer, "/requests/1%s", failures[_i].pointer);
    ck_assert_int_eq(reply.r.status, failures[_i].status);
    ck_assert_str_eq(reply_text(&reply, "code"), failures[_i].slug);
    ck_assert_str_eq(reply_text(&reply, "pointer"), failures[_i].pointer);
    ck_assert_str_eq(reply_text(&reply, "detail"), "because");
    ck_assert_uint_eq(reply.r.retry_after_s, failures[_i].retry_after_s);
    ck_assert_str_eq(json_str(reply_at(&many, "results/1/pointer")), pointer);
    ck_assert_str_eq(reply_text(&inlined, "pointer"), "/config/hidden_size"); /* the inline config counts, and is not whole */
    reply_done(reply);
    reply_done(many);
    reply_done(inlined);
}
END_TEST

UNIT_TESTS("api/batch",
    unit_rows(refuses, refused);
    unit_test(an_item_is_the_single_answer);
    unit_rows(takes_apart, parts);
    unit_test(equal_items_have_one_answer);
    unit_test(takes_a_thousand_and_needs_each_once);
    unit_test(takes_no_more);
    unit_test(answers_what_there_is_room_for);
    unit_test(names_the_origin);
    unit_rows(tells_why_there_is_no_config, failures);
)
