/* target_modules: lists, words and regular expressions, as peft reads them (tuners/tuners_utils.py check_target_module_exists). */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LORA(targets) TRAIN("\"tuning\":\"lora\",\"micro_batch_size\":2,\"seq_len\":256,\"gradient_checkpointing\":false,\"lora\":{\"target_modules\":" targets "}")
#define ARGS(inner) "{" OPT "," GPU ",\"training_arguments\":{\"per_device_train_batch_size\":2,\"max_length\":256," inner "}}"

#define SKETCHED(lora)                                                                                                                                     \
    "{\"model\":\"THUDM/chatglm3-6b-32k\"," GPU ",\"training\":{\"methods\":\"single\",\"tuning\":\"lora\",\"micro_batch_size\":1,\"seq_len\":128," \
    "\"gradient_checkpointing\":false" lora "}}"

/* The same adapters, said in two ways. facebook/opt-125m: model.decoder.layers.N.self_attn.q_proj, .fc1, .. */
static const struct {
    const char *body, *list;
} same[] = {
    {LORA("\".*(q|v)_proj\""), LORA("[\"q_proj\",\"v_proj\"]")},
    {LORA("\".*\\\\.(q_proj|v_proj)$\""), LORA("[\"q_proj\",\"v_proj\"]")},
    {LORA("\"model\\\\.decoder\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.[qv]_proj\""), LORA("[\"q_proj\",\"v_proj\"]")},
    {LORA("\"(?!.*self_attn).*fc[12]\""), LORA("[\"fc1\",\"fc2\"]")},
    {LORA("\".*self_attn.*_proj|.*fc.\""), LORA("\"all-linear\"")},
    {LORA("\"all\""), LORA("\"all-linear\"")},
    {SKETCHED(""), SKETCHED(",\"lora\":{\"target_modules\":[\"q_proj\",\"k_proj\",\"v_proj\"]}")}, /* peft: query_key_value */
    {SKETCHED(",\"lora\":{\"target_modules\":[\"dense\",\"dense_h_to_4h\"]}"), SKETCHED(",\"lora\":{\"target_modules\":[\"o_proj\",\"gate_proj\",\"up_proj\"]}")},
    {ARGS("\"adapter\":\"lora\",\"lora_target_modules\":\".*(q|v)_proj\""), ARGS("\"adapter\":\"lora\",\"lora_target_modules\":[\"q_proj\",\"v_proj\"]")},
    {ARGS("\"finetuning_type\":\"lora\",\"lora_target\":\"q_proj,v_proj\""), ARGS("\"finetuning_type\":\"lora\",\"lora_target\":[\"q_proj\",\"v_proj\"]")},
};

START_TEST(means_the_same_modules)
{
    static const char *const paths[] = {"model/trainable_parameters", "recommendation/memory/peak_allocated_bytes", "recommendation/memory/peak_reserved_bytes"};
    struct reply a = ask(same[_i].body), b = ask(same[_i].list);

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char x[64], y[64];

        reply_value(&a, paths[i], x);
        reply_value(&b, paths[i], y);
        ck_assert_msg(!strcmp(x, y) && x[0] != '(', "%s: %s is %s, not %s: %.600s", same[_i].body, paths[i], x, y, a.r.body);
    }
    reply_done(a);
    reply_done(b);
}
END_TEST

#define MAMBA2(peft, targets)                                                                                                       \
    "{\"config\":{\"model_type\":\"mamba2\",\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":2,\"num_heads\":8," \
    "\"head_dim\":64,\"state_size\":32,\"n_groups\":1},\"cluster\":{\"gpu\":\"A100-80GB\"},\"stack\":{\"transformers\":\"5.23\",\"peft\":\"" peft "\"},"  \
    "\"training\":{\"seq_len\":64,\"methods\":\"single\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":" targets "}}}"

#define LLAMA4(transformers, targets)                                                                                                            \
    "{\"config\":{\"model_type\":\"llama4_text\",\"vocab_size\":1000,\"hidden_size\":256,\"intermediate_size\":256,\"intermediate_size_mlp\":512," \
    "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":32,\"num_local_experts\":4,\"num_experts_per_tok\":1," \
    "\"interleave_moe_layer_step\":1},\"cluster\":{\"gpu\":\"A100-80GB\"},\"stack\":{\"transformers\":\"" transformers "\"}," \
    "\"training\":{\"seq_len\":64,\"methods\":\"single\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":" targets "}}}"

static const struct {
    const char *body, *code, *says;
} refused[] = {
    {LORA("\"q_proj\""), "field-value", "no linear module"}, /* of a full name alone */
    {LORA("\".*(q_proj\""), "field-value", "( without its )"},
    {LORA("\".*\""), "field-value", "peft has no adapter"},
    {LORA("[\"self_attn\"]"), "field-value", "self_attn"},
    {LLAMA4("5.23", "\"all-linear\""), "field-value", "returns two tensors"},
    {LLAMA4("4.54", "[\"q_proj\",\"router\"]"), "field-value", "returns two tensors"},
    {LORA("[\"q_proj\",\"final_layer_norm\"]"), "field-value", "final_layer_norm"},
    {LORA("\"(a)\\\\1\""), "field-value", "backreferences"},
    {LORA("\"\""), "field-range", "1 to 1024"},
    {MAMBA2("0.21", "\"all-linear\""), "field-value", "peft raises for out_proj"},
    {MAMBA2("0.21", "[\"in_proj\",\"out_proj\"]"), "field-value", "_check_lora_target_modules_mamba"},
};

/* Without a release of peft: figures, and what they stand for. */
START_TEST(tells_what_a_release_would_refuse)
{
    struct reply reply = ask("{\"config\":{\"model_type\":\"mamba2\",\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":2,\"num_heads\":8,"
                             "\"head_dim\":64,\"state_size\":32,\"n_groups\":1},\"cluster\":{\"gpu\":\"A100-80GB\"},"
                             "\"training\":{\"seq_len\":64,\"methods\":\"single\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"all-linear\"}}}");
    double bytes;

    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &bytes), "%.400s", reply.r.body);
    ck_assert_ptr_nonnull(strstr(reply.r.body, "peft raises for adapters of out_proj"));
    reply_done(reply);
}
END_TEST

START_TEST(refuses)
{
    struct reply reply = ask(refused[_i].body);

    ck_assert_msg(reply.r.status == 422 && !strcmp(reply_text(&reply, "code"), refused[_i].code), "%s: %.600s", refused[_i].body, reply.r.body);
    ck_assert_str_eq(reply_text(&reply, "pointer"), "/training/lora/target_modules");
    ck_assert_msg(strstr(reply_text(&reply, "detail"), refused[_i].says), "%s", reply_text(&reply, "detail"));
    reply_done(reply);
}
END_TEST

/* Where adapters have no model. */
static const char *const gaps[] = {
    LORA("[\"q_proj\",\"embed_tokens\"]"),
};

/* Of some layers alone: no fewer layers stand for them. */
static const char *const uneven[] = {
    LORA("\"model\\\\.decoder\\\\.layers\\\\.[0-5]\\\\.self_attn\\\\.q_proj\""),
    LORA("\"model\\\\.decoder\\\\.layers\\\\.11\\\\..*q_proj\""),
    LORA("[\"3.self_attn.q_proj\"]"),
    LORA("[\"model.decoder.layers.0.self_attn.q_proj\"]"),
};

START_TEST(some_layers_hold_less_than_all)
{
    struct reply some = ask(uneven[_i]), all = ask(LORA("[\"q_proj\"]"));
    double a = 0, b = 0;

    (void)json_number(reply_at(&some, "recommendation/memory/static_bytes"), &a);
    (void)json_number(reply_at(&all, "recommendation/memory/static_bytes"), &b);
    ck_assert_msg(a > 0 && a < b, "%s: %.0f of %.0f: %.400s", uneven[_i], a, b, some.r.body);
    reply_done(some);
    reply_done(all);
}
END_TEST

START_TEST(gives_no_figures)
{
    struct reply reply = ask(gaps[_i]);

    ck_assert_msg(reply.r.status == 200, "%s: %.600s", gaps[_i], reply.r.body);
    ck_assert_str_eq(json_str(reply_at(&reply, "not_in_figures/0")) ? json_str(reply_at(&reply, "not_in_figures/0")) : "", "/training/lora/target_modules");
    ck_assert_int_eq(json_type(json_get(reply.doc, "fits")), JSON_NULL);
    reply_done(reply);
}
END_TEST

START_TEST(is_echoed_and_launched)
{
    struct reply reply = ask(LORA("\".*(q|v)_proj\""));
    char text[64];

    reply_value(&reply, "resolved/training/lora/target_modules", text);
    ck_assert_str_eq(text, ".*(q|v)_proj");
    reply_value(&reply, "recommendation/launch/lora_config/target_modules", text);
    ck_assert_str_eq(text, ".*(q|v)_proj");
    reply_done(reply);
}
END_TEST

#define EXPERTS(method, lora, more)                                                                                                                    \
    "{\"config\":{\"model_type\":\"mixtral\",\"hidden_size\":256,\"intermediate_size\":384,\"num_hidden_layers\":2,\"num_attention_heads\":4,"         \
    "\"num_key_value_heads\":2,\"num_local_experts\":4,\"vocab_size\":1000},\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":4},\"training\":{"        \
    "\"methods\":\"" method "\",\"micro_batch_size\":1,\"seq_len\":64,\"precision\":\"bf16-autocast\",\"tuning\":\"lora\",\"lora\":{" lora "}}" more "}"
#define ALL "\"target_modules\":\"all-linear\""
#define SMALL(config, method, training, more)                                                                                                         \
    "{\"config\":{\"hidden_size\":256,\"intermediate_size\":384,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,"     \
    "\"vocab_size\":1000," config "},\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":4},\"training\":{\"methods\":\"" method "\","           \
    "\"micro_batch_size\":1,\"seq_len\":64," training "}" more "}"
#define ADAPTED "\"precision\":\"bf16-autocast\",\"tuning\":\"lora\",\"lora\":{" ALL "}"
#define WAITS "\"precision\":\"bf16-mixed\",\"tuning\":\"full\",\"gradient_accumulation_steps\":2"
#define TIED "\"model_type\":\"llama\",\"tie_word_embeddings\":true"
#define LATENT                                                                                                                                         \
    "\"model_type\":\"deepseek_v3\",\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"n_group\":2,\"topk_group\":1,\"first_k_dense_replace\":1,"    \
    "\"moe_intermediate_size\":64,\"q_lora_rank\":64,\"kv_lora_rank\":32"
#define ERNIE "\"model_type\":\"ernie4_5_moe\",\"moe_num_experts\":4,\"moe_k\":2,\"moe_intermediate_size\":64"

/* Adapters that do not go with a method, a release or each other: why, and what to write instead. */
static const struct {
    const char *body, *says, *instead;
} apart[] = {
    {EXPERTS("fsdp", ALL, ""), "RuntimeError", "fsdp2"},
    {EXPERTS("zero3", ALL, ""), "zero3", "zero2"},
    {SMALL(TIED, "fsdp_no_shard", ADAPTED, ""), "tied embeddings of a frozen unit", "use_orig_params false"},
    {SMALL(TIED, "fsdp_no_shard", ADAPTED ",\"offload\":\"optimizer+params\"", ""), "with offload have no model", "a method that shards"},
    {SMALL(TIED, "fsdp_no_shard", WAITS, ""), "RuntimeError at tied embeddings", "sync_each_batch"},
    {SMALL(LATENT, "single", ADAPTED, ",\"stack\":{\"transformers\":\"5.10\",\"peft\":\"0.21\"}"), "e_score_correction_bias", "A later one"},
    {SMALL(ERNIE, "fsdp2", "\"precision\":\"bf16\",\"tuning\":\"full\"", ",\"stack\":{\"framework\":\"torch\"}"), "uniform original parameter dtype", "bf16-mixed"},
    {SMALL("\"model_type\":\"helium\",\"head_dim\":32", "single", "\"tuning\":\"full\"", ""), "shapes cannot be multiplied", "64x128 and 256x256"},
    {EXPERTS("ddp", ALL ",\"dropout\":0.1", ""), "lora_dropout != 0", "dropout 0"},
    {EXPERTS("ddp", ALL ",\"use_dora\":true", ""), "use_dora=True", "attention alone"},
    {EXPERTS("fsdp", "\"target_modules\":[\"q_proj\"],\"use_dora\":true", ""), "tuple index out of range", "fsdp2, ddp or ZeRO"},
    {SMALL("\"model_type\":\"llama\"", "tp", "\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\"],\"use_dora\":true}", ""), "mixed torch.Tensor and DTensor", "fsdp2, ddp or ZeRO"},
    {EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"use_dora\":true", ",\"stack\":{\"peft\":\"0.11\",\"transformers\":\"5.23\"}"), "before 0.12", "DoRA"},
    {EXPERTS("ddp", "\"target_modules\":[],\"target_parameters\":[\"input_layernorm.weight\"]", ""), "two or three", "dimensions"},
    {EXPERTS("ddp", "\"target_modules\":[],\"target_parameters\":[\"no_such\"]", ""), "no parameter", "such a name"},
    {EXPERTS("ddp", "\"target_modules\":[\"w1\"]", ""), "gate and up", "both or none"},
    {EXPERTS("ddp", ALL ",\"layers_to_transform\":[0]", ""), "target_modules` is a str", "a list of names"},
    {EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"layers_pattern\":[\"layers\"]", ""), "layers_to_transform", "alone"},
    {EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"layers_to_transform\":7", ""), "no linear module", "such a name"},
    {EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"rank_pattern\":{\"(q\":4}", ""), "without its )", "position 2"},
    {EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"exclude_modules\":[\"k_proj\"]", ",\"stack\":{\"peft\":\"0.13\",\"transformers\":\"4.48\"}"), "from 0.14", "raises"},
    {EXPERTS("single", "\"target_modules\":[],\"target_parameters\":[\"mlp.experts.down_proj\"]", ",\"stack\":{\"peft\":\"0.16\"}"), "from 0.17", "raises"},
    {EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"rank_pattern\":{\"q_proj|k\":4}", ",\"stack\":{\"peft\":\"0.13\",\"transformers\":\"4.48\"}"), "before peft 0.15", "for each"},
};

START_TEST(says_what_does_not_go_together)
{
    struct reply reply = ask(apart[_i].body);
    const char *why = reply_at(&reply, "candidates/0/reason/detail") ? json_str(reply_at(&reply, "candidates/0/reason/detail")) : reply_text(&reply, "detail");

    ck_assert_msg(why && strstr(why, apart[_i].says) && strstr(why, apart[_i].instead), "%s: %.700s", apart[_i].body, reply.r.body);
    reply_done(reply);
}
END_TEST

#define OLD ",\"stack\":{\"peft\":\"0.16\",\"transformers\":\"4.53\"}"

/* What a LoraConfig says beside its targets: elements that are trained; hidden 256, two layers, rank 8, four experts. */
static const struct {
    const char *body;
    double trainable;
} narrowed[] = {
    {EXPERTS("single", "\"target_modules\":[\"q_proj\"]", ""), 2 * 8 * 512},
    {EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[1]", ""), 8 * 512},
    {EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"layers_to_transform\":1,\"layers_pattern\":\"layers\"", ""), 8 * 512},
    {EXPERTS("single", "\"target_modules\":[\"q_proj\",\"k_proj\"],\"exclude_modules\":[\"k_proj\",\"0.self_attn.q_proj\"]", ""), 8 * 512},
    {EXPERTS("single", "\"target_modules\":\".*[qk]_proj\",\"exclude_modules\":\".*k_proj\"", ""), 2 * 8 * 512},
    {EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"rank_pattern\":{\"q_proj\":2,\"0.self_attn.q_proj\":4}", ""), 2 * 2 * 512}, /* the first key that fits */
    {EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"rank_pattern\":{\"0.self_attn.q_proj\":4,\"q_proj\":2}", ""), (4 + 2) * 512},
    {EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"rank_pattern\":{\"_proj\":4}", ""), 2 * 8 * 512}, /* whole parts of a name */
    {EXPERTS("single", "\"target_modules\":[\"w1\"],\"layers_to_transform\":[0]", OLD), 2 * 8 * 640}, /* the last number: an expert's, of both layers */
};

START_TEST(is_narrowed)
{
    struct reply reply = ask(narrowed[_i].body);
    char n[64];

    reply_value(&reply, "model/trainable_parameters", n);
    ck_assert_msg(strtod(n, NULL) == narrowed[_i].trainable, "%s: %s, not %.0f", narrowed[_i].body, n, narrowed[_i].trainable);
    ck_assert_msg(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), "%s: %.500s", narrowed[_i].body, reply.r.body);
    reply_done(reply);
}
END_TEST

/* Less that is adapted is never more that is held: at the same place fewer layers, a lower rank, what is left out. */
START_TEST(narrower_holds_less)
{
    static const char *const less[] = {",\"layers_to_transform\":[1]", ",\"exclude_modules\":[\"0.self_attn.q_proj\"]", ",\"rank_pattern\":{\"q_proj\":2}"};
    char body[1200], all[64], some[64];

    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        struct reply a = ask(EXPERTS("ddp", "\"target_modules\":[\"q_proj\",\"v_proj\"]", "")), b;

        (void)snprintf(body, sizeof body, EXPERTS("ddp", "\"target_modules\":[\"q_proj\",\"v_proj\"]%s", ""), less[i]);
        b = ask(body);
        reply_value(&a, "recommendation/memory/resting_bytes", all);
        reply_value(&b, "recommendation/memory/resting_bytes", some);
        ck_assert_msg(strtod(some, NULL) > 0 && strtod(some, NULL) < strtod(all, NULL), "%s: %s, %s", less[i], some, all);
        reply_value(&a, "recommendation/memory/peak_allocated_bytes", all);
        reply_value(&b, "recommendation/memory/peak_allocated_bytes", some);
        ck_assert_msg(strtod(some, NULL) <= strtod(all, NULL), "%s: %s, %s", less[i], some, all);
        reply_done(a);
        reply_done(b);
    }
}
END_TEST

/* Of one layer alone: no fewer layers stand for it. */
START_TEST(adapts_tensors_of_some_layers)
{
    struct reply one = ask(EXPERTS("single", ALL ",\"target_parameters\":[\"1.self_attn.no\"]", "")),
                 some = ask(EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"target_parameters\":[\"1.mlp.experts.down_proj\"]", "")),
                 all = ask(EXPERTS("single", "\"target_modules\":[\"q_proj\"],\"target_parameters\":[\"mlp.experts.down_proj\"]", ""));
    char x[64], y[64];

    ck_assert_int_eq(one.r.status, 200); /* peft only warns */
    reply_value(&some, "model/trainable_parameters", x);
    reply_value(&all, "model/trainable_parameters", y);
    ck_assert_msg(strtod(x, NULL) > 0 && strtod(x, NULL) < strtod(y, NULL), "%s, %s", x, y);
    reply_value(&some, "recommendation/memory/peak_allocated_bytes", x);
    reply_value(&all, "recommendation/memory/peak_allocated_bytes", y);
    ck_assert_msg(strtod(x, NULL) > 0 && strtod(x, NULL) < strtod(y, NULL), "%s, %s", x, y);
    reply_done(one);
    reply_done(some);
    reply_done(all);
}
END_TEST

START_TEST(adapts_tensors_by_either_name)
{
    struct reply a = ask(EXPERTS("ddp", "\"target_modules\":[\"q_proj\",\"w2\"]", "")),
                 b = ask(EXPERTS("ddp", "\"target_modules\":[\"q_proj\"],\"target_parameters\":[\"experts.down_proj\"]", ""));
    char x[64], y[64];

    reply_value(&a, "model/trainable_parameters", x);
    reply_value(&b, "model/trainable_parameters", y);
    ck_assert_str_eq(x, y);
    reply_value(&a, "recommendation/memory/peak_allocated_bytes", x);
    reply_value(&b, "recommendation/memory/peak_allocated_bytes", y);
    ck_assert_str_eq(x, y);
    ck_assert_msg(x[0] != '(', "%.600s", a.r.body);
    reply_done(a);
    reply_done(b);
}
END_TEST

/* Biases beside adapters: of qwen2 q, k and v have one, of llama nobody; FSDP1's units are of one kind. */
static const struct {
    const char *model, *method, *bias, *says;
} biases[] = {
    {"Qwen/Qwen2-0.5B", "single", "all", "peak_allocated_bytes"},
    {"meta-llama/Llama-3.2-1B", "single", "all", "no module of this model has a bias"},
    {"Qwen/Qwen2-0.5B", "single", "lora_only", "no adapted module of this model has a bias"},
    {"Qwen/Qwen2-0.5B", "fsdp", "all", "Must flatten tensors with uniform"},
    {"Qwen/Qwen2-0.5B", "zero2", "all", "under zero2 are not modelled yet"},
};

START_TEST(biases_train_beside_adapters)
{
    char body[400];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"%s\",\"tuning\":\"lora\",\"micro_batch_size\":1,"
                   "\"seq_len\":128,\"lora\":{\"target_modules\":[\"o_proj\"],\"bias\":\"%s\"}}}",
                   biases[_i].model, biases[_i].method, biases[_i].bias);
    reply = ask(body);
    ck_assert_msg(strstr(reply.r.body, biases[_i].says), "%s: %s", body, reply.r.body);
    reply_done(reply);
}
END_TEST

/* Of a model that tensor parallelism has cut: as real stacks run it or raise, release by release (rows: adapters.jsonl, pipelines.jsonl). */
static const struct {
    const char *type, *targets, *transformers, *peft, *says; /* NULL: it has figures */
} parts[] = {
    {"llama", "[\"q_proj\",\"v_proj\"]", "5.23", "0.21", NULL},
    {"llama", "[\"o_proj\"]", "5.23", "0.21", "a rank's part: RuntimeError"},
    {"llama", "[\"o_proj\"]", "5.20", "0.21", NULL},
    {"llama", "[\"o_proj\"]", "5.23", "0.20", NULL},
    {"llama", "[\"q_proj\"]", "5.23", "0.17", "peft before 0.18"},
    {"llama", "[\"q_proj\"]", "5.16", "0.21", "requires transformers >= 5.17.0"},
    {"olmo2", "[\"q_proj\"]", "5.23", "0.21", "gathers what goes into or comes out of q_proj"},
    {"olmo2", "[\"o_proj\"]", "5.20", "0.20", "gathers what goes into or comes out of o_proj"},
    {"qwen2_moe", "[\"q_proj\"]", "5.20", "0.21", "no tensor parallel plan for qwen2_moe, or another"},
};

START_TEST(adapts_what_is_cut)
{
    char body[900];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"config\":{\"model_type\":\"%s\",\"hidden_size\":256,\"intermediate_size\":512,\"moe_intermediate_size\":128,\"num_experts\":4,"
                   "\"num_experts_per_tok\":2,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"vocab_size\":1000,"
                   "\"tie_word_embeddings\":false,\"pad_token_id\":0},\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"stack\":{\"transformers\":"
                   "\"%s\",\"peft\":\"%s\"},\"training\":{\"methods\":\"tp\",\"tuning\":\"lora\",\"micro_batch_size\":1,\"seq_len\":128,\"lora\":"
                   "{\"target_modules\":%s}}}",
                   parts[_i].type, parts[_i].transformers, parts[_i].peft, parts[_i].targets);
    reply = ask(body);
    ck_assert_msg(strstr(reply.r.body, parts[_i].says ? parts[_i].says : "peak_allocated_bytes") != NULL, "%s: %s", body, reply.r.body);
    ck_assert_msg(!parts[_i].says || !strstr(reply.r.body, "peak_allocated_bytes"), "%s: %s", body, reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/targets",
    unit_rows(means_the_same_modules, same);
    unit_test(tells_what_a_release_would_refuse); unit_rows(refuses, refused);
    unit_rows(gives_no_figures, gaps); unit_rows(some_layers_hold_less_than_all, uneven);
    unit_rows(says_what_does_not_go_together, apart); unit_test(adapts_tensors_of_some_layers); unit_test(adapts_tensors_by_either_name);
    unit_test(is_echoed_and_launched); unit_rows(is_narrowed, narrowed); unit_test(narrower_holds_less); unit_rows(biases_train_beside_adapters, biases);
    unit_rows(adapts_what_is_cut, parts);)
