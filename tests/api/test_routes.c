/* Paths, methods, content types. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <string.h>

static const struct {
    const char *method, *path, *type, *body;
    int status;
} calls[] = {
    {"GET", "/healthz", NULL, "", 200},
    {"HEAD", "/healthz", NULL, "", 200},
    {"GET", "/openapi.yaml", NULL, "", 200},
    {"GET", "/gpus", NULL, "", 200},
    {"GET", "/clusters", NULL, "", 200},
    {"GET", "/methods", NULL, "", 200},
    {"GET", "/optimizers", NULL, "", 200},
    {"GET", "/dtypes", NULL, "", 200},
    {"GET", "/models", NULL, "", 200},
    {"GET", "/models?q=opt&modelled=true", NULL, "", 200},
    {"GET", "/models?modeled=true", NULL, "", 422},
    {"GET", "/models?limit=2&offset=4&q=qwen", NULL, "", 200},
    {"GET", "/models?limit=-1", NULL, "", 422},
    {"GET", "/models?offset=1e9", NULL, "", 422},
    {"GET", "/gpus?limit=2", NULL, "", 422},
    {"GET", "/gpus/A100", NULL, "", 200},
    {"GET", "/gpus/rtx 4090 24GB", NULL, "", 200},
    {"GET", "/gpus/A100?vendor=AMD", NULL, "", 422},
    {"GET", "/gpus/banana", NULL, "", 404},
    {"GET", "/gpus?vendor=amd", NULL, "", 200},
    {"GET", "/gpus?vendor=nobody", NULL, "", 200},
    {"GET", "/gpus?colour=red", NULL, "", 422},
    {"GET", "/clusters/LUMI", NULL, "", 200},
    {"GET", "/clusters/atlantis", NULL, "", 404},
    {"GET", "/clusters?site=CSC Finland", NULL, "", 200},
    {"GET", "/methods?x=1", NULL, "", 422},
    {"GET", "/models/facebook/opt-125m", NULL, "", 200},
    {"GET", "/models/nobody/nothing", NULL, "", 404},
    {"GET", "/models/../../etc/passwd", NULL, "", 422},
    {"GET", "/models/", NULL, "", 404},
    {"GET", "/", NULL, "", 200},
    {"GET", "/page.js", NULL, "", 200},
    {"GET", "/page.css", NULL, "", 200},
    {"GET", "/uplot.js", NULL, "", 200},
    {"GET", "/icon.svg", NULL, "", 200},
    {"GET", "/glossary", NULL, "", 200},
    {"GET", "/page.html", NULL, "", 404},
    {"GET", "", NULL, "", 404},
    {"GET", "/estimates", NULL, "", 404},
    {"GET", "/estimate", NULL, "", 422},
    {"PUT", "/estimate", NULL, "", 405},
    {"GET", "/estimate/batch", NULL, "", 405},
    {"PUT", "/models", NULL, "", 405},
    {"POST", "/healthz", NULL, "", 405},
    {"POST", "/estimate", "application/json", "{}", 422},
    {"POST", "/estimate", "application/json; charset=utf-8", "{}", 422},
    {"POST", "/estimate", "application/merge-patch+json", "{}", 422},
    {"POST", "/estimate", "application/x-www-form-urlencoded", " {}", 422},
    {"POST", "/estimate", "application/x-www-form-urlencoded", "model=gpt2", 415},
    {"POST", "/estimate", "text/plain", "{}", 415},
    {"POST", "/estimate", "multipart/form-data; boundary=x", "{}", 415},
    {"POST", "/models", NULL, "{}", 422},
    {"POST", "/models", NULL, "{\"model\":\"facebook/opt-125m\"}", 200},
    {"POST", "/models", NULL, "{\"model\":\"facebook/opt-125m\",\"lora\":{},\"dtype\":\"bf16\"}", 200},
    {"POST", "/models", NULL, "{\"model\":\"microsoft/biogpt\",\"lora\":{}}", 422},
    {"POST", "/models", NULL, "{\"config\":{\"model_type\":\"a_type_of_tomorrow\"}}", 422},
};

START_TEST(routes)
{
    struct reply reply = ask_within(API_ARENA_BYTES, calls[_i].method, calls[_i].path, calls[_i].type, calls[_i].body);

    ck_assert_msg(reply.r.status == calls[_i].status, "%s %s: %d", calls[_i].method, calls[_i].path, reply.r.status);
    ck_assert((reply.r.status == 405) == (reply.r.allow != NULL));
    ck_assert((reply.r.status == 415) == (reply.r.accept_post != NULL));
    ck_assert(!strcmp(calls[_i].method, "PUT") ? !strcmp(reply.r.allow, "GET, HEAD, POST") : true);
    reply_done(reply);
}
END_TEST

START_TEST(counts_every_parameter)
{
    struct reply reply = ask_within(API_ARENA_BYTES, "GET", "/models/facebook/opt-125m", NULL, "");
    uint64_t parameters = 0, tensors = 0, rows = 0;

    ck_assert(json_uint64(json_get(reply.doc, "parameters"), &parameters) && parameters == 125239296);
    ck_assert(json_uint64(json_get(reply.doc, "n_tensors"), &tensors));
    json_each(t, json_get(reply.doc, "tensors"))
        rows += !json_get(t, "tied_to");
    ck_assert_uint_eq(rows, tensors);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/routes",
    unit_rows(routes, calls);
    unit_test(counts_every_parameter);
)
