/*
 * POST /estimate's body: read, checked, written back. What was read and is echoed is read again to the same echo.
 */
#include "api/request/request.h"
#include "base/buf.h"
#include "stack/release.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char *const values[] = {
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2}",
    "{\"NaN\":NaN,\"x\":-Infinity}",
    "\"Qwen/Qwen2-0.5B\"",
    "\"A100-80GB\"",
    NULL,
};
static const struct fuzz_grammar grammar = {.members = estimate_members, .values = values};
FUZZ_JSON(&grammar)

static struct buf written(const struct estimate_request *rq, struct arena *arena)
{
    struct buf out;
    struct jsonw w;

    buf_init(&out, arena, 4 << 20);
    jsonw_init(&w, &out, false);
    jsonw_object(&w, NULL);
    encode_members(&w, estimate_members, rq);
    jsonw_end(&w);
    FUZZ_CHECK(jsonw_done(&w), "an echo of %zu bytes does not fit", out.bytes);
    return out;
}

static bool read(const struct json *doc, struct arena *arena, struct estimate_request *ret, struct err *err)
{
    struct notes notes = {.arena = arena};
    struct left_out left_out;
    enum err_code rc;

    memset(ret, 0, sizeof *ret);
    left_out_init(&left_out, arena, false);
    rc = request_read(doc, arena, &notes, &left_out, ret, err);
    FUZZ_CHECK(rc < ERR_COUNT && rc == (rc ? err->code : ERR_OK), "code %d, in the error %d", rc, err->code);
    FUZZ_CHECK(!rc || err->detail[0], "an error without a sentence");
    FUZZ_CHECK(rc != ERR_NOMEM && rc != ERR_INTERNAL, "%s", err->detail);
    return !rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = fuzz_arena(8 << 20);
    struct estimate_request first, again;
    struct json *doc = NULL, *echo = NULL;
    struct err err = {0};
    struct notes notes = {.arena = &arena};
    struct buf a, b;

    if (json_parse((const char *)data, size, &json_limits_request, &doc, &err))
        return 0;
    if (read(doc, &arena, &first, &err)) {
        if (!first.model)
            first.model = "given/inline"; /* documents are not echoed by the table */
        a = written(&first, &arena);
        FUZZ_CHECK(!json_parse(buf_text(&a), a.bytes, &json_limits_config, &echo, &err), "the echo is no JSON: %s in %s", err.detail,
                   buf_text(&a));
        FUZZ_CHECK(read(echo, &arena, &again, &err), "the echo is refused at %s: %s: %s", err.at, err.detail, buf_text(&a));
        b = written(&again, &arena);
        FUZZ_CHECK(a.bytes == b.bytes && !memcmp(buf_text(&a), buf_text(&b), a.bytes), "%s\nis read as\n%s", buf_text(&a), buf_text(&b));
        FUZZ_CHECK(!request_check(&first, &notes, &notes, &err) || err.detail[0], "an error without a sentence");
        (void)request_gpus(&first);
        (void)request_data_parallel(&first);
    }
    json_free(echo);
    json_free(doc);
    return 0;
}
