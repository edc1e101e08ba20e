/* A file of each framework, as its documentation has it, posted as a user would: what it becomes, and what is said where it is not read. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 4096 };

static const struct file {
    const char *name, *model, *framework; /* NULL: member */
    const char *member;
    struct {
        const char *path, *value;
    } means[9];
} files[] = {
    {"axolotl_qlora.yaml", "meta-llama/Llama-3.2-1B", "axolotl", NULL,
     {{"training/tuning", "qlora"}, {"training/quantization", "nf4-dq"}, {"training/optimizer", "adamw_bnb_8bit"}, {"training/packing", "true"},
      {"training/attention", "flash_attention_2"}, {"training/lora/target_modules", "all-linear"}, {"training/precision", "bf16-autocast"},
      {"training/micro_batch_size", "2"}, {"training/gradient_checkpointing", "true"}}},
    {"llama_factory_lora.yaml", "meta-llama/Meta-Llama-3-8B", "llama_factory", NULL,
     {{"training/tuning", "lora"}, {"training/lora/target_modules", "all-linear"}, {"training/seq_len", "2048"}, {"training/precision", "bf16-autocast"},
      {"training/micro_batch_size", "1"}, {"training/gradient_accumulation_steps", "8"}, {"training/gradient_checkpointing", "true"},
      {"training/checkpoint_reentrant", "true"}}},
    {"llama_factory_train.sh", "Qwen/Qwen3-8B", "llama_factory", NULL,
     {{"training/tuning", "full"}, {"training/seq_len", "1536"}, {"training/precision", "bf16-mixed"}, {"training/micro_batch_size", "1"},
      {"training/gradient_accumulation_steps", "4"}, {"training/gradient_checkpointing", "true"}}},
    {"oumi_qlora.yaml", "meta-llama/Meta-Llama-3-8B", "oumi", NULL,
     {{"training/tuning", "lora"}, {"training/quantization", "nf4"}, {"training/methods/0", "fsdp"}, {"training/micro_batch_size", "2"}}},
    {"trl_sft.yaml", "Qwen/Qwen2-0.5B", "trl", NULL,
     {{"training/tuning", "lora"}, {"training/seq_len", "1024"}, {"training/precision", "bf16-mixed"}, {"training/loss", "chunked_nll"},
      {"training/packing", "true"}, {"training/gradient_checkpointing", "true"}, {"training/lora/rank", "32"}, {"training/attention", "flash_attention_2"}}},
    {"ms_swift.yaml", "Qwen/Qwen2.5-7B-Instruct", "swift", NULL,
     {{"training/tuning", "lora"}, {"training/lora/rank", "8"}, {"training/lora/target_modules", "all-linear"}, {"training/seq_len", "2048"},
      {"training/precision", "bf16-autocast"}, {"training/micro_batch_size", "1"}, {"training/gradient_accumulation_steps", "16"},
      {"training/gradient_checkpointing", "true"}, {"training/checkpoint_reentrant", "false"}}},
    {"oumi_lora.yaml", "meta-llama/Meta-Llama-3-8B", "oumi", NULL,
     {{"training/tuning", "lora"}, {"training/seq_len", "2048"}, {"training/precision", "bf16"}, {"training/methods/0", "fsdp"},
      {"training/optimizer", "adamw_torch_fused"}, {"training/max_grad_norm", "0.1"}, {"training/gradient_checkpointing", "true"},
      {"training/checkpoint_reentrant", "false"}, {"training/micro_batch_size", "2"}}},
    {"open_instruct_lora.yaml", "meta-llama/Llama-2-7b-hf", "open-instruct", NULL,
     {{"training/tuning", "lora"}, {"training/lora/rank", "64"}, {"training/lora/target_modules/0", "q_proj"}, {"training/seq_len", "4096"},
      {"training/precision", "bf16"}, {"training/max_grad_norm", "0"}, {"training/optimizer", "adamw_torch_fused"},
      {"training/gradient_checkpointing", "true"}}},
    {"training_arguments.yaml", "Qwen/Qwen2-0.5B", NULL, "training_arguments",
     {{"training/micro_batch_size", "4"}, {"training/precision", "bf16-autocast"}, {"training/gradient_checkpointing", "true"},
      {"training/checkpoint_reentrant", "false"}, {"training/optimizer", "adamw_torch_fused"}}},
    {"accelerate_fsdp2.yaml", "Qwen/Qwen2-0.5B", NULL, "accelerate_config",
     {{"training/methods/0", "fsdp2"}, {"cluster/gpus_per_node", "8"}, {"training/precision", "bf16-mixed"}, {"training/gradient_checkpointing", "true"}}},
    {"deepspeed_zero3.json", "Qwen/Qwen2-0.5B", NULL, "deepspeed_config",
     {{"training/methods/0", "zero3"}, {"training/offload", "optimizer"}, {"training/buckets/reduce_elems", "802816"},
      {"training/buckets/max_live_elems", "1000000000"}}},
};

static void read_file(const char *name, char text[TEXT_MOST])
{
    char path[128];
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof path, "tests/data/frameworks/%s", name);
    f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    n = fread(text, 1, TEXT_MOST - 1, f);
    ck_assert(n > 0 && n < TEXT_MOST - 1);
    text[n] = 0;
    (void)fclose(f);
}

/* A text as JSON writes it. */
static void quote(const char *s, char out[2 * TEXT_MOST])
{
    char *o = out;

    *o++ = '"';
    for (; *s; s++) {
        if (*s == '"' || *s == '\\' || *s == '\n')
            *o++ = '\\';
        *o++ = *s;
        if (*s == '\n')
            o[-1] = 'n';
    }
    *o++ = '"';
    *o = 0;
}

static struct reply post(const char *name, const char *model, const char *framework, const char *member)
{
    char text[TEXT_MOST], quoted[2 * TEXT_MOST], body[3 * TEXT_MOST];
    const char *cluster = "\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":8,\"host_memory_bytes_per_node\":1099511627776}";

    read_file(name, text);
    quote(text, quoted);
    if (framework)
        (void)snprintf(body, sizeof body, "{\"model\":\"%s\",%s,\"framework_config\":{\"framework\":\"%s\",\"text\":%s}}", model, cluster, framework, quoted);
    else
        (void)snprintf(body, sizeof body, "{\"model\":\"%s\",%s,\"%s\":%s}", model, cluster, member, quoted);
    return ask(body);
}

/* Whole: nothing of it is unknown, nothing is left out of the figures, and the first candidate has them. */
START_TEST(is_read_whole)
{
    const struct file *f = &files[_i];
    struct reply reply = post(f->name, f->model, f->framework, f->member);
    char path[128], text[64];

    ck_assert_msg(reply.r.status == 200, "%s: %s %s", f->name, reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    for (size_t i = 0; i < sizeof f->means / sizeof *f->means && f->means[i].path; i++) {
        (void)snprintf(path, sizeof path, "resolved/%s", f->means[i].path);
        reply_value(&reply, path, text);
        ck_assert_msg(!strcmp(text, f->means[i].value), "%s: %s is %s", f->name, path, text);
    }
    ck_assert_msg(json_count(json_get(reply.doc, "ignored")) == 0, "%s: %s", f->name, json_str(reply_at(&reply, "ignored/0")));
    ck_assert_msg(json_count(json_get(reply.doc, "not_in_figures")) == 0, "%s: %s", f->name, json_str(reply_at(&reply, "not_in_figures/0")));
    ck_assert_msg(json_type(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes")) == JSON_NUMBER, "%s", f->name);
    reply_done(reply);
}
END_TEST

static const struct {
    const char *name, *framework;
} unread[] = {{"torchtune_lora.yaml", "torchtune"}, {"torchtune_lora.yaml", "unsloth"}, {"torchtune_lora.yaml", "litgpt"}};

/* No figures, and what to write instead. */
START_TEST(says_what_to_write)
{
    struct reply reply = post(unread[_i].name, "Qwen/Qwen2-0.5B", unread[_i].framework, NULL);
    const char *warning = json_str(reply_at(&reply, "warnings/0")), *gap = json_str(reply_at(&reply, "not_in_figures/0"));

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(gap && !strcmp(gap, "/framework_config/framework"), "%s", gap);
    ck_assert_msg(warning && strstr(warning, unread[_i].framework) && strstr(warning, "training_arguments"), "%s", warning);
    ck_assert_int_eq(json_type(reply_at(&reply, "candidates/0/memory")) == JSON_OBJECT, 0);
    reply_done(reply);
}
END_TEST

#define FILE_OF(framework, text) "{" OPT "," GPU ",\"framework_config\":{\"framework\":\"" framework "\",\"text\":\"" text "\"}}"

/* What a tool's file means where it says nothing, and what it may say otherwise. */
static const struct {
    const char *body, *path, *value;
} left_out[] = {
    {FILE_OF("axolotl", "adapter: lora\\n"), "training/seq_len", "512"},
    {FILE_OF("axolotl", "adapter: lora\\n"), "training/micro_batch_size", "1"},
    {FILE_OF("axolotl", "adapter: lora\\n"), "training/gradient_checkpointing", "false"},
    {FILE_OF("axolotl", "adapter: lora\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("axolotl", "bf16: false\\n"), "training/precision", "fp32"},
    {FILE_OF("axolotl", "adapter: lora\\nlora_target_linear: true\\nfp16: true\\n"), "training/precision", "fp16-autocast"},
    {FILE_OF("axolotl", "adapter: lora\\nlora_target_linear: true\\nbf16: auto\\nfp16: true\\n"), "training/precision", "fp16-autocast"},
    {FILE_OF("axolotl", "bf16: true\\nfp16: true\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("axolotl", "bf16: auto\\nfp16:\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("ms-swift", "max_length: 512\\n"), "training/tuning", "lora"},
    {FILE_OF("ms-swift", "max_length: 512\\n"), "training/micro_batch_size", "1"},
    {FILE_OF("ms-swift", "max_length: 512\\n"), "training/gradient_accumulation_steps", "16"},
    {FILE_OF("ms-swift", "per_device_train_batch_size: 3\\n"), "training/gradient_accumulation_steps", "6"},
    {FILE_OF("ms-swift", "max_length: 512\\n"), "training/gradient_checkpointing", "true"},
    {FILE_OF("ms-swift", "max_length: 512\\n"), "training/checkpoint_reentrant", "true"},
    {FILE_OF("ms-swift", "max_length: 512\\n"), "training/precision", "fp16-autocast"}, /* opt is saved in fp16 */
    {FILE_OF("ms-swift", "torch_dtype: bfloat16\\ntrain_type: full\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("ms-swift", "torch_dtype: float32\\n"), "training/precision", "fp16-mixed"},
    {FILE_OF("ms-swift", "quant_method: bnb\\nquant_bits: 4\\n"), "training/quantization", "nf4-dq"},
    {FILE_OF("ms-swift", "quant_method: bnb\\nquant_bits: 4\\nbnb_4bit_use_double_quant: false\\n"), "training/quantization", "nf4"},
    {FILE_OF("ms-swift", "swift sft --lora_rank 16 --target_modules q_proj v_proj"), "training/lora/target_modules/1", "v_proj"},
    {FILE_OF("ms-swift", "swift sft --lora-rank=16"), "training/lora/rank", "16"},
    {FILE_OF("ms-swift", "n=2\\nswift sft --gradient_accumulation_steps $(expr 32 / $n)"), "training/gradient_accumulation_steps", "16"},
    {FILE_OF("ms-swift", "n=2\\nm=4\\nswift sft --gradient_accumulation_steps $(expr 32 / $n / $m)"), "training/gradient_accumulation_steps", "4"},
    {FILE_OF("open-instruct", "ALL=128\\nN=$(($ALL/8/4))\\npython open_instruct/finetune.py --gradient_accumulation_steps $N"), "training/gradient_accumulation_steps", "4"},
    {FILE_OF("open-instruct", "use_qlora: true\\nuse_lora: true\\n"), "training/optimizer", "paged_adamw_32bit"},
    {FILE_OF("open-instruct", "max_seq_length: 512\\n"), "training/precision", "bf16"},
    {FILE_OF("open-instruct", "max_seq_length: 512\\n"), "training/tuning", "full"},
    {FILE_OF("oumi", "training:\\n  per_device_train_batch_size: 2\\n"), "training/precision", "fp16"},
    {FILE_OF("oumi", "training: {use_peft: true}\\npeft: {q_lora: true}\\n"), "training/quantization", "fp4"},
    {FILE_OF("oumi", "training: {mixed_precision_dtype: BF16}\\nmodel: {torch_dtype_str: float32}\\n"), "training/precision", "bf16-mixed"},
    {FILE_OF("trl", "packing: false\\n"), "training/micro_batch_size", "8"},
    {FILE_OF("trl", "packing: false\\n"), "training/precision", "bf16-mixed"},
    {FILE_OF("trl", "dtype: bfloat16\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("trl", "use_peft: true\\nload_in_4bit: true\\n"), "training/quantization", "nf4"},
    {FILE_OF("trl", "use_peft: true\\nload_in_4bit: true\\nuse_bnb_nested_quant: true\\n"), "training/quantization", "nf4-dq"},
    {FILE_OF("trl", "use_peft: true\\nload_in_4bit: true\\nbnb_4bit_quant_type: fp4\\n"), "training/quantization", "fp4"},
    {FILE_OF("axolotl", "adapter: qlora\\nload_in_4bit: true\\n"), "training/quantization", "nf4-dq"},
    {FILE_OF("trl", "load_in_4bit: false\\n"), "training/quantization", "none"},
    {FILE_OF("trl", "bf16: false\\n"), "training/precision", "fp32"},
    {FILE_OF("trl", "fp16: true\\n"), "training/precision", "fp16-mixed"},
    {FILE_OF("trl", "use_liger_kernel: true\\n"), "training/loss", "chunked_nll"}, /* trl 1.16 leaves its own head where it is */
    {FILE_OF("trl", "router_aux_loss_coef: 0.01\\n"), "training/loss", "chunked_nll"},
    {FILE_OF("axolotl", "reward_model: true\\nnum_labels: 1\\n"), "training/stage", "reward"},
    {FILE_OF("axolotl", "reward_model: false\\n"), "training/stage", "sft"},
    {FILE_OF("axolotl", "liger_rms_norm_gated: true\\n"), "training/stage", "sft"},
    {FILE_OF("ms-swift", "swift sft --loss_scale last_round+ignore_empty_think"), "training/stage", "sft"},
    {FILE_OF("ms-swift", "swift sft --loss_scale hermes --is_binary_loss_scale true"), "training/stage", "sft"},
    {FILE_OF("axolotl", "experts_implementation: grouped_mm\\n"), "training/stage", "sft"},
    {FILE_OF("trl", "gradient_checkpointing: false\\nmax_length: 640\\n"), "training/gradient_checkpointing", "false"},
    {"{" GPU ",\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"base_model: facebook/opt-125m\\n\"}}", "model", "facebook/opt-125m"},
    {"{" GPU ",\"framework_config\":{\"framework\":\"ms-swift\",\"text\":\"swift sft --model facebook/opt-125m\"}}", "model", "facebook/opt-125m"},
    {"{" GPU ",\"framework_config\":{\"framework\":\"oumi\",\"text\":\"model: {model_name: facebook/opt-125m}\\n\"}}", "model", "facebook/opt-125m"},
    {"{" GPU ",\"training_arguments\":\"model_name_or_path: facebook/opt-125m\\n\"}", "model", "facebook/opt-125m"},
    {"{" OPT "," GPU ",\"training\":{\"stage\":\"dpo\"},\"framework_config\":{\"framework\":\"trl\",\"text\":\"beta: 0.1\\nmax_prompt_length: 512\\nloss_type: sigmoid\\n\"}}",
     "training/stage", "dpo"},
    {FILE_OF("trl", "trl dpo --beta 0.1 --precompute_ref_log_probs"), "training/stage", "dpo"},
    {FILE_OF("trl", "trl dpo --beta 0.1 --precompute_ref_log_probs"), "training/reference", "precomputed"},
    {FILE_OF("trl", "python trl/scripts/kto.py --loss_type kto"), "training/stage", "kto"},
    {FILE_OF("trl", "accelerate launch scripts/sft.py --max_length 640"), "training/loss", "chunked_nll"},
    {FILE_OF("trl", "gradient_checkpointing: false\\nfsdp: full_shard\\nfsdp_config: {activation_checkpointing: true}\\n"), "training/gradient_checkpointing", "true"},
    {FILE_OF("trl", "fsdp_config: {activation_checkpointing: true}\\nfsdp: full_shard\\ngradient_checkpointing: false\\n"), "training/checkpoint_reentrant", "false"},
    {FILE_OF("axolotl", "bfloat16: true\\nbf16: false\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("axolotl", "batch_size: 8\\nmicro_batch_size: 2\\n"), "training/gradient_accumulation_steps", "4"},
    {FILE_OF("axolotl", "batch_size: 8\\nmicro_batch_size: 2\\ngradient_accumulation_steps: 3\\n"), "training/gradient_accumulation_steps", "3"},
    {FILE_OF("axolotl", "rl: kto\\nmicro_batch_size: 2\\nkto_desirable_weight: 0.2\\n"), "training/stage", "kto"},
    {FILE_OF("llama-factory", "finetuning_type: full\\n"), "training/gradient_checkpointing", "true"},
    {FILE_OF("llama-factory", "finetuning_type: full\\n"), "training/precision", "fp32"},
    {FILE_OF("llama-factory", "finetuning_type: full\\nbf16: true\\n"), "training/precision", "bf16-mixed"},
    {FILE_OF("llama-factory", "finetuning_type: full\\npure_bf16: true\\n"), "training/precision", "bf16"},
    {FILE_OF("llama-factory", "bf16: true\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("llama-factory", "bf16: true\\n"), "training/tuning", "lora"},
    /* parts of a model; opt-125m has twelve layers */
    {FILE_OF("llama-factory", "stage: rm\\n"), "training/stage", "reward"},
    {FILE_OF("llama-factory", "neat_packing: true\\nflash_attn: fa2\\nper_device_train_batch_size: 1\\n"), "training/packing", "true"},
    {FILE_OF("llama-factory", "neat_packing: true\\n"), "training/trainer", "llama-factory"},
    {FILE_OF("llama-factory", "stage: rm\\n"), "training/trainer", "llama-factory"},
    {FILE_OF("llama-factory", "finetuning_type: freeze\\n"), "training/trainable", ".*\\.(?:10|11)\\.(?:).*"},
    {FILE_OF("llama-factory", "finetuning_type: freeze\\nbf16: true\\n"), "training/precision", "bf16-autocast"},
    {FILE_OF("llama-factory", "finetuning_type: freeze\\nfreeze_trainable_layers: -1\\nfreeze_trainable_modules: fc1,fc2\\nfreeze_extra_modules: [embed_tokens]\\n"),
     "training/trainable", ".*\\.(?:0)\\.(?:fc1|fc2).*|.*(?:embed_tokens).*"},
    {FILE_OF("axolotl", "unfrozen_parameters:\\n- ^model.decoder.embed_tokens$[:32000]\\n- .+1[01].fc1\\n"), "training/trainable",
     "(?:^model\\.decoder\\.embed_tokens$|.+1[01]\\.fc1).*"},
    {FILE_OF("ms-swift", "swift sft --torch_dtype bfloat16 --tuner_type full --freeze_parameters_ratio 0.5"), "training/freeze_ratio", "0.5"},
    {FILE_OF("ms-swift", "swift sft --torch_dtype bfloat16 --tuner_type full --freeze_parameters model.decoder.layers.1. lm_head"), "training/trainable",
     "(?!(?:model\\.decoder\\.layers\\.1\\.|lm_head)).*"},
    {FILE_OF("ms-swift", "swift sft --torch_dtype bfloat16 --tuner_type full --freeze_parameters_ratio 1 --trainable_parameters model.decoder.layers.11"), "training/trainable",
     "(?:model\\.decoder\\.layers\\.11).*"},
    {FILE_OF("oumi", "model: {freeze_layers: [model.decoder.embed_tokens]}\\n"), "training/freeze/0", "model.decoder.embed_tokens"},
    /* DeepSpeed configs that a tool carries, and those of the same name that are somebody's own */
    {FILE_OF("axolotl", "deepspeed: deepspeed_configs/zero3_bf16.json\\n"), "training/methods/0", "zero3"},
    {FILE_OF("axolotl", "deepspeed: deepspeed_configs/zero3_bf16.json\\n"), "training/buckets/reuse_elems", "0"},
    {FILE_OF("axolotl", "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json\\n"), "training/offload", "optimizer+params"},
    {FILE_OF("axolotl", "deepspeed: /workspace/axolotl/deepspeed_configs/zero2.json\\n"), "training/offload", "optimizer"},
    {FILE_OF("llama-factory", "deepspeed: examples/deepspeed/ds_z2_config.json\\n"), "training/buckets/round_robin", "true"},
    {FILE_OF("llama-factory", "deepspeed: examples/deepspeed/ds_z3_config.json\\n"), "training/buckets/max_live_elems", "1000000000"},
    /* what each requires beside it, and what stack says in its place */
    {FILE_OF("axolotl", "micro_batch_size: 2\\n"), "stack/transformers", "5.16"},
    {FILE_OF("axolotl", "micro_batch_size: 2\\n"), "stack/peft", "0.20"},
    {FILE_OF("axolotl", "micro_batch_size: 2\\n"), "stack/torch", "2.13"},
    {FILE_OF("llama-factory", "bf16: true\\n"), "stack/transformers", "5.6"},
    {FILE_OF("ms-swift", "swift sft --packing true"), "stack/transformers", "5.19"},
    {FILE_OF("ms-swift", "swift sft --padding_free true"), "training/packing", "true"},
    {FILE_OF("oumi", "training: {use_peft: true}\\n"), "stack/peft", "0.19"},
    {FILE_OF("open-instruct", "python open_instruct/finetune.py --use_lora true"), "stack/transformers", "5.4"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type dpo --model Qwen/Qwen2-0.5B"), "training/trainer", "ms-swift"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type rm --model Qwen/Qwen2-0.5B"), "training/stage", "reward"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type kto --model Qwen/Qwen2-0.5B"), "training/stage", "kto"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type simpo --model Qwen/Qwen2-0.5B"), "training/stage", "simpo"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type cpo --loss_type simpo --model Qwen/Qwen2-0.5B"), "training/stage", "simpo"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type cpo --model Qwen/Qwen2-0.5B"), "training/stage", "cpo"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type orpo --model Qwen/Qwen2-0.5B"), "training/trainer", "ms-swift"},
    {FILE_OF("axolotl", "attn_implementation: kernels-community/vllm-flash-attn3@v1\\n"), "training/attention", "flash_attention_3"},
    {FILE_OF("open-instruct", "loss_type: dpo_norm\\nbeta: 5\\n"), "training/stage", "dpo"},
    {FILE_OF("open-instruct", "python open_instruct/dpo_tune_cache.py --max_seq_length 512"), "training/trainer", "open-instruct"},
    {FILE_OF("open-instruct", "loss_type: dpo\\nattn_implementation: flash_2\\n"), "training/attention", "flash_attention_2"},
    {FILE_OF("open-instruct", "dpo_loss_type: simpo\\nnum_epochs: 1\\n"), "training/stage", "simpo"},
    {FILE_OF("open-instruct", "accelerate launch --use_deepspeed --deepspeed_config_file configs/ds_configs/stage3_no_offloading_accelerate.conf "
                              "open_instruct/dpo_tune_cache.py --beta 5"), "training/buckets/max_live_elems", "1000000000"},
    {FILE_OF("open-instruct", "loss_type: dpo\\nzero_stage: 3\\n"), "training/buckets/max_live_elems", "1000000000"},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.11\"},\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"micro_batch_size: 2\\n\"}}", "stack/torch", "2.11"},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.11\"},\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"micro_batch_size: 2\\n\"}}", "stack/peft", "0.20"},
    {"{" OPT "," GPU ",\"stack\":{\"transformers\":\"4.57\"},\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"micro_batch_size: 2\\n\"}}", "stack/peft", "0.17"},
};

START_TEST(has_the_tools_defaults)
{
    struct reply reply = ask(left_out[_i].body);
    char path[128], text[64];

    (void)snprintf(path, sizeof path, "resolved/%s", left_out[_i].path);
    reply_value(&reply, path, text);
    ck_assert_msg(reply.r.status == 200 && !strcmp(text, left_out[_i].value), "%s: %d %s is %s", left_out[_i].body, reply.r.status, path, text);
    reply_done(reply);
}
END_TEST

#define TIMES16(t) t t t t t t t t t t t t t t t t

static const struct {
    const char *body, *pointer;
} refused[] = {
    {"{" OPT "," GPU ",\"framework_config\":{\"framework\":\"trl\"}}", "/framework_config/text"},
    {"{" OPT "," GPU ",\"framework_config\":{\"text\":\"a: 1\"}}", "/framework_config/framework"},
    {"{" OPT "," GPU ",\"training_arguments\":{},\"framework_config\":{\"framework\":\"trl\",\"text\":\"a: 1\"}}", "/framework_config"},
    {"{" GPU ",\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"base_model: ./mine\\n\"}}", "/model"},
    {"{" OPT "," GPU ",\"training\":{\"gradient_checkpointing\":false},\"accelerate_config\":\"distributed_type: FSDP\\nfsdp_config: {fsdp_activation_checkpointing: true}\\n\"}",
     "/accelerate_config/fsdp_config/fsdp_activation_checkpointing"},
    {FILE_OF("ms-swift", "swift infer --max_batch_size 1"), "/framework_config/text/launcher/run"},
    {FILE_OF("megatron", "a: 1"), "/framework_config/framework"},
    {FILE_OF("ms-swift", "deepspeed: mine.json\\n"), "/framework_config/text/deepspeed"},
    {FILE_OF("axolotl", "deepspeed: zero3_bf16.json\\n"), "/framework_config/text/deepspeed"},
    {FILE_OF("axolotl", "deepspeed: my_deepspeed_configs/zero3_bf16.json\\n"), "/framework_config/text/deepspeed"},
    {FILE_OF("axolotl", "deepspeed: deepspeed_configs/zero4.json\\n"), "/framework_config/text/deepspeed"},
    {FILE_OF("ms-swift", "swift sft --lora_rnak 8"), "/framework_config/text/lora_rnak"},
    {FILE_OF("ms-swift", "swift sft " TIMES16(TIMES16("--x y --x y --x y --x y --x y "))), "/framework_config/text"}, /* more words than are read */
    {FILE_OF("open-instruct", "accelerate launch --config_file x.yaml finetune.py --use_lora true"), "/framework_config/text/launcher/config_file"},
    {FILE_OF("axolotl", "[x"), "/framework_config/text"},
    {FILE_OF("axolotl", "micro_batch_size: 0\\n"), "/framework_config/text/micro_batch_size"},
    {FILE_OF("trl", "deepspeed: ds.json\\n"), "/framework_config/text/deepspeed"},
    {FILE_OF("trl", "use_liger_kernel: true\\nliger_kernel_config: {fused_linear_cross_entropy: true}\\n"), "/framework_config/text/use_liger_kernel"},
};

/* Known, and not in the figures: whose they are. */
static const struct {
    const char *body, *pointer;
} gaps[] = {
    {FILE_OF("trl", "beta: 0.1\\n"), "/framework_config/text/beta"},
    {FILE_OF("trl", "trl dpo --loss_type ipo"), "/framework_config/text/loss_type"},
    {FILE_OF("trl", "trl dpo --use_weighting"), "/framework_config/text/use_weighting"},
    {FILE_OF("open-instruct", "python open_instruct/dpo.py --max_seq_length 512"), "/framework_config/text/launcher/run"},
    {FILE_OF("open-instruct", "python open_instruct/grpo_fast.py --beta 0.01 --temperature 1.0"), "/framework_config/text/launcher/run"},
    {FILE_OF("open-instruct", "uv run --active open_instruct/grpo.py --beta 0.01 --pack_length 512"), "/framework_config/text/launcher/run"},
    {FILE_OF("llama-factory", "peft_config:\\n  name: lora\\n"), "/framework_config/text/peft_config"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type grpo --model Qwen/Qwen2-0.5B"), "/framework_config/text/rlhf_type"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type cpo --cpo_alpha 0 --model Qwen/Qwen2-0.5B"), "/framework_config/text/cpo_alpha"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type kto --loss_type apo_zero_unpaired --model Qwen/Qwen2-0.5B"), "/framework_config/text/loss_type"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type dpo --model Qwen/Qwen2-0.5B --ref_model Qwen/Qwen2-7B"), "/framework_config/text/ref_model"},
    {FILE_OF("trl", "reward_model: some/model\\n"), "/framework_config/text/reward_model"},
    {FILE_OF("axolotl", "model_config:\\n  quantization_config: {quant_method: awq}\\n"), "/framework_config/text/model_config"},
    {FILE_OF("axolotl", "model_quantization_config: FineGrainedFP8Config\\n"), "/framework_config/text/model_quantization_config"},
    {FILE_OF("axolotl", "experts_implementation: eager\\n"), "/framework_config/text/experts_implementation"},
    {FILE_OF("ms-swift", "swift sft --loss_scale default+hermes"), "/framework_config/text/loss_scale"},
    {FILE_OF("ms-swift", "swift sft --loss_scale default --is_binary_loss_scale false"), "/framework_config/text/loss_scale"},
    {"{\"model\":\"Qwen/Qwen3.5-9B\"," GPU ",\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"liger_rms_norm_gated: true\\n\"}}",
     "/framework_config/text/liger_rms_norm_gated"},
    {FILE_OF("ms-swift", "swift rlhf --rlhf_type dpo --model Qwen/Qwen2-0.5B --router_aux_loss_coef 1e-3"), "/framework_config/text/router_aux_loss_coef"},
};

START_TEST(has_no_figures)
{
    struct reply reply = ask(gaps[_i].body);
    const char *gap = json_str(reply_at(&reply, "not_in_figures/0"));

    ck_assert_msg(reply.r.status == 200 && gap && !strcmp(gap, gaps[_i].pointer), "%s: %d %s", gaps[_i].body, reply.r.status, gap);
    ck_assert_int_eq(json_type(reply_at(&reply, "candidates/0/memory")) == JSON_OBJECT, 0);
    reply_done(reply);
}
END_TEST

/* What axolotl switches on by itself where the file says nothing: modelled, or told that it is not. */
static const struct {
    const char *config, *text, *kernels, *says, *methods; /* kernels: of resolved, 0: none; methods: of four GPUs; NULL: one GPU */
} axolotls[] = {
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\n", "3", "axolotl 0.19 switches them on", NULL},
    {"Qwen/Qwen2-0.5B", "adapter: qlora\\nload_in_4bit: true\\nlora_target_linear: true\\n", "3", "axolotl 0.19 switches them on", NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\nlora_mlp_kernel: false\\n", "0", NULL, NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\nlora_mlp_kernel: true\\nlora_qkv_kernel: true\\n", "2", NULL, NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\nrl: orpo\\n", "0", NULL, NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\nload_in_8bit: true\\n", "0", "\"prepare_kbit\": \"axolotl\"", NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\nlora_mlp_kernel: false\\n", "0", "\"prepare_kbit\": \"axolotl\"", NULL},
    {"Qwen/Qwen2-0.5B", "attn_implementation: sdpa\\n", "0", "\"prepare_kbit\": \"axolotl\"", NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\npeft_use_dora: true\\n", "0", "those of DoRA are not modelled yet", NULL},
    {"EleutherAI/gpt-neo-125m", "adapter: lora\\nlora_target_linear: true\\n", "0", "Original QKV code not found", NULL},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\n", "0", "under this method they are not modelled yet", "fsdp2"},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\n", "0", "under this method they are not modelled yet", "hsdp2"},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\n", "0", "under this method they are not modelled yet", "fsdp"},
    {"Qwen/Qwen2-0.5B", "adapter: lora\\nlora_target_linear: true\\n", "0", "under this method they are not modelled yet", "pp"},
    {"Qwen/Qwen2-0.5B", "resize_token_embeddings_to_32x: true\\n", "0", "the vocabulary of 151936 is a multiple of 32 and stays", NULL},
    {"openai-community/gpt2", "resize_token_embeddings_to_32x: true\\n", "0", "over a vocabulary of 50257, which is no multiple of 32", NULL},
};

START_TEST(takes_kernels_that_nobody_asked_for)
{
    const char *methods = axolotls[_i].methods;
    char body[1024], n[16];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":%d},\"training\":{\"methods\":\"%s\"},"
                   "\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"%s\"}}",
                   axolotls[_i].config, methods ? 4 : 1, methods ? methods : "single", axolotls[_i].text);
    reply = ask(body);
    (void)snprintf(n, sizeof n, "%zu", json_count(reply_at(&reply, "resolved/training/lora/kernels")));
    ck_assert_msg(reply.r.status == 200 && !strcmp(n, axolotls[_i].kernels), "%s: %d, %s kernels", axolotls[_i].text, reply.r.status, n);
    if (axolotls[_i].says)
        ck_assert_msg(strstr(reply.r.body, axolotls[_i].says) != NULL, "%s: nothing of '%s'", axolotls[_i].text, axolotls[_i].says);
    reply_done(reply);
}
END_TEST

START_TEST(refuses)
{
    struct reply reply = ask(refused[_i].body);

    ck_assert_msg(reply.r.status == 422 && !strcmp(reply_text(&reply, "pointer"), refused[_i].pointer), "%s: %d at '%s': %s", refused[_i].body, reply.r.status,
                  reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    reply_done(reply);
}
END_TEST

/* axolotl: a head alone that is trained makes backward go through all layers, to the embeddings' output. */
START_TEST(a_head_reaches_the_embeddings)
{
    struct reply head = ask(FILE_OF("axolotl", "sequence_len: 512\\nbf16: true\\ngradient_checkpointing: false\\nunfrozen_parameters:\\n- ^model.decoder.final_layer_norm.*\\n"));
    struct reply reached = ask(FILE_OF("axolotl", "sequence_len: 512\\nbf16: true\\ngradient_checkpointing: false\\nunfrozen_parameters:\\n- ^model.decoder.final_layer_norm.*\\n"
                                                  "- ^lm_head.*\\n"));
    double alone, all;

    ck_assert(json_number(reply_at(&head, "recommendation/memory/peak_allocated_bytes"), &alone) &&
              json_number(reply_at(&reached, "recommendation/memory/peak_allocated_bytes"), &all));
    ck_assert_msg(all > alone + 12 * 512 * 768 * 8., "%.0f, %.0f: what twelve layers keep", alone, all);
    reply_done(head);
    reply_done(reached);
}
END_TEST

/* What a file changes of the model's config is what a config with it would be. */
static const struct {
    const char *model, *framework, *text, *plain, *config; /* text: plain with what changes; config: a patch */
} changed[] = {
    {"facebook/opt-125m", "axolotl", "sequence_len: 512\\nmodel_config:\\n  ffn_dim: 1024\\n", "sequence_len: 512\\n", "{\"ffn_dim\":1024}"},
    {"facebook/opt-125m", "oumi", "model: {model_name: facebook/opt-125m, model_max_length: 512, model_kwargs: {ffn_dim: 1024}}\\n",
     "model: {model_name: facebook/opt-125m, model_max_length: 512}\\n", "{\"ffn_dim\":1024}"},
    {"Qwen/Qwen2-0.5B", "ms-swift", "swift sft --tuner_type full --max_length 512 --task_type seq_cls --num_labels 3000",
     "swift sft --tuner_type full --max_length 512 --task_type seq_cls", "{\"num_labels\":3000}"},
    {"Qwen/Qwen2-0.5B", "axolotl", "sequence_len: 512\\nprocess_reward_model: true\\nnum_labels: 3000\\n", "sequence_len: 512\\nprocess_reward_model: true\\n",
     "{\"num_labels\":3000}"},
    {"Qwen/Qwen3-30B-A3B", "ms-swift", "swift sft --max_length 512 --target_modules q_proj --router_aux_loss_coef 1e-3 --gradient_checkpointing false",
     "swift sft --max_length 512 --target_modules q_proj --gradient_checkpointing false", "{\"output_router_logits\":true}"},
    {"Qwen/Qwen3-30B-A3B", "trl", "max_length: 512\\nuse_peft: true\\nlora_target_modules: [q_proj]\\nrouter_aux_loss_coef: 0.0\\n",
     "max_length: 512\\nuse_peft: true\\nlora_target_modules: [q_proj]\\n", "{\"router_aux_loss_coef\":0}"},
    {"Qwen/Qwen3-30B-A3B", "llama-factory", "cutoff_len: 512\\nlora_target: q_proj\\nbf16: true\\nmoe_aux_loss_coef: 1e-3\\n",
     "cutoff_len: 512\\nlora_target: q_proj\\nbf16: true\\n", "{\"output_router_logits\":true}"},
};

static double peak_of_file(const char *model, const char *config, const char *framework, const char *text)
{
    char body[1024];
    struct reply reply;
    double peak = 0;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"config\":%s,\"cluster\":{\"gpu\":\"B200\",\"gpus_per_node\":1},\"training\":{\"methods\":\"single\"},"
                   "\"framework_config\":{\"framework\":\"%s\",\"text\":\"%s\"}}",
                   model, config, framework, text);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &peak), "%s: %s", body, reply.r.body);
    reply_done(reply);
    return peak;
}

START_TEST(a_file_changes_the_config)
{
    const char *model = changed[_i].model, *framework = changed[_i].framework;
    double by_file = peak_of_file(model, "{}", framework, changed[_i].text), by_config = peak_of_file(model, changed[_i].config, framework, changed[_i].plain);
    double plain = peak_of_file(model, "{}", framework, changed[_i].plain);

    ck_assert_msg(by_file <= by_config && by_file >= by_config && (by_file < plain || by_file > plain), "%s: %.0f, of the config %.0f, unchanged %.0f", changed[_i].text, by_file, by_config, plain);
}
END_TEST

/* A change that is for other types is none: neither list of configure_moe() names opt. */
START_TEST(a_file_changes_what_its_tool_names)
{
    double plain = peak_of_file("facebook/opt-125m", "{}", "llama-factory", "cutoff_len: 512\\nlora_target: q_proj\\nbf16: true\\n");
    double asked = peak_of_file("facebook/opt-125m", "{}", "llama-factory", "cutoff_len: 512\\nlora_target: q_proj\\nbf16: true\\nmoe_aux_loss_coef: 0.01\\n");

    ck_assert_msg(plain <= asked && plain >= asked, "%.0f, %.0f", plain, asked);
}
END_TEST

/* Each plugin of axolotl's own is told by what it does. */
static const struct {
    const char *plugin, *told;
} plugins[] = {
    {"axolotl.integrations.kernels.KernelsPlugin", "SonicMoE"},
    {"axolotl.integrations.expert_parallel.ExpertParallelPlugin", "experts of its own"},
    {"axolotl.integrations.kd.KDPlugin", "teacher"},
    {"my.own.Plugin", "a plugin that may change"},
};

START_TEST(names_plugins)
{
    char body[512];
    struct reply reply;

    (void)snprintf(body, sizeof body, FILE_OF("axolotl", "plugins: [%s]\\n"), plugins[_i].plugin);
    reply = ask(body);
    ck_assert_msg(strstr(reply.r.body, plugins[_i].told) != NULL, "%s: %s", plugins[_i].plugin, reply.r.body);
    reply_done(reply);
}
END_TEST

/* Commands on the GPUs that they name. */
static const struct {
    const char *name, *framework, *path, *value;
} commands[] = {
    {"ms_swift_zero.sh", "ms-swift", "training/methods/0", "zero2"},
    {"ms_swift_zero.sh", "ms-swift", "training/buckets/reduce_elems", "200000000"},
    {"ms_swift_zero.sh", "ms-swift", "training/gradient_accumulation_steps", "8"},
    {"ms_swift_zero.sh", "ms-swift", "training/packing", "true"},
    {"ms_swift_zero.sh", "ms-swift", "training/attention", "flash_attention_2"},
    {"ms_swift_zero.sh", "ms-swift", "training/checkpoint_reentrant", "true"},
    {"ms_swift_zero.sh", "ms-swift", "cluster/gpus_per_node", "4"},
    {"open_instruct_launch.sh", "open-instruct", "cluster/gpus_per_node", "8"},
    {"open_instruct_launch.sh", "open-instruct", "training/micro_batch_size", "2"},
    {"open_instruct_launch.sh", "open-instruct", "training/gradient_checkpointing", "true"},
    {"open_instruct_launch.sh", "open-instruct", "training/precision", "bf16-mixed"},
};

START_TEST(reads_commands)
{
    char text[TEXT_MOST], quoted[2 * TEXT_MOST], body[3 * TEXT_MOST], path[128], value[64];
    struct reply reply;

    read_file(commands[_i].name, text);
    quote(text, quoted);
    (void)snprintf(body, sizeof body,
                   "{\"model\":\"Qwen/Qwen2-0.5B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"host_memory_bytes_per_node\":1099511627776},"
                   "\"framework_config\":{\"framework\":\"%s\",\"text\":%s},\"deepspeed_config\":{\"zero_optimization\":{\"stage\":2}}}",
                   commands[_i].framework, quoted);
    reply = ask(body);
    (void)snprintf(path, sizeof path, "resolved/%s", commands[_i].path);
    reply_value(&reply, path, value);
    ck_assert_msg(reply.r.status == 200 && !strcmp(value, commands[_i].value), "%s %d: %s is %s (%s: %s)", commands[_i].name, reply.r.status, path, value,
                  reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    ck_assert_msg(json_count(json_get(reply.doc, "ignored")) == 0, "%s: %s", commands[_i].name, json_str(reply_at(&reply, "ignored/0")));
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/frameworks", unit_rows(reads_commands, commands); unit_test(a_head_reaches_the_embeddings); unit_rows(a_file_changes_the_config, changed); unit_test(a_file_changes_what_its_tool_names); unit_rows(names_plugins, plugins); unit_rows(is_read_whole, files); unit_rows(says_what_to_write, unread); unit_rows(has_the_tools_defaults, left_out);
           unit_rows(refuses, refused); unit_rows(has_no_figures, gaps); unit_rows(takes_kernels_that_nobody_asked_for, axolotls);)
