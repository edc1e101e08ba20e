/* GET /estimate: the same question as a POST, and whose fault it is when it cannot be asked. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <string.h>

#define G "/estimate?model=facebook/opt-125m&gpu=A100-40GB&"

static const struct {
    const char *path, *body;
} same[] = {
    {G "", "{" OPT "," GPU "}"},
    {"/estimate?gpu=A100-40GB&&model=facebook%2Fopt-125m&seq_len=&", "{" OPT "," GPU "}"},
    {"/estimate?cluster.gpu=A100+40GB&model=facebook/opt-125m&training.seq_len=512", "{" OPT ",\"cluster\":{\"gpu\":\"A100 40GB\"},\"training\":{\"seq_len\":512}}"},
    {"/estimate?model=facebook/opt-125m&cluster=mahti&nodes=1", "{" OPT ",\"cluster\":{\"name\":\"mahti\",\"nodes\":1}}"},
    {"/estimate?model=facebook/opt-125m&name=mahti", "{" OPT ",\"cluster\":{\"name\":\"mahti\"}}"},
    {"/estimate?model=facebook/opt-125m&gpu.memory_bytes=16GB&gpu.compute_capability=8.0",
     "{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":\"16GB\",\"compute_capability\":\"8.0\"}}}"},
    {G "gpus=8&methods=tp%2Bfsdp2,ddp", "{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":8},\"training\":{\"methods\":[\"tp+fsdp2\",\"ddp\"]}}"},
    {G "methods=tp+fsdp2", TRAIN("\"methods\":\"tp+fsdp2\"")},
    {G "offload=optimizer+params", TRAIN("\"offload\":\"optimizer+params\"")},
    {G "precision=bf16+mixed", TRAIN("\"precision\":\"bf16-mixed\"")},
    {G "tuning=full,lora&lora.rank=16", TRAIN("\"tuning\":[\"full\",\"lora\"],\"lora\":{\"rank\":16}")},
    {G "tuning=full&tuning=lora", TRAIN("\"tuning\":[\"full\",\"lora\"]")},
    {G "tuning=lora&lora.target_modules=q_proj,v_proj", TRAIN("\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\",\"v_proj\"]}")},
    {G "tuning=lora&lora.target_modules=all-linear", TRAIN("\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"all-linear\"}")},
    {G "gradient_checkpointing=true,false&padded=on", TRAIN("\"gradient_checkpointing\":[true,false],\"padded\":true")},
    {G "attention_mask=false", TRAIN("\"attention_mask\":false")},
    {G "max_grad_norm=0.5&seq_len=256", TRAIN("\"max_grad_norm\":0.5,\"seq_len\":256")},
    {G "max_length=256", TRAIN("\"max_length\":256")},
    {G "free_memory_bytes=30GB,20GiB", "{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"free_memory_bytes\":[\"30GB\",\"20GiB\"]}}"},
    {G "torch=2.2&transformers=4.40", "{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2\",\"transformers\":\"4.40\"}}"},
    {G "objective=least_memory&margin=0.1&expandable_segments=true",
     "{" OPT "," GPU ",\"objective\":\"least_memory\",\"margin\":0.1,\"allocator\":{\"expandable_segments\":true}}"},
    {G "buckets.ddp_bytes=1048576&fsdp.wrap=layers", TRAIN("\"buckets\":{\"ddp_bytes\":1048576},\"fsdp\":{\"wrap\":\"layers\"}")},
    {G "config={\"vocab_size\":50304}", "{" OPT "," GPU ",\"config\":{\"vocab_size\":50304}}"},
    {G "config.vocab_size=50304", "{" OPT "," GPU ",\"config\":{\"vocab_size\":50304}}"},
    {G "inference.tensor_parallel=2", "{" OPT "," GPU ",\"inference\":{\"tensor_parallel\":2}}"},
    {G "variant=paper", "{" OPT "," GPU ",\"llmem\":{\"variant\":\"paper\"}}"},
    {G "learning_rate=1e-4", "{" OPT "," GPU ",\"learning_rate\":1e-4}"},
};

START_TEST(means_the_same)
{
    struct reply get = ask_get(same[_i].path), post = ask(same[_i].body);

    ck_assert_msg(get.r.status == 200, "%s: %.400s", same[_i].path, get.r.body);
    ck_assert_msg(get.r.bytes == post.r.bytes && !memcmp(get.r.body, post.r.body, get.r.bytes), "%s", same[_i].path);
    ck_assert(get.r.max_age_s && get.r.max_age_s == post.r.max_age_s);
    ck_assert_uint_eq(get.needs.n, 1);
    reply_done(get);
    reply_done(post);
}
END_TEST

static const struct {
    const char *path;
    int status;
    const char *code, *pointer, *parameter;
} blamed[] = {
    {"/estimate", 422, "field-missing", "/model", "model"},
    {"/estimate?model=facebook/opt-125m", 422, "field-missing", "/cluster/gpu", "gpu"},
    {"/estimate?model=../x&gpu=T4", 422, "field-value", "/model", "model"},
    {"/estimate?model=nobody/nothing&gpu=T4", 404, "model-not-found", "/model", "model"},
    {G "revision=a/../b", 422, "field-value", "/revision", "revision"},
    {G "seq_len=0", 422, "field-range", "/training/seq_len", "seq_len"},
    {G "seq_len=1e3", 200, "", "", ""},
    {G "seq_len=abc", 422, "field-type", "/training/seq_len", "seq_len"},
    {G "max_length=-1", 422, "field-range", "/training/seq_len", "max_length"},
    {G "seq_len=1&max_length=2", 422, "field-conflict", "/training/seq_len", "seq_len"},
    {G "seq_len=1&seq_len=1", 422, "field-conflict", "/training/seq_len", "seq_len"},
    {G "training.lora.rank=0", 422, "field-range", "/training/lora/rank", "training.lora.rank"},
    {G "lora=16", 422, "field-type", "/training/lora", "lora"},
    {G "tuning=full,half", 422, "field-value", "/training/tuning/1", "tuning"},
    {G "gpu.memory_bytes=1GB", 422, "field-conflict", "/cluster/gpu", "gpu"},
    {"/estimate?model=facebook/opt-125m&gpu.multiprocessors=8", 422, "field-missing", "/cluster/gpu/memory_bytes", "gpu.memory_bytes"},
    {G "config=[]", 422, "field-type", "/config", "config"},
    {G "config={", 422, "field-value", "/config", "config"},
    {G "padded=on&attention_mask=off", 422, "field-conflict", "/training/attention_mask", "attention_mask"},
    {G "padded=perhaps", 422, "field-type", "/training/padded", "padded"},
    {G "micro_batch_size=5&global_batch_size=128", 422, "field-conflict", "/training/global_batch_size", "global_batch_size"},
    {G "top=0", 422, "field-range", "", "top"},
    {G "top=1&top=2", 422, "field-conflict", "", "top"},
    {G "launch=some", 422, "field-value", "", "launch"},
    {G "timeline=x", 422, "field-type", "", "timeline"},
    {G "seq_len=%", 400, "malformed-request", "", ""},
    {G "seq_len=%4", 400, "malformed-request", "", ""},
    {G "seq_len=%zz", 400, "malformed-request", "", ""},
    {G "seq_len=%ff", 400, "malformed-request", "", ""},
    {G "seq_len=%00", 400, "malformed-request", "", ""},
    {G "%c3%28=1", 400, "malformed-request", "", ""},
};

START_TEST(names_the_parameter)
{
    struct reply reply = ask_get(blamed[_i].path);

    ck_assert_msg(reply.r.status == blamed[_i].status && !strcmp(reply_text(&reply, "code"), blamed[_i].code) &&
                      !strcmp(reply_text(&reply, "pointer"), blamed[_i].pointer) && !strcmp(reply_text(&reply, "parameter"), blamed[_i].parameter),
                  "%s: %.500s", blamed[_i].path, reply.r.body);
    reply_done(reply);
}
END_TEST

/* The shape of the answer may be asked of a POST too, of which nothing else is a parameter. */
START_TEST(shapes_the_answer)
{
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", "/estimate?top=1&seq_len=3&launch=all&timeline=true", NULL, TRAIN("\"seq_len\":64"));
    uint64_t total = 0;

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_uint_eq(json_count(json_get(reply.doc, "candidates")), 1);
    ck_assert(json_uint64(json_get(reply.doc, "candidates_total"), &total) && total == 2);
    ck_assert(strstr(json_str(reply_at(&reply, "warnings/0")), "seq_len is not known"));
    ck_assert(json_get(reply_at(&reply, "timeline"), "at"));
    reply_done(reply);
}
END_TEST

START_TEST(a_model_by_revision)
{
    struct reply reply = ask_get("/models/facebook/opt-125m?revision=refs/pr/7&x=1");

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_str_eq(reply.needs.v->revision, "refs/pr/7");
    ck_assert_str_eq(reply_text(&reply, "revision"), "refs/pr/7");
    ck_assert_uint_eq(json_count(json_get(reply.doc, "warnings")), 2); /* x, and that the builtin config is main's */
    reply_done(reply);
    reply = ask_get("/models/facebook/opt-125m?revision=../x");
    ck_assert_int_eq(reply.r.status, 422);
    ck_assert_str_eq(reply_text(&reply, "parameter"), "revision");
    ck_assert_uint_eq(reply.needs.n, 0);
    reply_done(reply);
}
END_TEST

START_TEST(survives_any_arena_size)
{
    for (size_t room = 0; room < 24 << 20; room = room < 4096 ? room + 97 : room + room / 7) {
        struct reply reply = ask_within(room + 1, "GET", G "seq_len=64&micro_batch_size=1&tuning=full&gradient_checkpointing=false", NULL, "");

        ck_assert_msg(reply.r.status == 200 || reply.r.status == 503, "room %zu: %d", room, reply.r.status);
        reply_done(reply);
    }
}
END_TEST

UNIT_TESTS("api/query",
    unit_rows(means_the_same, same);
    unit_rows(names_the_parameter, blamed);
    unit_test(shapes_the_answer);
    unit_test(a_model_by_revision);
    unit_test(survives_any_arena_size);
)
