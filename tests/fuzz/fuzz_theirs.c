/*
 * Users' own files: the first letter says which (t: TrainingArguments and what trl, LLaMA-Factory and axolotl write; a: accelerate;
 * d: DeepSpeed; l: peft's adapter_config, as the request's lora; A to E: a framework_config), the rest is the file, YAML or JSON.
 */
#include "api/theirs/theirs.h"
#include "base/buf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/carried.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const yaml_values[] = {"true",   "no",        "5e-5", "1.0e-4",    "~", "'x'", "|\n  a\n  b", "[q_proj, v_proj]",
                                          "{a: 1}", "MULTI_GPU", "FSDP", "DEEPSPEED", NULL};

static const struct their_key *keys_of(uint8_t letter)
{
    return letter == 'a' ? accelerate_keys : letter == 'd' ? deepspeed_keys : letter == 'l' ? peft_keys : trainer_keys;
}

/* The file after the letter: JSON by its values, YAML by a line more, or bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const struct fuzz_grammar grammar = {.keys = keys_of(size ? data[0] : 't'), .values = NULL},
                              yaml = {.keys = grammar.keys, .values = yaml_values};
    char name[FUZZ_NAME], value[FUZZ_VALUE], line[FUZZ_NAME + FUZZ_VALUE + 8];
    uint64_t random = seed;
    size_t n;

    if (!size || max_size < 2)
        return LLVMFuzzerMutate(data, size, max_size);
    if (size > 1 && data[1] == '{')
        return 1 + fuzz_mutate_json(&grammar, data + 1, size - 1, max_size - 1, seed);
    if (fuzz_below(&random, 2))
        return LLVMFuzzerMutate(data, size, max_size);
    fuzz_pick(&yaml, &random, NULL, name, value);
    n = (size_t)snprintf(line, sizeof line, "%s%s%s: %s", data[size - 1] == '\n' ? "" : "\n", fuzz_below(&random, 4) ? "" : "  ", name,
                         value);
    if (size + n > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    memcpy(data + size, line, n);
    return size + n;
}

/* As api/answer/estimate.c does it, up to where models are walked. */
static enum err_code read(struct estimate *e)
{
    struct call *c = e->call;
    enum err_code rc = request_read(c->doc, c->arena, &e->warnings, &e->left_out, &e->rq, c->err);

    if (!rc)
        rc = stack_read(&e->rq.stack, &e->stack, c->err);
    if (!rc)
        rc = theirs_read(e);
    if (!rc)
        rc = request_check(&e->rq, &e->assumptions, &e->warnings, c->err);
    if (!rc)
        rc = model_read(c, &(struct model_asked){e->rq.model, e->rq.revision, e->rq.config, e->rq.modeling, program_wanted(&e->rq.program), &e->rq.stack,
                                                 &e->changes},
                        &e->warnings, &e->model);
    if (!rc)
        rc = theirs_resolve(e);
    if (!rc)
        rc = question_build(e);
    return rc;
}

static void ask(const struct json *doc, struct arena *arena)
{
    const struct builtin *b = builtin_find("facebook/opt-125m");
    const struct api_config config = {
        .model = "facebook/opt-125m", .revision = "main", .text = carried_text(b), .bytes = b->bytes, .source = "builtin"};
    const struct shape shape = {0};
    const struct api_request rq = {.method = "POST", .path = "/estimate", .arena = arena, .library = fuzz_library};
    struct err err = {0};
    struct api_response ret;
    struct call c = {.rq = &rq, .configs = &config, .n_configs = 1, .rest = "", .doc = doc, .arena = arena, .ret = &ret, .err = &err};
    struct estimate *e = arena_new(arena, struct estimate);
    enum err_code rc;

    e->call = &c;
    e->shape = &shape;
    e->warnings.arena = e->assumptions.arena = arena;
    left_out_init(&e->left_out, arena, false);
    rc = read(e);
    FUZZ_CHECK(rc != ERR_NOMEM && rc != ERR_INTERNAL && (!rc || err.detail[0]), "%d %s", rc, err.detail);
    json_free(e->model.owned);
    for (size_t i = 0; i < sizeof e->owned / sizeof *e->owned; i++)
        json_free(e->owned[i]);
}

static void write_request(struct buf *out, uint8_t letter, const char *file, size_t bytes)
{
    static const char *const frameworks[] = {"axolotl", "llama-factory", "ms-swift", "trl", "torchtune"};
    static const char *const members[] = {"accelerate_config", "deepspeed_config", "training_arguments"};
    struct jsonw w;

    jsonw_init(&w, out, false);
    jsonw_object(&w, NULL);
    jsonw_str(&w, "model", "facebook/opt-125m");
    jsonw_object(&w, "cluster");
    jsonw_str(&w, "gpu", "A100-80GB");
    jsonw_u64(&w, "gpus_per_node", 8);
    jsonw_end(&w);
    if (letter == 'l') {
        jsonw_object(&w, "training");
        jsonw_raw(&w, "lora", file, bytes);
        jsonw_end(&w);
    } else if (letter >= 'A' && letter <= 'E') {
        jsonw_object(&w, "framework_config");
        jsonw_str(&w, "framework", frameworks[letter - 'A']);
        jsonw_str_n(&w, "text", file, bytes);
        jsonw_end(&w);
    } else {
        jsonw_str_n(&w, members[letter == 'a' ? 0 : letter == 'd' ? 1 : 2], file, bytes);
    }
    jsonw_end(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = fuzz_arena(64 << 20);
    struct json *doc = NULL;
    struct err err = {0};
    struct buf out;

    if (!size)
        return 0;
    buf_init(&out, &arena, 1 << 20);
    write_request(&out, data[0], (const char *)data + 1, size - 1);
    if (buf_ok(&out) && !json_parse(buf_text(&out), out.bytes, &json_limits_request, &doc, &err))
        ask(doc, &arena);
    json_free(doc);
    return 0;
}
