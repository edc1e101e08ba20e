/*
 * GET /estimate's query: as the document that a POST would have sent, and what an error in it is blamed on.
 */
#include "api/request/query.h"
#include "api/request/request.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fuzz_grammar grammar = {.members = estimate_members};

/* A parameter more, or bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const within[] = {NULL, "cluster", "training", "lora", "stack", "inference", "gpu", "buckets", "fsdp"};
    char name[FUZZ_NAME], value[FUZZ_VALUE], text[FUZZ_NAME + FUZZ_VALUE + 32], *bare = value;
    uint64_t random = seed;
    const char *of = within[fuzz_below(&random, sizeof within / sizeof *within)];
    size_t n;

    if (fuzz_below(&random, 2))
        return LLVMFuzzerMutate(data, size, max_size);
    fuzz_pick(&grammar, &random, of, name, value);
    n = strlen(value);
    if (value[0] == '"' && n > 1) {
        value[n - 1] = 0;
        bare++;
    }
    n = (size_t)snprintf(text, sizeof text, "&%s%s%s=%s", of && fuzz_below(&random, 2) ? of : "", of && fuzz_below(&random, 2) ? "." : "",
                         name, bare);
    if (size + n > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    memcpy(data + size, text, n);
    return size + n;
}

static void ask(const char *text, struct arena *arena)
{
    struct notes notes = {.arena = arena};
    struct estimate_request rq = {0};
    struct left_out left_out;
    struct json *doc = NULL;
    const char *parameter = NULL;
    struct query q;
    struct err err = {0};
    enum err_code rc = query_read(text, arena, &q, &err);

    if (!rc)
        rc = query_document(&q, estimate_members, "top|launch|timeline|strict", arena, &doc, &parameter, &err);
    FUZZ_CHECK(!rc || (err.detail[0] && rc != ERR_INTERNAL), "an error without a sentence");
    FUZZ_CHECK(rc != ERR_JSON, "a query became no JSON: %s", err.detail);
    left_out_init(&left_out, arena, false);
    if (!rc)
        rc = request_read(doc, arena, &notes, &left_out, &rq, &err);
    if (!rc)
        rc = request_check(&rq, &notes, &notes, &err);
    FUZZ_CHECK(rc != ERR_NOMEM, "%s", err.detail);
    if (rc && !parameter)
        (void)query_blame(&q, estimate_members, err.at, arena);
    json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = fuzz_arena(8 << 20);
    char *text = fuzz_text(data, size);

    if (strlen(text) <= 16384) /* the server's pool holds no longer request line */
        ask(text, &arena);
    free(text);
    return 0;
}
