/* POST /estimate through the two functions that a server calls: what is refused, what is taken, and where the pointer points. */
#include "api/api.h"
#include "base/json.h"
#include "catalog/builtin.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reply {
    struct api_response r;
    struct json *doc;
    void *block;
};

static struct reply ask_within(size_t room, const char *method, const char *path, const char *type, const char *body)
{
    struct reply reply = {.block = malloc(room)};
    struct arena arena;
    struct api_request rq = {.method = method, .path = path, .content_type = type, .body = body, .body_bytes = strlen(body), .arena = &arena};
    struct api_needs needs;
    struct api_config config = {0};
    const struct builtin *b;
    struct err err = {0};

    arena_init(&arena, reply.block, room);
    api_needs(&rq, &needs);
    b = needs.n ? builtin_find(needs.v->model) : NULL;
    if (b)
        config = (struct api_config){.model = needs.v->model, .revision = needs.v->revision, .text = b->text, .bytes = b->bytes, .source = "builtin"};
    api_answer(&rq, &config, b ? 1 : 0, &reply.r);
    if (reply.r.content_type && strstr(reply.r.content_type, "json"))
        ck_assert_msg(!json_parse(reply.r.body, reply.r.bytes, &(struct json_limits){64 << 20, 64, 1000000, false}, &reply.doc, &err),
                      "%.*s: %s", 200, reply.r.body, err.detail);
    return reply;
}

static struct reply ask(const char *body)
{
    return ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, body);
}

static void done(struct reply reply)
{
    json_free(reply.doc);
    free(reply.block);
}

static const char *text(const struct reply *reply, const char *name)
{
    const char *s = json_str(json_get(reply->doc, name));

    return s ? s : "";
}

/* --- refused ------------------------------------------------------------------------------------------------------------------ */

#define OPT "\"model\":\"facebook/opt-125m\""
#define GPU "\"cluster\":{\"gpu\":\"A100-40GB\"}"
#define TRAIN(inner) "{" OPT "," GPU ",\"training\":{" inner "}}"
#define DEEP "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["

static const struct {
    const char *body;
    int status;
    const char *code, *pointer;
} refused[] = {
    {"", 400, "malformed-json", ""},
    {"{", 400, "malformed-json", ""},
    {"{\"model\":\"facebook/opt-125m\",}", 400, "malformed-json", ""},
    {"{\"a\":NaN}", 400, "malformed-json", ""},
    {"{\"a\":\"\xff\"}", 400, "malformed-json", ""},
    {"{\"config\":" DEEP, 400, "malformed-json", ""},
    {"[]", 422, "field-type", ""},
    {"null", 422, "field-type", ""},
    {"{}", 422, "field-missing", "/model"},
    {"{" OPT "}", 422, "field-missing", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":null}", 422, "field-missing", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":7}", 422, "field-type", "/cluster"},
    {"{" OPT ",\"cluster\":{\"name\":\"atlantis\"}}", 422, "field-value", "/cluster/name"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"Voodoo 2\"}}", 422, "field-value", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"\"}}", 422, "field-range", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":{\"gpu\":[\"T4\"]}}", 422, "field-type", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":{\"gpu\":{}}}", 422, "field-missing", "/cluster/gpu/memory_bytes"},
    {"{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":\"80 apples\"}}}", 422, "field-value", "/cluster/gpu/memory_bytes"},
    {"{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":-1}}}", 422, "field-range", "/cluster/gpu/memory_bytes"},
    {"{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":1e9,\"compute_capability\":\"x\"}}}", 422, "field-value", "/cluster/gpu/compute_capability"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"gpus_per_node\":0}}", 422, "field-range", "/cluster/gpus_per_node"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"free_memory_bytes\":[1000000000,true]}}", 422, "field-type", "/cluster/free_memory_bytes/1"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"intra_node\":\"string\"}}", 422, "field-value", "/cluster/intra_node"},
    {"{\"model\":7," GPU "}", 422, "field-type", "/model"},
    {"{\"model\":\"\"," GPU "}", 422, "field-range", "/model"},
    {"{\"model\":\"../x\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a/b/c\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"/etc/passwd\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a/.b\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a--b\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a b\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"x.git\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"m\xc3\xb6" "del\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"nobody/nothing\"," GPU "}", 404, "model-not-found", "/model"},
    {"{" OPT "," GPU ",\"config\":[]}", 422, "field-type", "/config"},
    {"{\"config\":{}," GPU "}", 422, "field-missing", "/config/model_type"},
    {"{\"config\":{\"model_type\":7}," GPU "}", 422, "field-type", "/config/model_type"},
    {"{\"config\":{\"model_type\":\"llama\"}," GPU "}", 422, "field-missing", "/config/hidden_size"},
    {"{" OPT "," GPU ",\"workload\":\"dreaming\"}", 422, "field-value", "/workload"},
    {"{" OPT "," GPU ",\"margin\":1}", 422, "field-range", "/margin"},
    {"{" OPT "," GPU ",\"margin\":-0.1}", 422, "field-range", "/margin"},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":2.2}}", 422, "field-type", "/stack/torch"},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"latest\"}}", 422, "field-value", "/stack/torch"},
    {"{" OPT "," GPU ",\"stack\":{\"transformers\":\"99.1\"}}", 422, "field-value", "/stack/transformers"},
    {"{" OPT "," GPU ",\"deepspeed_config\":\"x\"}", 422, "field-type", "/deepspeed_config"},
    {TRAIN("\"seq_len\":0"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":-1"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":1e300"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":1e999"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":512.5"), 422, "field-type", "/training/seq_len"},
    {TRAIN("\"seq_len\":\"512\""), 422, "field-type", "/training/seq_len"},
    {TRAIN("\"seq_len\":512,\"max_length\":512"), 422, "field-conflict", "/training/max_length"},
    {TRAIN("\"micro_batch_size\":true"), 422, "field-type", "/training/micro_batch_size"},
    {TRAIN("\"micro_batch_size\":65537"), 422, "field-range", "/training/micro_batch_size"},
    {TRAIN("\"micro_batch_size\":5,\"global_batch_size\":128"), 422, "field-conflict", "/training/global_batch_size"},
    {TRAIN("\"micro_batch_size\":4,\"gradient_accumulation_steps\":2,\"global_batch_size\":4"), 422, "field-conflict", "/training/global_batch_size"},
    {TRAIN("\"methods\":[]"), 422, "field-range", "/training/methods"},
    {TRAIN("\"methods\":\"zero4\""), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"pp+tp\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"tp++pp\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"ddp+zero1\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"single+tp\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":{}"), 422, "field-type", "/training/methods"},
    {TRAIN("\"tuning\":[\"full\",7]"), 422, "field-type", "/training/tuning/1"},
    {TRAIN("\"tuning\":[\"full\",\"half\"]"), 422, "field-value", "/training/tuning/1"},
    {TRAIN("\"lora\":{\"rank\":0}"), 422, "field-range", "/training/lora/rank"},
    {TRAIN("\"lora\":{\"dropout\":1}"), 422, "field-range", "/training/lora/dropout"},
    {TRAIN("\"lora\":{\"target_modules\":[]}"), 422, "field-range", "/training/lora/target_modules"},
    {TRAIN("\"lora\":{\"target_modules\":\"some-linear\"}"), 422, "field-value", "/training/lora/target_modules"},
    {TRAIN("\"lora\":{\"target_modules\":[\"q_proj\",\"\"]}"), 422, "field-range", "/training/lora/target_modules/1"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"no_such_module\"]}"), 422, "field-value", "/training/lora/target_modules"},
    {TRAIN("\"gradient_checkpointing\":\"perhaps\""), 422, "field-value", "/training/gradient_checkpointing"},
    {TRAIN("\"attention\":\"flash_attention_2\",\"precision\":\"fp32\""), 422, "field-conflict", "/training/attention"},
    {TRAIN("\"loss\":\"liger\",\"liger_kernels\":[\"cross_entropy\"]"), 422, "field-conflict", "/training/liger_kernels"},
    {TRAIN("\"compile\":\"yes\""), 422, "field-type", "/training/compile"},
    {TRAIN("\"fsdp\":{\"wrap\":\"tightly\"}"), 422, "field-value", "/training/fsdp/wrap"},
    {TRAIN("\"buckets\":{\"reduce_elems\":0}"), 422, "field-range", "/training/buckets/reduce_elems"},
    {"{\"model\":\"openai-community/gpt2\"," GPU ",\"training\":{\"seq_len\":1025}}", 422, "field-range", "/training/seq_len"},
    {"{\"model\":\"facebook/opt-1.3b\"," GPU ",\"training\":{\"seq_len\":2049}}", 422, "field-range", "/training/seq_len"},
    {"{\"model\":\"Salesforce/codegen-350M-mono\"," GPU ",\"training\":{\"attention\":\"flash_attention_2\"}}", 422, "field-conflict", "/training/attention"},
    {"{\"model\":\"microsoft/biogpt\"," GPU ",\"training\":{\"tuning\":\"lora\"}}", 422, "no-default-targets", "/training/lora/target_modules"},
};

START_TEST(refuses)
{
    struct reply reply = ask(refused[_i].body);

    ck_assert_msg(reply.r.status == refused[_i].status && !strcmp(text(&reply, "code"), refused[_i].code) &&
                      !strcmp(text(&reply, "pointer"), refused[_i].pointer),
                  "%s: %d %s at '%s': %s", refused[_i].body, reply.r.status, text(&reply, "code"), text(&reply, "pointer"), text(&reply, "detail"));
    ck_assert_str_eq(reply.r.content_type, "application/problem+json");
    ck_assert(text(&reply, "detail")[0] && text(&reply, "title")[0] && text(&reply, "type")[0]);
    ck_assert_str_eq(reply.r.code, refused[_i].code);
    done(reply);
}
END_TEST

START_TEST(refuses_names_of_any_length)
{
    static const size_t lengths[] = {97, 1000, 100000};
    static const char *const around[] = {"{\"model\":\"%s\"," GPU "}", "{" OPT ",\"cluster\":{\"gpu\":\"%s\"}}", "{" OPT "," GPU ",\"objective\":\"%s\"}",
                                         TRAIN("\"methods\":\"%s\""), "{\"model\":\"\\u00e4%s\"," GPU "}"};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof around / sizeof *around; j++) {
            char *name = calloc(1, lengths[i] + 1), *body = malloc(lengths[i] + 200);
            struct reply reply;

            memset(name, 'x', lengths[i]);
            (void)sprintf(body, around[j], name);
            reply = ask(body);
            ck_assert_int_eq(reply.r.status, 422);
            ck_assert(text(&reply, "pointer")[0] == '/');
            ck_assert_uint_lt(reply.r.bytes, 2000);
            done(reply);
            free(name);
            free(body);
        }
}
END_TEST

/* --- taken -------------------------------------------------------------------------------------------------------------------- */

/* Known words without a model: an answer with a reason, never an error. */
static const struct {
    const char *body;
    const char *detail; /* part of the first candidate's reason */
} unmodelled[] = {
    {TRAIN("\"methods\":\"zero_3\""), "method zero3 is"},
    {TRAIN("\"methods\":\"FULL_SHARD\""), "method fsdp is"},
    {TRAIN("\"methods\":\"TP + pp+cp+ep+Zero-1\",\"tensor_parallel\":2"), "method tp+pp+cp+ep+zero1 is"},
    {TRAIN("\"tuning\":\"qlora\""), "tuning qlora is"},
    {TRAIN("\"tuning\":\"lora\",\"quantization\":\"nf4\""), "quantization nf4 is"},
    {TRAIN("\"optim\":\"adamw_8bit\""), "optimizer adamw_bnb_8bit is"},
    {TRAIN("\"gradient_checkpointing\":[\"selective_op\"]"), "gradient_checkpointing selective_op is"},
    {TRAIN("\"offload\":\"optimizer+params\""), "offload optimizer+params is"},
    {TRAIN("\"loss\":\"cce\""), "loss cut_cross_entropy is"},
    {TRAIN("\"float8\":\"tensorwise\""), "float8 tensorwise is"},
    {TRAIN("\"compile\":true"), "compile true is"},
    {TRAIN("\"liger_kernels\":[\"rope\"]"), "liger_kernels rope is"},
    {TRAIN("\"lora\":{\"modules_to_save\":[\"lm_head\"]}"), "modules_to_save lm_head is"},
    {TRAIN("\"tensor_parallel\":2"), "parallel degrees"},
    {"{" OPT "," GPU ",\"workload\":\"inference\",\"inference\":{\"weights\":\"nf4-dq\"}}", "workload inference is"},
    {"{" OPT "," GPU ",\"stack\":{\"framework\":\"litgpt\"}}", "framework litgpt is"},
    {"{" OPT "," GPU ",\"config\":{\"quantization_config\":{\"bits\":4}}}", "quantization_config"},
    {"{" OPT "," GPU ",\"deepspeed_config\":{}}", "deepspeed_config is"},
    {"{\"config\":{\"model_type\":\"a_type_of_tomorrow\"}," GPU "}", "'a_type_of_tomorrow' has no program"},
    {"{\"model\":\"Qwen/Qwen3-0.6B\"," GPU ",\"stack\":{\"transformers\":\"4.40\",\"torch\":\"2.2\"}}", "has no qwen3"},
};

START_TEST(answers_what_is_not_modelled)
{
    struct reply reply = ask(unmodelled[_i].body);
    const struct json *first = json_first(json_get(reply.doc, "candidates"));
    const char *detail = json_str(json_get(json_get(first, "reason"), "detail"));

    ck_assert_msg(reply.r.status == 200, "%s: %s", unmodelled[_i].body, text(&reply, "detail"));
    ck_assert_int_eq(json_type(json_get(reply.doc, "fits")), JSON_NULL);
    ck_assert_int_eq(json_type(json_get(first, "fits")), JSON_NULL);
    ck_assert_str_eq(json_str(json_get(json_get(first, "reason"), "code")), "not-modelled");
    ck_assert_msg(detail && strstr(detail, unmodelled[_i].detail), "%s: %s", unmodelled[_i].body, detail);
    ck_assert_int_eq(json_type(json_get(first, "memory")), JSON_ABSENT);
    ck_assert(!reply.r.fits && !reply.r.modelled);
    done(reply);
}
END_TEST

/* Spellings that people use, and the one that is answered: a path into `resolved`. */
static const struct {
    const char *body, *group, *member, *word;
    uint64_t number;
} spelled[] = {
    {TRAIN("\"precision\":\"bfloat16\""), "training", "precision", "bf16", 0},
    {TRAIN("\"precision\":\"Half\""), "training", "precision", "fp16", 0},
    {TRAIN("\"max_seq_length\":640"), "training", "seq_len", NULL, 640},
    {TRAIN("\"per_device_train_batch_size\":3"), "training", "micro_batch_size", NULL, 3},
    {TRAIN("\"micro_batch_size\":2,\"global_batch_size\":8"), "training", "gradient_accumulation_steps", NULL, 4},
    {TRAIN("\"optim\":\"ADAMW-torch\""), "training", "optimizer", "adamw_torch", 0},
    {TRAIN("\"attention\":null"), "training", "attention", "sdpa", 0},
    {"{" OPT ",\"cluster\":{\"gpu\":\"a100 40gb\",\"free_memory_bytes\":[\"30GB\",\"20GiB\"]}}", "cluster", "free_memory_bytes", NULL, UINT64_C(20) << 30},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2.2\",\"transformers\":\"4.40.0\"}}", "stack", "peft", "0.10", 0},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2.2\",\"transformers\":\"4.40.0\"}}", "training", "attention", "eager", 0},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2.2\",\"transformers\":\"4.40.0\"}}", "training", "optimizer", "adamw_torch", 0},
    {"{" OPT ",\"cluster\":{\"name\":\"Mahti\"}}", "cluster", "gpu", "A100-40GB SXM", 0},
    {"{" OPT ",\"cluster\":{\"name\":\"Mahti\"}}", "cluster", "gpus_per_node", NULL, 4},
    {"{" OPT "," GPU "}", "training", "optimizer", "adamw_torch_fused", 0},
    {"{" OPT "," GPU "}", "training", "seq_len", NULL, 2048},
};

START_TEST(resolves)
{
    struct reply reply = ask(spelled[_i].body);
    const struct json *v = json_get(json_get(json_get(reply.doc, "resolved"), spelled[_i].group), spelled[_i].member);
    uint64_t n = 0;

    ck_assert_msg(reply.r.status == 200, "%s: %s", spelled[_i].body, text(&reply, "detail"));
    if (spelled[_i].word)
        ck_assert_str_eq(json_str(v) ? json_str(v) : "(no string)", spelled[_i].word);
    else
        ck_assert_msg(json_uint64(v, &n) && n == spelled[_i].number, "%s: %llu", spelled[_i].body, (unsigned long long)n);
    done(reply);
}
END_TEST

START_TEST(names_what_it_ignored)
{
    struct reply reply = ask(TRAIN("\"learning_rate\":1e-4,\"a/b~c\":1"));
    const struct json *first = json_first(json_get(reply.doc, "warnings"));

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_str_eq(json_str(first), "/training/learning_rate is not known and was ignored");
    ck_assert_str_eq(json_str(json_next(first)), "/training/a~1b~0c is not known and was ignored");
    done(reply);
}
END_TEST

START_TEST(equal_requests_get_equal_bytes)
{
    struct reply a = ask(TRAIN("\"seq_len\":256")), b = ask(TRAIN("\"seq_len\":256"));

    ck_assert_int_eq(a.r.status, 200);
    ck_assert_uint_eq(a.r.bytes, b.r.bytes);
    ck_assert(!memcmp(a.r.body, b.r.body, a.r.bytes));
    done(a);
    done(b);
}
END_TEST

/* The largest micro-batch is that: it fits, and one more does not. */
START_TEST(a_larger_batch_than_the_largest_does_not_fit)
{
    struct reply searched = ask(TRAIN("\"seq_len\":1024,\"tuning\":\"full\",\"gradient_checkpointing\":false"));
    const struct json *c = json_first(json_get(searched.doc, "candidates"));
    uint64_t largest = 0;

    ck_assert(json_uint64(json_get(c, "max_micro_batch_size"), &largest) && largest > 1);
    for (uint64_t more = 0; more < 2; more++) {
        char body[256];
        struct reply reply;
        bool fits = more;

        (void)snprintf(body, sizeof body, TRAIN("\"seq_len\":1024,\"tuning\":\"full\",\"gradient_checkpointing\":false,\"micro_batch_size\":%llu"),
                       (unsigned long long)(largest + more));
        reply = ask(body);
        ck_assert(json_bool(json_get(reply.doc, "fits"), &fits));
        ck_assert_msg(fits == !more, "%s", body);
        done(reply);
    }
    done(searched);
}
END_TEST

START_TEST(says_what_is_missing)
{
    struct reply reply = ask("{\"model\":\"facebook/opt-13b\"," GPU ",\"training\":{\"tuning\":\"full\",\"micro_batch_size\":4}}");
    const struct json *c = json_first(json_get(reply.doc, "candidates"));
    bool fits = true;

    ck_assert(json_bool(json_get(reply.doc, "fits"), &fits) && !fits);
    ck_assert_str_eq(json_str(json_get(json_get(c, "reason"), "code")), "does-not-fit");
    ck_assert(strstr(json_str(json_get(json_get(c, "reason"), "detail")), "GiB more at"));
    ck_assert_int_eq(json_type(json_get(c, "memory")), JSON_OBJECT);
    ck_assert_int_eq(json_type(json_get(reply.doc, "recommendation")), JSON_NULL);
    done(reply);
}
END_TEST

/* Every allocation's turn to fail: an answer or a clean 503, whatever the room. */
START_TEST(survives_any_arena_size)
{
    for (size_t room = 0; room < 24 << 20; room = room < 4096 ? room + 97 : room + room / 7) {
        struct reply reply = ask_within(room + 1, "POST", "/estimate", NULL, TRAIN("\"seq_len\":64,\"micro_batch_size\":1,\"tuning\":\"full\",\"gradient_checkpointing\":false"));

        ck_assert_msg(reply.r.status == 200 || reply.r.status == 503, "room %zu: %d", room, reply.r.status);
        done(reply);
    }
}
END_TEST

/* --- around it ---------------------------------------------------------------------------------------------------------------- */

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
    {"GET", "/models/facebook/opt-125m", NULL, "", 200},
    {"GET", "/models/nobody/nothing", NULL, "", 404},
    {"GET", "/models/../../etc/passwd", NULL, "", 422},
    {"GET", "/models/", NULL, "", 404},
    {"GET", "/", NULL, "", 404},
    {"GET", "", NULL, "", 404},
    {"GET", "/estimates", NULL, "", 404},
    {"GET", "/estimate", NULL, "", 405},
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
    ck_assert(!strcmp(calls[_i].method, "PUT") ? !strcmp(reply.r.allow, "POST, GET, HEAD") : true);
    done(reply);
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
    done(reply);
}
END_TEST

UNIT_TESTS("api",
    unit_rows(refuses, refused);
    unit_test(refuses_names_of_any_length);
    unit_rows(answers_what_is_not_modelled, unmodelled);
    unit_rows(resolves, spelled);
    unit_test(names_what_it_ignored);
    unit_test(equal_requests_get_equal_bytes);
    unit_test(a_larger_batch_than_the_largest_does_not_fit);
    unit_test(says_what_is_missing);
    unit_test(survives_any_arena_size);
    unit_rows(routes, calls);
    unit_test(counts_every_parameter);
)
