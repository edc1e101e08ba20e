/*
 * Any request, from its bytes to its answer: "POST /estimate?top=3" and what follows on the next lines, the body. Models are those that are
 * carried. Little memory and little work are granted: an answer that would need more has to say so, and takes no longer for it.
 */
#include "api/api.h"
#include "api/request/request.h"
#include "base/json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/carried.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIGS_MAX = 16, BODY_MAX = 16 << 10 };
#define ARENA_BYTES ((size_t)12 << 20)
#define EVENTS      UINT64_C(30000)

static const char *const values[] = {
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":128}",
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"moe_intermediate_size\":32,\"num_hidden_layers\":24,\"num_attention_heads\":4,\"num_experts\":4,"
    "\"num_experts_per_tok\":2,\"vocab_size\":128,\"output_router_logits\":true}",
    "\"facebook/opt-125m\"",
    "\"gpt2\"",
    "\"T4\"",
    "\"A100-80GB\"",
    "\"B200\"",
    "\"zero3\"",
    "\"fsdp2\"",
    "\"tp+pp+zero1\"",
    "2",
    "4",
    "8",
    NULL,
};
static const struct fuzz_grammar grammar = {.members = estimate_members, .values = values};

/* The body by its values; the first line by bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const uint8_t *line = memchr(data, '\n', size);
    size_t head = line ? (size_t)(line - data) + 1 : size;

    if (!line || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    return head + fuzz_mutate_json(&grammar, data + head, size - head, max_size - head, seed);
}

static size_t configs_of(const struct api_needs *needs, struct api_config *ret)
{
    size_t n = 0;

    for (uint32_t i = 0; i < needs->n && n < CONFIGS_MAX; i++) {
        const struct builtin *b = builtin_find(needs->v[i].model);

        if (b)
            ret[n++] = (struct api_config){
                .model = needs->v[i].model, .revision = needs->v[i].revision, .text = carried_text(b), .bytes = b->bytes, .source = "builtin"};
    }
    return n;
}

/* The ways an answer may look, whatever was asked. */
static void check(const struct api_response *r)
{
    const struct json_limits limits = {.bytes = 64 << 20, .depth = 64, .values = 10000000};
    bool is_json = r->content_type && strstr(r->content_type, "json");
    struct json *doc = NULL;
    struct err err = {0};

    FUZZ_CHECK(r->status == 200 || (r->status >= 400 && r->status < 500) || r->status == 503, "status %d: %s", r->status, r->body);
    FUZZ_CHECK(r->route && r->body, "an answer without a route or a body");
    if (!is_json)
        return;
    FUZZ_CHECK(!json_parse(r->body, r->bytes, &limits, &doc, &err), "no JSON: %s", err.detail);
    FUZZ_CHECK(r->status == 200 || (json_str(json_get(doc, "detail")) && json_str(json_get(doc, "code"))), "a problem that says nothing");
    json_free(doc);
}

static struct api_response answer(const struct api_request *rq)
{
    struct budget budget = {.limit_events = EVENTS};
    struct api_config found[CONFIGS_MAX];
    struct api_request limited = *rq;
    struct api_needs needs;
    struct api_response r;

    limited.budget = &budget;
    rq = &limited;
    api_needs(rq, &needs);
    api_answer(rq, found, configs_of(&needs, found), &r);
    check(&r);
    return r;
}

/* Equal requests, equal bytes. */
static void ask(const struct api_request *asked)
{
    struct arena arena = fuzz_arena(ARENA_BYTES);
    struct api_request rq = *asked;
    struct api_response first, again;
    char *kept;

    rq.arena = &arena;
    rq.library = fuzz_library;
    first = answer(&rq);
    kept = malloc(first.bytes + 1);
    FUZZ_CHECK(kept, "no memory for an answer");
    memcpy(kept, first.body, first.bytes);
    if (rq.body_bytes % 4 == 0) {
        arena = fuzz_arena(ARENA_BYTES);
        again = answer(&rq);
        FUZZ_CHECK(again.status == first.status && again.bytes == first.bytes && !memcmp(kept, again.body, first.bytes),
                   "asked again: other bytes");
    }
    free(kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *body = strchr(text, '\n'), *path = strchr(text, ' '), *query;
    struct api_request rq = {.method = text, .body = "", .content_type = NULL};

    if (body && path && path < body && strlen(text) == size && size < BODY_MAX) {
        *body++ = 0;
        *path++ = 0;
        query = strchr(path, '?');
        if (query)
            *query++ = 0;
        rq.path = path;
        rq.query = query;
        rq.body = body;
        rq.body_bytes = strlen(body);
        ask(&rq);
    }
    free(text);
    return 0;
}
