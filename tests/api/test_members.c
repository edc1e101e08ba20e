/* Nothing is left out in silence: real members of every release are known, typing errors are refused, what has no model is named. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A model that has no program: what is read is the same, and nothing is computed. */
#define QUICK "\"config\":{\"model_type\":\"xlnet\"},\"cluster\":{\"gpu\":\"A100-40GB\",\"host_memory_bytes_per_node\":1099511627776}"
#define WITH(member) "{" QUICK ",\"" member "\":"
#define IN_ARGS WITH("training_arguments") "{%s}}"
#define IN_TRAINING WITH("training") "{%s}}"
#define IN_LORA WITH("training") "{\"tuning\":\"lora\",\"lora\":{%s}}}"
#define IN_ZERO WITH("deepspeed_config") "{\"zero_optimization\":{\"stage\":3,%s}}}"
#define IN_DEEPSPEED WITH("deepspeed_config") "{%s}}"
#define IN_ACCELERATE WITH("accelerate_config") "{\"distributed_type\":\"FSDP\",%s}}"
#define IN_FSDP WITH("accelerate_config") "{\"distributed_type\":\"FSDP\",\"fsdp_config\":{%s}}}"
#define IN_FILE(framework, format) WITH("framework_config") "{\"framework\":\"" framework "\",\"text\":\"" format "\"}}"
#define AT_TOP "{" QUICK ",%s}"

enum { BODY = 1024, ROOM = 16 << 20 }; /* nothing is computed: a little memory is enough */

/* As it stands within a text. */
static const char *quoted(const char *member, char text[BODY])
{
    size_t n = 0;

    for (; *member; member++) {
        ck_assert_uint_lt(n, BODY - 3);
        if (*member == '"' || *member == '\\')
            text[n++] = '\\';
        text[n++] = *member;
    }
    text[n] = 0;
    return text;
}

/* A body is a format with one place for members. */
static struct reply ask_in(const char *format, const char *member)
{
    char body[BODY], text[BODY];

    if (strstr(format, "framework_config"))
        member = quoted(member, text);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    ck_assert_int_lt(snprintf(body, sizeof body, format, member), BODY);
#pragma GCC diagnostic pop
    return ask_within(ROOM, "POST", "/estimate", NULL, body);
}

static bool lists(const struct reply *reply, const char *list, const char *pointer)
{
    json_each(v, json_get(reply->doc, list))
        if (!pointer || !strcmp(json_str(v), pointer))
            return true;
    return false;
}

/* --- every field of every config, as its source has it -------------------------------------------------------------------------------- */

static const struct {
    const char *file, *format;
    bool trains_plainly; /* its defaults are what is modelled */
} files[] = {
    {"transformers_5.23", IN_ARGS, true},
    {"transformers_4.53", IN_ARGS, true},
    {"transformers_4.48", IN_ARGS, true},
    {"transformers_4.40", IN_ARGS, true},
    {"trl_1.16_sft", IN_ARGS, true},
    {"trl_0.23_sft", IN_ARGS, true},
    {"trl_0.19_sft", IN_ARGS, true},
    {"trl_0.12_sft", IN_ARGS, true},
    {"trl_1.16_model", IN_ARGS, true},
    {"trl_1.16_dpo", IN_ARGS, false},
    {"trl_1.16_kto", IN_ARGS, false},
    {"trl_1.16_reward", IN_ARGS, false},
    {"trl_1.16_grpo", IN_ARGS, false},
    {"trl_1.16_rloo", IN_ARGS, false},
    {"trl_1.16_distillation", IN_ARGS, false},
    {"llama_factory_0.9.5", IN_ARGS, true},
    {"axolotl_0.19", IN_ARGS, false},
    {"ms_swift_4.6", IN_FILE("ms-swift", "{%s}"), false},
    {"open_instruct", IN_FILE("open-instruct", "{%s}"), true},
    {"oumi_0.9_model", IN_FILE("oumi", "{\\\"model\\\":{%s}}"), true},
    {"oumi_0.9_training", IN_FILE("oumi", "{\\\"training\\\":{%s}}"), true},
    {"oumi_0.9_peft", IN_FILE("oumi", "{\\\"peft\\\":{%s}}"), true},
    {"oumi_0.9_fsdp", IN_FILE("oumi", "{\\\"fsdp\\\":{\\\"enable_fsdp\\\":true,%s}}"), false},
    {"oumi_0.9_deepspeed", IN_FILE("oumi", "{\\\"deepspeed\\\":{\\\"enable_deepspeed\\\":true,%s}}"), false},
    {"peft_0.21_lora", IN_LORA, true},
    {"deepspeed_0.19_zero", IN_ZERO, true},
    {"accelerate_1.15", IN_ACCELERATE, true},
    {"transformers_5.23", IN_TRAINING, true},
};

/* trl's default loss is none of the Trainer's; LLaMA-Factory's MoE and quantisation words stand for what is not asked. */
static bool is_of_its_own(const char *name)
{
    return !strcmp(name, "loss_type");
}

static void check_field(const char *file, const char *format, const char *name, const char *value, bool plain)
{
    char member[288];
    struct reply reply;

    (void)snprintf(member, sizeof member, "\"%s\":%s", name, strcmp(value, "-") ? value : "1");
    reply = ask_in(format, member);
    if (format == (const char *)files[sizeof files / sizeof *files - 1].format) /* within training some have a name of ours */
        ck_assert_msg(reply.r.status == 200 || reply_text(&reply, "did_you_mean")[0], "%s: %s", name, reply.r.body);
    else if (strcmp(value, "-"))
        ck_assert_msg(reply.r.status == 200, "%s %s: %s", file, member, reply.r.body);
    else
        ck_assert_msg(strcmp(reply_text(&reply, "code"), "unknown-member"), "%s %s: %s", file, member, reply.r.body);
    ck_assert_msg(!lists(&reply, "ignored", NULL), "%s %s is not known", file, member);
    if (plain && strcmp(value, "-") && !is_of_its_own(name))
        ck_assert_msg(!lists(&reply, "not_in_figures", NULL), "%s %s: %s", file, member, json_str(reply_at(&reply, "not_in_figures/0")));
    reply_done(reply);
}

START_TEST(knows_every_field)
{
    char path[128], line[256], name[128], value[128];
    unsigned n = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "tests/data/members/%s.txt", files[_i].file);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        ck_assert_int_eq(sscanf(line, "%127s %127[^\n]", name, value), 2);
        check_field(files[_i].file, files[_i].format, name, value, files[_i].trains_plainly);
        n++;
    }
    fclose(f);
    ck_assert_uint_ge(n, 10);
}
END_TEST

/* --- names that nobody has ------------------------------------------------------------------------------------------------------------- */

/* meant: 422 with it; "": listed in `ignored`. */
static const struct {
    const char *format, *name, *meant;
} names[] = {
    {IN_ARGS, "learning_rat", "learning_rate"},
    {IN_ARGS, "learnig_rate", "learning_rate"},
    {IN_ARGS, "Learning_Rate", "learning_rate"},
    {IN_ARGS, "per_device_train_batchsize", "per_device_train_batch_size"},
    {IN_ARGS, "per_device_train_bacth_size", "per_device_train_batch_size"},
    {IN_ARGS, "gradient_acumulation_steps", "gradient_accumulation_steps"},
    {IN_ARGS, "gradient_accumulation_step", "gradient_accumulation_steps"},
    {IN_ARGS, "gradient_chekpointing", "gradient_checkpointing"},
    {IN_ARGS, "gradient_checkpointng", "gradient_checkpointing"},
    {IN_ARGS, "gradient_checkpointing_kwarg", "gradient_checkpointing_kwargs"},
    {IN_ARGS, "max_lenght", "max_length"},
    {IN_ARGS, "max_seq_lenght", "max_seq_length"},
    {IN_ARGS, "optmi", "optim"},
    {IN_ARGS, "pakcing", "packing"},
    {IN_ARGS, "packin", "packing"},
    {IN_ARGS, "neftune_noise_alfa", "neftune_noise_alpha"},
    {IN_ARGS, "use_liger_kernels", "use_liger_kernel"},
    {IN_ARGS, "torch_complie", "torch_compile"},
    {IN_ARGS, "weight_decy", "weight_decay"},
    {IN_ARGS, "save_step", "save_steps"},
    {IN_ARGS, "cutof_len", "cutoff_len"},
    {IN_ARGS, "sample_paking", "sample_packing"},
    {IN_ARGS, "lora_targets", "lora_target"},
    {IN_ARGS, "batch_size", "per_device_train_batch_size"},
    {IN_ARGS, "sequence_length", "max_length"},
    {IN_ARGS, "grad_accum", "gradient_accumulation_steps"},
    {IN_ARGS, "seq_len", "/training/seq_len"},
    {IN_TRAINING, "seq_lenn", "seq_len"},
    {IN_TRAINING, "sequence_length", "seq_len"},
    {IN_TRAINING, "batch_size", "micro_batch_size"},
    {IN_TRAINING, "micro_batchsize", "micro_batch_size"},
    {IN_TRAINING, "precission", "precision"},
    {IN_TRAINING, "attenton", "attention"},
    {IN_TRAINING, "optimzier", "optimizer"},
    {IN_TRAINING, "methdos", "methods"},
    {IN_TRAINING, "grad_clip", "max_grad_norm"},
    {IN_TRAINING, "mixed_precision", "precision"},
    {IN_TRAINING, "sample_packing", "packing"},
    {IN_TRAINING, "zero_stage", "methods"},
    {IN_TRAINING, "gpus", "/cluster/gpus_per_node"},
    {IN_TRAINING, "lora_rnak", "lora_rank"},
    {IN_LORA, "taget_modules", "target_modules"},
    {IN_LORA, "dropuot", "dropout"},
    {IN_LORA, "lora_drop", ""},
    {AT_TOP, "trainig", "training"},
    {AT_TOP, "seq_len", "/training/seq_len"},
    {AT_TOP, "model_name_or_path", "model"},
    {AT_TOP, "optimizer", "/training/optimizer"},
    {AT_TOP, "batch_size", "/training/micro_batch_size"},
    {IN_DEEPSPEED, "zero_optimisation", "zero_optimization"},
    {IN_DEEPSPEED, "zero_optimizaton", "zero_optimization"},
    {IN_DEEPSPEED, "train_micro_batch_size_per_gpus", "train_micro_batch_size_per_gpu"},
    {IN_DEEPSPEED, "gradient_cliping", "gradient_clipping"},
    {IN_ZERO, "ofload_optimizer", "offload_optimizer"},
    {IN_ZERO, "offload_params", "offload_param"},
    {IN_ZERO, "overlap_com", "overlap_comm"},
    {IN_ZERO, "reduce_bukcet_size", "reduce_bucket_size"},
    {IN_ACCELERATE, "mixed_precison", "mixed_precision"},
    {IN_ACCELERATE, "num_procesess", "num_processes"},
    {IN_FSDP, "fsdp_ofload_params", "fsdp_offload_params"},
    {IN_FSDP, "fsdp_sharding_stategy", "fsdp_sharding_strategy"},
    {IN_ARGS, "my_own_flag", ""},
    {IN_ARGS, "lrr", ""},
    {IN_ARGS, "x", ""},
    {IN_ARGS, "completely_else_where", ""},
    {IN_ARGS, "wandb_notebook_url", ""},
    {IN_TRAINING, "comment", ""},
    {IN_TRAINING, "experiment", ""},
    {IN_TRAINING, "a/b~c", ""},
    {IN_LORA, "colour", ""},
    {AT_TOP, "name", ""},
    {AT_TOP, "notes_to_self", ""},
    {AT_TOP, "metadata", ""},
    {IN_DEEPSPEED, "my_scheduler_hint", ""},
    {IN_ZERO, "stage4_is_near", ""},
    {IN_FSDP, "fsdp_origin_params", ""},
};

/* LLaMA-Factory derives a field of this name: whoever says it in a request is told that it moves nothing. */
START_TEST(a_dtype_of_products_is_left_out)
{
    struct reply reply = ask_in(IN_TRAINING, "\"compute_dtype\":\"fp32\"");
    const char *pointer = json_str(reply_at(&reply, "not_in_figures/0"));

    ck_assert_msg(reply.r.status == 200 && pointer && !strcmp(pointer, "/training/compute_dtype"), "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(tells_typing_errors_from_other_names)
{
    char member[128];
    struct reply reply;

    (void)snprintf(member, sizeof member, "\"%s\":1", names[_i].name);
    reply = ask_in(names[_i].format, member);
    if (names[_i].meant[0]) {
        ck_assert_msg(reply.r.status == 422 && !strcmp(reply_text(&reply, "code"), "unknown-member"), "%s: %s", names[_i].name, reply.r.body);
        ck_assert_str_eq(reply_text(&reply, "did_you_mean"), names[_i].meant);
        ck_assert_ptr_nonnull(strstr(reply_text(&reply, "pointer"), names[_i].name));
    } else {
        const char *pointer = json_str(reply_at(&reply, "ignored/0"));

        ck_assert_msg(reply.r.status == 200 && pointer, "%s: %s", names[_i].name, reply.r.body);
        ck_assert_uint_eq(json_count(json_get(reply.doc, "ignored")), 1);
        ck_assert_msg(!strcmp(names[_i].name, "a/b~c") ? !strcmp(pointer, "/training/a~1b~0c") : strstr(pointer, names[_i].name) != NULL, "%s", pointer);
    }
    reply_done(reply);
}
END_TEST

START_TEST(refuses_the_rest_when_strict)
{
    static const char *const paths[] = {"/estimate?strict=true", "/estimate?strict=true&foo_bar=1"};
    static const char *const bodies[] = {"{" QUICK ",\"training_arguments\":{\"my_own_flag\":1}}", "{" QUICK "}"};

    for (int i = 0; i < 2; i++) {
        struct reply reply = ask_within(API_ARENA_BYTES, "POST", paths[i], NULL, bodies[i]);

        ck_assert_msg(reply.r.status == 422, "%s", reply.r.body);
        ck_assert_str_eq(reply_text(&reply, "code"), "unknown-member");
        ck_assert_str_eq(reply_text(&reply, i ? "parameter" : "pointer"), i ? "foo_bar" : "/training_arguments/my_own_flag");
        reply_done(reply);
    }
}
END_TEST

START_TEST(refuses_a_parameter_of_a_query)
{
    struct reply reply = ask_get("/estimate?model=facebook/opt-125m&gpu=A100-40GB&seq_lne=512");

    ck_assert_int_eq(reply.r.status, 422);
    ck_assert_str_eq(reply_text(&reply, "did_you_mean"), "seq_len");
    reply_done(reply);
}
END_TEST

/* --- what has no model ------------------------------------------------------------------------------------------------------------------ */

#define REAL "\"model\":\"facebook/opt-125m\",\"cluster\":{\"gpu\":\"A100-40GB\",\"host_memory_bytes_per_node\":1099511627776}"
#define ARGS(inner) "{" REAL ",\"training_arguments\":{" inner "}}"
#define DS(inner) "{" REAL ",\"deepspeed_config\":{" inner "}}"
#define ACC(inner) "{" REAL ",\"accelerate_config\":{\"distributed_type\":\"FSDP\"," inner "}}"

/* One option in one place: its pointer, and no figures. */
static const struct {
    const char *body, *pointer;
} gaps[] = {
    {TRAIN("\"stage\":\"grpo\""), "/training/stage"},
    {TRAIN("\"stage\":\"ppo\""), "/training/stage"},
    {TRAIN("\"images\":{\"per_sequence\":1,\"height\":448,\"width\":448}"), "/training/images"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"use_qalora\":true}"), "/training/lora/use_qalora"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"peft_type\":\"IA3\"}"), "/training/lora/peft_type"},
    {TRAIN("\"tuning\":\"ia3\""), "/training/tuning"},
    {TRAIN("\"tuning\":\"prefix_tuning\""), "/training/tuning"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"lora_bias\":true}"), "/training/lora/lora_bias"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"layer_replication\":[[0,4],[2,5]]}"), "/training/lora/layer_replication"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"trainable_token_indices\":[0,1]}"), "/training/lora/trainable_token_indices"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"init_lora_weights\":\"pissa\"}"), "/training/lora/init_lora_weights"},
    {TRAIN("\"optimizer\":\"galore_adamw\""), "/training/optimizer"},
    {TRAIN("\"methods\":\"ep+fsdp2\",\"expert_parallel\":2"), "/training/methods"},
    {TRAIN("\"context_parallel\":2"), "/training/context_parallel"},
    {TRAIN("\"methods\":\"ddp\",\"precision\":\"bf16-mixed\",\"reduce_dtype\":\"bf16\""), "/training/reduce_dtype"},
    {TRAIN("\"methods\":\"zero2\",\"precision\":\"bf16\",\"reduce_dtype\":\"fp32\""), "/training/reduce_dtype"},
    {TRAIN("\"neftune_noise_alpha\":5"), "/training/neftune_noise_alpha"},
    {"{" REAL ",\"stack\":{\"framework\":\"trl\"}}", "/stack/framework"},
    {"{" REAL ",\"stack\":{\"framework\":\"LLaMA_Factory\"}}", "/stack/framework"},
    {"{" REAL ",\"framework_config\":{\"framework\":\"axolotl\",\"text\":\"rl: ipo\"}}", "/framework_config/text/rl"},
    {"{" REAL ",\"framework_config\":{\"framework\":\"torchtune\",\"text\":\"batch_size: 2\"}}", "/framework_config/framework"},
    {"{" REAL ",\"config\":{\"quantization_config\":{\"bits\":4}}}", "/config/quantization_config"},
    {ARGS("\"neat_packing\":true,\"flash_attn\":\"fa3\""), "/training_arguments/neat_packing"},
    {ARGS("\"packing\":true,\"packing_strategy\":\"wrapped\""), "/training_arguments/packing_strategy"},
    {ARGS("\"plugins\":[\"axolotl.integrations.spectrum.SpectrumPlugin\"]"), "/training_arguments/plugins"},
    {ARGS("\"rl\":\"ipo\""), "/training_arguments/rl"},
    {ARGS("\"rl\":\"ipo\""), "/training_arguments/rl"},
    {ARGS("\"stage\":\"ppo\""), "/training_arguments/stage"},
    {ARGS("\"stage\":\"dpo\",\"pref_loss\":\"ipo\""), "/training_arguments/stage"},
    {ARGS("\"loss_type\":\"dft\""), "/training_arguments/loss_type"},
    {ARGS("\"beta\":0.1"), "/training_arguments/beta"},
    {ARGS("\"precompute_ref_log_probs\":true"), "/training_arguments/precompute_ref_log_probs"},
    {ARGS("\"num_generations\":8"), "/training_arguments/num_generations"},
    {ARGS("\"use_unsloth\":true"), "/training_arguments/use_unsloth"},
    {ARGS("\"quantization_bit\":8,\"quantization_method\":\"hqq\""), "/training_arguments/quantization_method"},
    {ARGS("\"liger_use_token_scaling\":true"), "/training_arguments/liger_use_token_scaling"},
    {ARGS("\"adapter\":\"lora\",\"unfrozen_parameters\":[\"lm_head\"]"), "/training_arguments/unfrozen_parameters"},
    {ARGS("\"neftune_noise_alpha\":5"), "/training_arguments/neftune_noise_alpha"},
    {ARGS("\"label_smoothing_factor\":0.1"), "/training_arguments/label_smoothing_factor"},
    {ARGS("\"torch_compile_mode\":\"max-autotune\""), "/training_arguments/torch_compile_mode"},
    {ARGS("\"torch_compile_backend\":\"cudagraphs\""), "/training_arguments/torch_compile_backend"},
    {ARGS("\"optim\":\"galore_adamw\""), "/training_arguments/optim"},
    {ARGS("\"full_determinism\":true"), "/training_arguments/full_determinism"},
    {ARGS("\"torch_empty_cache_steps\":1"), "/training_arguments/torch_empty_cache_steps"},
    {ARGS("\"split_batches\":true"), "/training_arguments/split_batches"},
    {ARGS("\"accelerator_config\":{\"split_batches\":true}"), "/training_arguments/accelerator_config/split_batches"},
    {ARGS("\"gradient_checkpointing\":true,\"gradient_checkpointing_kwargs\":{\"early_stop\":false}"),
     "/training_arguments/gradient_checkpointing_kwargs/early_stop"},
    {ARGS("\"model_init_kwargs\":{\"use_kernels\":true}"), "/training_arguments/model_init_kwargs/use_kernels"},
    {ARGS("\"fsdp\":\"full_shard\",\"fsdp_config\":{\"min_num_params\":100000000}"), "/training_arguments/fsdp_config/min_num_params"},
    {ARGS("\"deepspeed\":{\"zero_optimization\":{\"stage\":3,\"zero_quantized_weights\":true}}"),
     "/training_arguments/deepspeed/zero_optimization/zero_quantized_weights"},
    {DS("\"zero_optimization\":{\"stage\":3,\"zero_hpz_partition_size\":8}"), "/deepspeed_config/zero_optimization/zero_hpz_partition_size"},
    {DS("\"zero_optimization\":{\"stage\":2,\"contiguous_gradients\":false}"), "/deepspeed_config/zero_optimization/contiguous_gradients"},
    {ARGS("\"attn_implementation\":\"kernels-community/paged-attention\""), "/training_arguments/attn_implementation"},
    {ARGS("\"optimizer\":\"muon\""), "/training_arguments/optimizer"},
    {ARGS("\"gradient_checkpointing\":\"unsloth\""), "/training_arguments/gradient_checkpointing"},
    {ARGS("\"activation_offloading\":\"disk\""), "/training_arguments/activation_offloading"},
    {ARGS("\"finetuning_type\":\"oft\""), "/training_arguments/finetuning_type"},
    {ARGS("\"adapter\":\"lora\",\"lora_target_linear\":true,\"lora_target_modules\":[\"q_proj\",\"lm_head\"]"),
     "/training_arguments/lora_target_modules"},
    {DS("\"zero_optimization\":{\"stage\":3,\"offload_optimizer\":{\"device\":\"nvme\"}}"), "/deepspeed_config/zero_optimization/offload_optimizer/device"},
    {DS("\"zero_optimization\":{\"stage\":2,\"offload_optimizer\":{\"device\":\"cpu\",\"ratio\":0.3}}"),
     "/deepspeed_config/zero_optimization/offload_optimizer/ratio"},
    {DS("\"zero_optimization\":{\"stage\":2},\"communication_data_type\":\"fp32\""), "/deepspeed_config/communication_data_type"},
    {DS("\"zero_optimization\":{\"stage\":2},\"data_types\":{\"grad_accum_dtype\":\"fp32\"}"), "/deepspeed_config/data_types/grad_accum_dtype"},
    {DS("\"zero_optimization\":{\"stage\":2},\"wall_clock_breakdown\":true"), "/deepspeed_config/wall_clock_breakdown"},
    {DS("\"zero_optimization\":{\"stage\":2},\"flops_profiler\":{\"enabled\":true}"), "/deepspeed_config/flops_profiler"},
    {DS("\"zero_optimization\":{\"stage\":2},\"compile\":{\"deepcompile\":true}"), "/deepspeed_config/compile/deepcompile"},
    {ACC("\"fsdp_config\":{\"fsdp_auto_wrap_policy\":\"SIZE_BASED_WRAP\"}"), "/accelerate_config/fsdp_config/fsdp_auto_wrap_policy"},
    {ACC("\"fsdp_config\":{\"fsdp_transformer_layer_cls_to_wrap\":\"OPTDecoderLayer,Embedding\"}"),
     "/accelerate_config/fsdp_config/fsdp_transformer_layer_cls_to_wrap"},
    {ACC("\"fp8_config\":{\"backend\":\"TE\"}"), "/accelerate_config/fp8_config"},
    {ACC("\"dynamo_config\":{\"dynamo_backend\":\"AOT_EAGER\"}"), "/accelerate_config/dynamo_config/dynamo_backend"},
    {ACC("\"dynamo_config\":{\"dynamo_backend\":\"INDUCTOR\",\"dynamo_mode\":\"max-autotune\"}"), "/accelerate_config/dynamo_config/dynamo_mode"},
    {ACC("\"parallelism_config\":{\"parallelism_config_sp_size\":2}"), "/accelerate_config/parallelism_config/parallelism_config_sp_size"},
};

START_TEST(gives_no_figures_to_what_has_no_model)
{
    struct reply reply = ask(gaps[_i].body);

    ck_assert_msg(reply.r.status == 200, "%s: %s", gaps[_i].body, reply.r.body);
    ck_assert_msg(lists(&reply, "not_in_figures", gaps[_i].pointer), "%s: %s", gaps[_i].body, json_str(reply_at(&reply, "not_in_figures/0")));
    ck_assert_msg(json_type(json_get(reply.doc, "fits")) == JSON_NULL, "%s has figures", gaps[_i].body);
    json_each(c, json_get(reply.doc, "candidates")) {
        ck_assert_ptr_null(json_get(c, "memory"));
        ck_assert_str_eq(json_str(json_get(json_get(c, "reason"), "code")), "not-modelled");
    }
    ck_assert(!reply.r.modelled);
    reply_done(reply);
}
END_TEST

/* The value that changes nothing, or what takes no memory: figures, and nothing listed. */
static const char *const plain[] = {
    TRAIN("\"packing\":false,\"stage\":\"sft\",\"reference\":\"none\",\"freeze\":[],\"expert_skew\":1,\"images\":{\"per_sequence\":0},\"compile\":false"),
    TRAIN("\"tuning\":\"lora\",\"lora\":{\"use_dora\":false,\"bias\":\"none\",\"rank_pattern\":{},\"alpha_pattern\":null,\"layers_to_transform\":[],\"layers_pattern\":null,\"exclude_modules\":[],\"task_type\":\"CAUSAL_LM\",\"use_rslora\":true}"),
    TRAIN("\"tuning\":\"full\",\"lora\":{\"use_dora\":true}"),
    TRAIN("\"learning_rate\":1e-4,\"num_train_epochs\":3,\"warmup_steps\":10"),
    TRAIN("\"context_parallel\":1,\"expert_parallel\":1"),
    TRAIN("\"methods\":[\"ddp\"],\"precision\":\"bf16-mixed\",\"reduce_dtype\":\"fp32\""),
    TRAIN("\"methods\":\"fsdp2\",\"reduce_dtype\":\"fp32\""),
    ARGS("\"packing\":false,\"packing_strategy\":\"bfd\",\"padding_free\":false,\"assistant_only_loss\":true,\"dataset_num_proc\":8"),
    ARGS("\"neftune_noise_alpha\":null,\"label_smoothing_factor\":0.0,\"torch_compile\":false,\"ddp_backend\":\"nccl\",\"past_index\":-1"),
    ARGS("\"plugins\":[\"axolotl.integrations.swanlab.SwanLabPlugin\"]"),
    ARGS("\"plugins\":[],\"rl\":null,\"sample_packing\":false,\"unfrozen_parameters\":[],\"fp8\":false,\"gptq\":false"),
    ARGS("\"stage\":\"sft\",\"use_dora\":false,\"use_unsloth\":\"no\",\"flash_attn\":\"auto\",\"ddp_find_unused_parameters\":false"),
    ARGS("\"model_init_kwargs\":{\"dtype\":\"auto\"},\"fsdp\":\"\",\"debug\":\"\",\"half_precision_backend\":\"auto\""),
    DS("\"zero_optimization\":{\"stage\":2,\"contiguous_gradients\":true,\"reduce_scatter\":true,\"allgather_partitions\":true,\"round_robin_gradients\":false},"
       "\"bf16\":{\"enabled\":true},\"communication_data_type\":\"bf16\",\"prescale_gradients\":false,\"gradient_predivide_factor\":1.0"),
    DS("\"zero_optimization\":{\"stage\":3,\"stage3_max_reuse_distance\":1e9,\"stage3_gather_16bit_weights_on_model_save\":true,\"zero_hpz_partition_size\":1},"
       "\"comms_logger\":{\"enabled\":false,\"verbose\":true},\"data_types\":{\"grad_accum_dtype\":null},\"compile\":{\"deepcompile\":false}"),
    ARGS("\"adapter\":\"lora\",\"lora_target_linear\":true,\"lora_target_modules\":[\"q_proj\"]"),
    ARGS("\"adapter\":\"lora\",\"lora_target_linear\":true,\"lora_target_modules\":[]"),
    DS("\"zero_optimization\":{\"stage\":3,\"round_robin_gradients\":true,\"sub_group_size\":0}"),
    ACC("\"mixed_precision\":\"bf16\",\"use_cpu\":false,\"fsdp_config\":{\"fsdp_auto_wrap_policy\":\"TRANSFORMER_BASED_WRAP\","
        "\"fsdp_transformer_layer_cls_to_wrap\":\"OPTDecoderLayer\",\"fsdp_min_num_params\":0}"),
};

START_TEST(lists_nothing_that_changes_nothing)
{
    struct reply reply = ask(plain[_i]);

    ck_assert_msg(reply.r.status == 200, "%s: %s", plain[_i], reply.r.body);
    ck_assert_msg(!lists(&reply, "not_in_figures", NULL), "%s: %s", plain[_i], json_str(reply_at(&reply, "not_in_figures/0")));
    ck_assert_msg(!lists(&reply, "ignored", NULL), "%s: %s", plain[_i], json_str(reply_at(&reply, "ignored/0")));
    ck_assert_msg(reply.r.modelled, "%s: %s", plain[_i], reply.r.body);
    reply_done(reply);
}
END_TEST

/* Of a list the others keep their figures, and they are those of the question without it. */
START_TEST(leaves_the_others_as_they_are)
{
    struct reply both = ask(TRAIN("\"micro_batch_size\":2,\"tuning\":\"full\",\"gradient_checkpointing\":false,\"optimizer\":[\"adamw_torch_fused\",\"galore_adamw\"]"));
    struct reply one = ask(TRAIN("\"micro_batch_size\":2,\"tuning\":\"full\",\"gradient_checkpointing\":false,\"optimizer\":\"adamw_torch_fused\""));
    struct reply kinds = ask(TRAIN("\"micro_batch_size\":2,\"tuning\":[\"full\",\"lora\"],\"gradient_checkpointing\":false,\"lora\":{\"use_qalora\":true}"));
    char a[64], b[64];

    reply_value(&both, "recommendation/memory/peak_allocated_bytes", a);
    reply_value(&one, "recommendation/memory/peak_allocated_bytes", b);
    ck_assert_str_eq(a, b);
    reply_value(&kinds, "recommendation/memory/peak_allocated_bytes", a);
    ck_assert_str_eq(a, b);
    ck_assert(lists(&both, "not_in_figures", "/training/optimizer/1"));
    ck_assert(lists(&kinds, "not_in_figures", "/training/lora/use_qalora"));
    ck_assert_ptr_null(reply_at(&kinds, "candidates/1/memory"));
    reply_done(both);
    reply_done(one);
    reply_done(kinds);
}
END_TEST

/* --- time -------------------------------------------------------------------------------------------------------------------------------- */

static double seconds_of(const char *name, bool distinct, int members)
{
    char *body = malloc((size_t)members * 16 + 1024), *p = body;
    struct reply reply;
    clock_t begin;

    p += sprintf(p, "{" QUICK ",\"%s\":{", name);
    for (int i = 0; i < members; i++)
        p += sprintf(p, distinct ? "%s\"qz%d\":1" : "%s\"seed\":1", i ? "," : "", i);
    (void)sprintf(p, "}}");
    begin = clock();
    reply = ask_within(4 * (size_t)ROOM, "POST", "/estimate", NULL, body);
    ck_assert_msg(reply.r.status == 200, "%.300s", reply.r.body);
    ck_assert_uint_eq(json_count(json_get(reply.doc, "ignored")), distinct ? (size_t)members : 0);
    reply_done(reply);
    free(body);
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

/* Eight times the members: eight times as long, give or take; sixty times where it is quadratic. */
START_TEST(reads_many_members_in_time)
{
    static const char *const objects[] = {"training", "training_arguments"};

    for (int distinct = 0; distinct < 2; distinct++)
        ck_assert_double_lt(seconds_of(objects[_i], distinct, 56000), 20 * seconds_of(objects[_i], distinct, 7000) + 0.2);
}
END_TEST

UNIT_TESTS("api/members",
    tcase_set_timeout(unit_.tcase, 60);
    unit_rows(knows_every_field, files);
    unit_rows(tells_typing_errors_from_other_names, names);
    unit_test(a_dtype_of_products_is_left_out);
    unit_test(refuses_the_rest_when_strict);
    unit_test(refuses_a_parameter_of_a_query);
    unit_rows(gives_no_figures_to_what_has_no_model, gaps);
    unit_rows(lists_nothing_that_changes_nothing, plain);
    unit_test(leaves_the_others_as_they_are);
    tcase_add_loop_test(unit_.tcase, reads_many_members_in_time, 0, 2);
)
