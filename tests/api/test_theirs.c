/* Users' own configs: what each key becomes, what contradicts what, and what is silently fine. */
#include "api/theirs/theirs.h"
#include "tests/support/ask.h"
#include "tests/support/unit.h"

/* Whose host memory is known: offload is no reason for a warning. */
#undef GPU
#define GPU "\"cluster\":{\"gpu\":\"A100-40GB\",\"host_memory_bytes_per_node\":1099511627776}"

#include <stdio.h>
#include <string.h>

#define ARGS(inner) "{" OPT "," GPU ",\"training_arguments\":{" inner "}}"
#define DS(inner)   "{" OPT "," GPU ",\"deepspeed_config\":{" inner "}}"
#define ZERO(inner) DS("\"zero_optimization\":{" inner "}")
#define ACC(inner)  "{" OPT "," GPU ",\"accelerate_config\":{" inner "}}"
#define FSDP(inner) ACC("\"distributed_type\":\"FSDP\",\"fsdp_config\":{" inner "}")
#define YAML(text)  "{" OPT "," GPU ",\"accelerate_config\":\"" text "\"}"
#define OLD         "\"stack\":{\"torch\":\"2.2\",\"transformers\":\"4.40\"}"

/* A word, a number or true and false, at a path within `resolved`. */
static const struct {
    const char *body, *path, *value;
} means[] = {
    {ARGS("\"per_device_train_batch_size\":3"), "training/micro_batch_size", "3"},
    {ARGS(""), "training/micro_batch_size", "8"},
    {ARGS(""), "training/gradient_accumulation_steps", "1"},
    {ARGS(""), "training/gradient_checkpointing", "false"},
    {ARGS(""), "training/precision", "fp16"}, /* opt-125m is saved in it, and nobody asks for autocast */
    {ARGS("\"bf16\":true"), "training/precision", "bf16-autocast"},
    {ARGS("\"padding_free\":true"), "training/packing", "true"},
    {ARGS("\"packing\":false,\"padding_free\":true"), "training/packing", "true"},
    {ARGS("\"padding_free\":false,\"packing\":true"), "training/packing", "true"},
    {ARGS("\"bf16\":\"auto\""), "training/precision", "bf16-autocast"},
    {ARGS("\"bf16\":true,\"fp16\":false"), "training/precision", "bf16-autocast"},
    {"{" OPT "," GPU "," OLD ",\"training_arguments\":{\"bf16\":true}}", "training/precision", "bf16-mixed"},
    {"{" OPT "," GPU "," OLD ",\"training_arguments\":{}}", "training/precision", "fp32"},
    {"{" OPT "," GPU "," OLD ",\"training_arguments\":{\"fp16\":true}}", "training/precision", "fp16-mixed"},
    {ARGS("\"pure_bf16\":true"), "training/precision", "bf16"},
    {ARGS("\"bf16\":true,\"model_init_kwargs\":{\"dtype\":\"float32\"}"), "training/precision", "bf16-mixed"},
    {ARGS("\"bf16\":true,\"torch_dtype\":\"bfloat16\""), "training/precision", "bf16-autocast"},
    {ARGS("\"dtype\":\"torch.bfloat16\""), "training/precision", "bf16"},
    {ARGS("\"ddp_find_unused_parameters\":false"), "training/find_unused_parameters", "false"},
    {ARGS("\"gradient_checkpointing\":true,\"gradient_checkpointing_kwargs\":{\"use_reentrant\":true}"), "training/checkpoint_reentrant",
     "true"},
    {ARGS("\"activation_checkpointing\":true"), "training/gradient_checkpointing", "true"},
    {ARGS("\"activation_offloading\":true"), "training/offload", "activations"},
    {ARGS("\"gradient_checkpointing\":\"unsloth\""), "training/gradient_checkpointing", "true"},
    {ARGS("\"optim\":\"adamw_8bit\""), "training/optimizer", "adamw_bnb_8bit"},
    {ARGS("\"adafactor\":true"), "training/optimizer", "adafactor"},
    {ARGS("\"max_grad_norm\":0.5"), "training/max_grad_norm", "0.5"},
    {ARGS("\"ddp_bucket_cap_mb\":50"), "training/buckets/ddp_bytes", "52428800"},
    {ARGS("\"torch_compile\":true"), "training/compile", "true"},
    {ARGS("\"use_liger_kernel\":true"), "training/liger_kernels/1", "rms_norm"},
    {ARGS("\"use_liger_kernel\":true,\"liger_kernel_config\":{\"rms_norm\":false}"), "training/liger_kernels/1", "swiglu"},
    {ARGS("\"liger_rms_norm\":true,\"liger_glu_activation\":true"), "training/liger_kernels/2", "geglu"},
    {ARGS("\"plugins\":[\"axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\"]"), "training/loss", "cut_cross_entropy"},
    {ARGS("\"accelerator_config\":{\"gradient_accumulation_kwargs\":{\"sync_each_batch\":true}}"), "training/sync_each_batch", "true"},
    {ARGS("\"model_init_kwargs\":{\"attn_implementation\":\"eager\"}"), "training/attention", "eager"},
    {ARGS("\"max_length\":640"), "training/seq_len", "640"},
    {ARGS("\"cutoff_len\":640"), "training/seq_len", "640"},
    {ARGS("\"sequence_len\":640,\"micro_batch_size\":2"), "training/micro_batch_size", "2"},
    {ARGS("\"finetuning_type\":\"lora\",\"lora_rank\":32"), "training/lora/rank", "32"},
    {ARGS("\"finetuning_type\":\"lora\",\"lora_target\":\"q_proj, v_proj\""), "training/lora/target_modules/1", "v_proj"},
    {ARGS("\"finetuning_type\":\"lora\",\"lora_target\":\"all\""), "training/lora/target_modules", "all-linear"},
    {ARGS("\"adapter\":\"lora\",\"lora_r\":4,\"lora_target_modules\":[\"q_proj\"]"), "training/lora/rank", "4"},
    {ARGS("\"adapter\":\"lora\",\"lora_target_modules\":[\"q_proj\"],\"peft_layers_to_transform\":[0,1]"), "training/lora/layers_to_transform/1", "1"},
    {ARGS("\"adapter\":\"lora\",\"lora_target_modules\":[\"q_proj\"],\"lora_rank_pattern\":{\"q_proj\":64}"), "training/lora/rank_pattern/q_proj", "64"},
    {ARGS("\"adapter\":\"lora\",\"lora_target_linear\":true"), "training/lora/target_modules", "all-linear"},
    {ARGS("\"finetuning_type\":\"lora\",\"quantization_bit\":4"), "training/quantization", "nf4-dq"},
    {ARGS("\"quantization_bit\":4,\"double_quantization\":false"), "training/quantization", "nf4"},
    {ARGS("\"quantization_bit\":8"), "training/quantization", "int8"},
    {ARGS("\"use_peft\":true,\"load_in_4bit\":true"), "training/quantization", "nf4"},
    {ARGS("\"use_peft\":true,\"load_in_4bit\":true,\"use_bnb_nested_quant\":true"), "training/quantization", "nf4-dq"},
    {ARGS("\"adapter\":\"qlora\",\"load_in_4bit\":true"), "training/quantization", "nf4-dq"},
    {ARGS("\"finetuning_type\":\"full\",\"bf16\":true"), "training/precision", "bf16-mixed"},
    {ARGS("\"flash_attn\":\"disabled\""), "training/attention", "eager"},
    {ARGS("\"finetuning_type\":\"lora\",\"bf16\":true"), "training/gradient_checkpointing", "true"},
    {ARGS("\"finetuning_type\":\"lora\",\"bf16\":true"), "training/checkpoint_reentrant", "true"},
    {ARGS("\"finetuning_type\":\"lora\",\"disable_gradient_checkpointing\":true"), "training/gradient_checkpointing", "false"},
    {ARGS("\"adapter\":\"lora\",\"bf16\":true"), "training/gradient_checkpointing", "false"},
    {ARGS("\"flash_attention\":true,\"bf16\":true"), "training/attention", "flash_attention_2"},
    {ARGS("\"deepspeed\":{\"zero_optimization\":{\"stage\":2}}"), "training/methods/0", "zero2"},
    {ARGS("\"fsdp\":\"full_shard auto_wrap\""), "training/methods/0", "fsdp2"},
    {"{" OPT "," GPU "," OLD ",\"training_arguments\":{\"fsdp\":[\"shard_grad_op\",\"offload\"]}}", "training/methods/0", "fsdp_grad_op"},
    {"{" OPT "," GPU "," OLD ",\"training_arguments\":{\"fsdp\":\"full_shard offload\"}}", "training/offload", "optimizer+params"},
    {ARGS("\"fsdp\":true,\"fsdp_config\":{\"reshard_after_forward\":false}"), "training/methods/0", "fsdp2_noreshard"},
    {ARGS("\"fsdp\":true,\"fsdp_config\":{\"version\":1}"), "training/methods/0", "fsdp"},
    {"{" OPT "," GPU ",\"training_arguments\":\"per_device_train_batch_size: 5\\nbf16: true\\n\"}", "training/micro_batch_size", "5"},
    {DS("\"train_micro_batch_size_per_gpu\":2,\"gradient_accumulation_steps\":4"), "training/gradient_accumulation_steps", "4"},
    {DS("\"train_micro_batch_size_per_gpu\":\"auto\""), "training/methods/0", "zero0"},
    {DS("\"bf16\":{\"enabled\":true}"), "training/precision", "bf16-mixed"},
    {DS("\"fp16\":{\"enabled\":true,\"loss_scale\":0}"), "training/precision", "fp16-mixed"},
    {DS("\"gradient_clipping\":0.3"), "training/max_grad_norm", "0.3"},
    {ZERO("\"stage\":3"), "training/methods/0", "zero3"},
    {ZERO("\"stage\":2,\"reduce_bucket_size\":2e8"), "training/buckets/reduce_elems", "200000000"},
    {ZERO("\"stage\":2,\"reduce_bucket_size\":\"auto\""), "training/buckets/reduce_elems", "589824"},
    {ZERO("\"stage\":3,\"stage3_prefetch_bucket_size\":\"auto\""), "training/buckets/prefetch_elems", "530841"},
    {ZERO("\"stage\":3,\"stage3_param_persistence_threshold\":\"auto\""), "training/buckets/persistence_elems", "7680"},
    {ZERO("\"stage\":3,\"stage3_max_live_parameters\":1e9"), "training/buckets/max_live_elems", "1000000000"},
    {ZERO("\"stage\":2,\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true}"), "training/offload", "optimizer"},
    {ZERO("\"stage\":3,\"offload_optimizer\":{\"device\":\"cpu\"},\"offload_param\":{\"device\":\"cpu\"}"), "training/offload",
     "optimizer+params"},
    {ZERO("\"stage\":2,\"offload_optimizer\":{\"device\":\"none\"}"), "training/offload", "none"},
    {DS("\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":\"auto\"}}"), "training/optimizer", "adamw_torch_fused"},
    {"{" OPT "," GPU ",\"deepspeed_config\":\"{\\\"zero_optimization\\\":{\\\"stage\\\":1}}\"}", "training/methods/0", "zero1"},
    {ACC("\"distributed_type\":\"MULTI_GPU\",\"num_processes\":8,\"num_machines\":2"), "cluster/gpus_per_node", "4"},
    {ACC("\"distributed_type\":\"MULTI_GPU\",\"num_processes\":8,\"num_machines\":2"), "cluster/nodes", "2"},
    {ACC("\"distributed_type\":\"MULTI_GPU\""), "training/methods/0", "ddp"},
    {ACC("\"distributed_type\":\"NO\""), "training/methods/0", "single"},
    {ACC("\"distributed_type\":\"NO\",\"mixed_precision\":\"no\""), "training/precision", "fp16"},
    {ACC("\"distributed_type\":\"DEEPSPEED\",\"deepspeed_config\":{\"zero_stage\":3,\"offload_param_device\":\"cpu\"}"), "training/offload",
     "optimizer+params"},
    {ACC("\"distributed_type\":\"DEEPSPEED\",\"deepspeed_config\":{\"zero_stage\":3,\"zero3_init_flag\":\"true\"}"), "stack/zero_init",
     "true"},
    {FSDP("\"fsdp_sharding_strategy\":\"SHARD_GRAD_OP\""), "training/methods/0", "fsdp_grad_op"},
    {FSDP("\"fsdp_sharding_strategy\":1"), "training/methods/0", "fsdp"},
    {FSDP("\"fsdp_version\":2,\"fsdp_reshard_after_forward\":true"), "training/methods/0", "fsdp2"},
    {FSDP("\"fsdp_backward_prefetch\":\"BACKWARD_PRE\""), "training/fsdp/backward_prefetch", "pre"},
    {FSDP("\"fsdp_use_orig_params\":\"false\""), "training/fsdp/use_orig_params", "false"},
    {FSDP("\"fsdp_activation_checkpointing\":true"), "training/gradient_checkpointing", "true"},
    {ACC("\"distributed_type\":\"FSDP\",\"fsdp_config\":{\"fsdp_version\":2},\"parallelism_config\":{\"parallelism_config_dp_replicate_size\":2,"
         "\"parallelism_config_dp_shard_size\":4}"),
     "training/methods/0", "hsdp2"},
    {YAML(
         "compute_environment: LOCAL_MACHINE\\ndistributed_type: FSDP\\nmixed_precision: bf16\\ndowncast_bf16: 'no'\\nfsdp_config:\\n  fsdp_version: 2\\n"
         "  fsdp_reshard_after_forward: false\\nnum_machines: 1\\nnum_processes: 4\\nuse_cpu: false\\n"),
     "training/methods/0", "fsdp2_noreshard"},
    {YAML("distributed_type: NO\\nmixed_precision: no\\n"), "training/precision", "fp16"},
    {YAML("---\\n# a comment\\ndistributed_type: \\\"DEEPSPEED\\\"\\ndeepspeed_config: {zero_stage: 2, gradient_clipping: 1.5}\\n"),
     "training/max_grad_norm", "1.5"},
    {"{" OPT "," GPU ",\"training\":{\"methods\":\"zero3\"},\"deepspeed_config\":{\"zero_optimization\":{\"stage\":3}}}",
     "training/methods/0", "zero3"},
    {"{" OPT "," GPU ",\"training\":{\"precision\":\"bf16-mixed\"},\"training_arguments\":{\"bf16\":true}}", "training/precision",
     "bf16-mixed"},
    {"{" OPT "," GPU ",\"training\":{\"micro_batch_size\":2},\"training_arguments\":{}}", "training/micro_batch_size", "2"},
    {"{" OPT "," GPU ",\"training\":{\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[1],\"dtype\":\"bf16\"}},"
     "\"training_arguments\":{\"peft_layers_to_transform\":1,\"lora_rank_pattern\":{\"q_proj\":64}}}",
     "training/lora/dtype", "bf16"}, /* what is said of one member leaves the next as it was */
    {TRAIN("\"tuning\":\"lora\",\"lora_rank\":16"), "training/lora/rank", "16"},
    {TRAIN("\"lora_rank\":16,\"lora\":{\"dropout\":0.1},\"finetuning_type\":\"lora\""), "training/lora/rank", "16"},
    {TRAIN("\"tuning\":\"lora\",\"lora_rank_pattern\":{\"q_proj\":64}"), "training/lora/rank_pattern/q_proj", "64"},
    {TRAIN("\"quantization_bit\":4"), "training/quantization", "nf4-dq"},
    {TRAIN("\"quantization_bit\":8,\"tuning\":\"lora\""), "training/quantization", "int8"},
};

START_TEST(becomes)
{
    struct reply reply = ask(means[_i].body);
    char path[128], text[64];

    (void)snprintf(path, sizeof path, "resolved/%s", means[_i].path);
    reply_value(&reply, path, text);
    ck_assert_msg(reply.r.status == 200, "%s: %s %s", means[_i].body, reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    ck_assert_msg(!strcmp(text, means[_i].value), "%s: %s is %s", means[_i].body, path, text);
    ck_assert_msg(json_count(json_get(reply.doc, "warnings")) == 0, "%s: %s", means[_i].body, json_str(reply_at(&reply, "warnings/0")));
    reply_done(reply);
}
END_TEST

/* 422, where, and a part of the sentence: the other side of a contradiction. */
static const struct {
    const char *body, *pointer, *says;
} refused[] = {
    {"{" OPT "," GPU ",\"training\":{\"micro_batch_size\":2},\"training_arguments\":{\"per_device_train_batch_size\":4}}",
     "/training_arguments/per_device_train_batch_size", "means 4, which contradicts 2 of /training/micro_batch_size"},
    {"{" OPT "," GPU
     ",\"training_arguments\":{\"per_device_train_batch_size\":4},\"deepspeed_config\":{\"train_micro_batch_size_per_gpu\":2}}",
     "/deepspeed_config/train_micro_batch_size_per_gpu", "/training_arguments/per_device_train_batch_size"},
    {"{" OPT "," GPU ",\"training\":{\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[0,1]}},"
     "\"training_arguments\":{\"peft_layers_to_transform\":[0,2]}}",
     "/training_arguments/peft_layers_to_transform", "contradicts /training/lora/layers_to_transform"},
    {"{" OPT "," GPU ",\"training\":{\"methods\":\"ddp\"},\"deepspeed_config\":{\"zero_optimization\":{\"stage\":3}}}",
     "/deepspeed_config/zero_optimization/stage", "/training/methods"},
    {"{" OPT "," GPU ",\"training\":{\"precision\":\"fp32\"},\"training_arguments\":{\"bf16\":true}}", "/training_arguments/bf16",
     "/training/precision"},
    {ARGS("\"bf16\":true,\"fp16\":true"), "/training_arguments/fp16", "/training_arguments/bf16"},
    {"{" OPT "," GPU ",\"training_arguments\":{\"bf16\":true},\"deepspeed_config\":{\"fp16\":{\"enabled\":true}}}",
     "/deepspeed_config/fp16/enabled", "/training_arguments/bf16"},
    {"{" GPU ",\"training_arguments\":\"base_model: ./opt\\nadapter: lora\\n\"}", "/model", "base_model of training_arguments says './opt'"},
    {ARGS("\"per_device_train_batch_size\":0"), "/training_arguments/per_device_train_batch_size", "within 1"},
    {ARGS("\"optim\":\"adam\""), "/training_arguments/optim", "not known"},
    {ARGS("\"deepspeed\":\"ds.json\""), "/training_arguments/deepspeed", "deepspeed_config"},
    {ARGS("\"fsdp_config\":\"fsdp.json\",\"fsdp\":true"), "/training_arguments/fsdp_config", "file"},
    {ARGS("\"fsdp\":\"half_shard\""), "/training_arguments/fsdp", "FULL_SHARD"},
    {ARGS("\"ddp_bucket_cap_mb\":\"x\""), "/training_arguments/ddp_bucket_cap_mb", "MiB"},
    {ARGS("\"lora_rank\":0"), "/training_arguments/lora_rank", "within 1"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"ddp\"},\"training_arguments\":{"
     "\"ddp_find_unused_parameters\":true,\"gradient_checkpointing\":true,\"gradient_checkpointing_kwargs\":{\"use_reentrant\":true}}}",
     "/training/find_unused_parameters", "ready only once"},
    {ARGS("\"fsdp\":true,\"deepspeed\":{\"zero_optimization\":{\"stage\":1}}"), "/training_arguments/fsdp", "exclude"},
    {ZERO("\"stage\":4"), "/deepspeed_config/zero_optimization/stage", "0, 1, 2 or 3"},
    {ZERO("\"stage\":2,\"offload_param\":{\"device\":\"cpu\"}"), "/deepspeed_config/zero_optimization/offload_param/device", "stage 3"},
    {ZERO("\"stage\":0,\"offload_optimizer\":{\"device\":\"cpu\"}"), "/deepspeed_config/zero_optimization/offload_optimizer/device",
     "stages 1 to 3"},
    {ZERO("\"stage\":1,\"offload_optimizer\":7"), "/deepspeed_config/zero_optimization/offload_optimizer", "object"},
    {DS("\"train_batch_size\":7,\"train_micro_batch_size_per_gpu\":2"), "/training/global_batch_size", "not micro_batch_size"},
    {ACC("\"mixed_precision\":\"bf16\""), "/accelerate_config/distributed_type", "without"},
    {ACC("\"distributed_type\":\"XLA\""), "/accelerate_config/distributed_type", "MULTI_GPU"},
    {ACC("\"distributed_type\":\"NO\",\"fsdp_origin_params\":true"), "/accelerate_config/fsdp_origin_params", "refuses"},
    {ACC("\"distributed_type\":\"NO\",\"compute_environment\":\"MULTI_GPU\""), "/accelerate_config/compute_environment", "LOCAL_MACHINE"},
    {ACC("\"distributed_type\":\"MULTI_GPU\",\"num_processes\":3,\"num_machines\":2"), "/accelerate_config/num_processes", "divide"},
    {ACC("\"distributed_type\":\"DEEPSPEED\",\"deepspeed_config\":{\"deepspeed_config_file\":\"x.json\"}"),
     "/accelerate_config/deepspeed_config/deepspeed_config_file", "deepspeed_config"},
    {"{" OPT
     ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"accelerate_config\":{\"distributed_type\":\"MULTI_GPU\",\"num_processes\":8}}",
     "/accelerate_config/num_processes", "/cluster/gpus_per_node"},
    {YAML("distributed_type: [NO"), "/accelerate_config", "line "},
    {YAML("a: &x 1\\nb: *x\\n"), "/accelerate_config", "aliases"},
    {YAML("a: !!python/name:os.system 1\\n"), "/accelerate_config", "tags"},
    {YAML("[1]: 2"), "/accelerate_config", "scalar"},
    {YAML("just words"), "/accelerate_config", "object"},
    {YAML(""), "/accelerate_config", "object"},
    {"{" OPT "," GPU ",\"deepspeed_config\":\"{\"}", "/deepspeed_config", "line"},
    {"{" OPT "," GPU ",\"deepspeed_config\":[]}", "/deepspeed_config", "object"},
    {TRAIN("\"lora_rank\":16,\"lora\":{\"rank\":16}"), "/training/lora_rank", "another name"},
};

START_TEST(refuses)
{
    struct reply reply = ask(refused[_i].body);

    ck_assert_msg(reply.r.status == 422 && !strcmp(reply_text(&reply, "pointer"), refused[_i].pointer) &&
                      strstr(reply_text(&reply, "detail"), refused[_i].says),
                  "%s: %d at '%s': %s", refused[_i].body, reply.r.status, reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    reply_done(reply);
}
END_TEST

/* Known and no memory in it: silent. What stands around the step: one line. */
static const struct {
    const char *body, *says; /* NULL: no warning */
} noted[] = {
    {ARGS("\"learning_rate\":1e-4,\"output_dir\":\"x\",\"num_train_epochs\":3,\"report_to\":\"none\",\"seed\":1,\"debug\":\"\""), NULL},
    {ARGS("\"neftune_noise_alpha\":null"), NULL},
    {ARGS("\"eval_strategy\":\"no\""), NULL},
    {ARGS("\"eval_strategy\":\"steps\""), "evaluation"},
    {DS("\"steps_per_print\":10,\"wall_clock_breakdown\":false,\"zero_allow_untested_optimizer\":true"), NULL},
    {ZERO("\"stage\":3,\"zero_quantized_weights\":false"), NULL},
};

START_TEST(notes)
{
    struct reply reply = ask(noted[_i].body);
    const char *first = json_str(reply_at(&reply, "warnings/0"));

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(noted[_i].says ? first && strstr(first, noted[_i].says) : !first, "%s: %s", noted[_i].body, first);
    reply_done(reply);
}
END_TEST

static const struct their_key *const tables[] = {deepspeed_keys,   accelerate_keys, trainer_keys,          fsdp_keys,
                                                 parallelism_keys, peft_keys,       theirs_model_init_keys};

/* How often a name stands in a table and those within it. */
static unsigned count_name(const struct their_key *row, const char *name, size_t n)
{
    unsigned ret = 0;

    for (; row->names; row++)
        if (row->effect == ALSO) {
            ret += count_name(row->keys, name, n);
        } else {
            for (const char *s = row->names; *s; s += strcspn(s, "|") + (s[strcspn(s, "|")] == '|'))
                ret += strcspn(s, "|") == n && !memcmp(s, name, n);
        }
    return ret;
}

static void check_names(const struct their_key *table, const struct their_key *row)
{
    for (; row->names; row++) {
        if (row->effect == ALSO) {
            check_names(table, row->keys);
            continue;
        }
        for (const char *s = row->names; *s;) {
            size_t n = strcspn(s, "|");

            ck_assert_msg(count_name(table, s, n) == 1, "%.*s stands in two rows: the second is never read", (int)n, s);
            s += n + (s[n] == '|');
        }
    }
}

START_TEST(each_name_has_one_row)
{
    check_names(tables[_i], tables[_i]);
}
END_TEST

UNIT_TESTS("api/theirs", unit_rows(each_name_has_one_row, tables); unit_rows(becomes, means); unit_rows(refuses, refused);
           unit_rows(notes, noted);)
