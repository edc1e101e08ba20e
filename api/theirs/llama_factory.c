/*
 * What LLaMA-Factory's YAML has beside TrainingArguments.
 *
 * Source    llamafactory 0.9.5 hparams/{finetuning,model,data,training,generating}_args.py (every field is here) and model/model_utils.
 */
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <string.h>

/* "q_proj,v_proj", "all", or a list. */
static enum err_code read_targets(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    char text[2048] = "[";
    size_t used = 1;

    if (!s || word_among("all|all-linear", s, strlen(s), true))
        return theirs_say(t, key->member, v);
    for (size_t n; *s; s += n + (s[n] == ',')) {
        s += strspn(s, " ");
        n = strcspn(s, ",");
        if (used + n + 8 > sizeof text || memchr(s, '"', n) || memchr(s, '\\', n))
            return decode_fail(&t->d, ERR_FIELD_VALUE, "is no list of modules");
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%.*s\"", used > 1 ? "," : "", (int)n, s);
    }
    (void)snprintf(text + used, sizeof text - used, "]");
    return theirs_say_text(t, key->member, text);
}

/* LLaMA-Factory model_utils/quantization.py: 4 bits are nf4, doubly quantised unless told otherwise. */
static enum err_code read_bits(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool twice = true;
    uint64_t bits;

    (void)theirs_flag(json_get(t->doc, "double_quantization"), &twice);
    if (!json_uint64(v, &bits) || (bits != 4 && bits != 8))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "4 and 8 are known");
    return theirs_say_word(t, key->member, bits == 8 ? "int8" : twice ? "nf4-dq" : "nf4");
}

static enum err_code read_flash_attn(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const struct {
        const char *theirs, *ours;
    } words[] = {{"fa2", "flash_attention_2"}, {"sdpa", "sdpa"}, {"disabled", "eager"}, {"fa3", "flash_attention_3"}};
    const char *s = json_str(v);

    for (size_t i = 0; s && i < sizeof words / sizeof *words; i++)
        if (!strcmp(s, words[i].theirs))
            return theirs_say_word(t, key->member, words[i].ours);
    return s && !strcmp(s, "auto") ? ERR_OK : decode_fail(&t->d, ERR_FIELD_VALUE, "auto, disabled, sdpa, fa2 and fa3 are known");
}

/* "a,b", or a list; in the arena. */
static enum err_code text_of_list(struct theirs *t, const struct json *v, const char *none, const char **ret)
{
    char text[512] = "";
    size_t n = 0, i = 0;

    if (json_type(v) == JSON_ARRAY)
        json_each (e, v)
            n += n < sizeof text && json_str(e) ? (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "," : "", json_str(e)) : 0;
    else if (json_str(v))
        n = (size_t)snprintf(text, sizeof text, "%s", json_str(v));
    if (!n)
        n = (size_t)snprintf(text, sizeof text, "%s", none);
    if (n >= sizeof text)
        return decode_fail(&t->d, ERR_FIELD_RANGE, "names too many modules");
    for (size_t k = 0; k < n; k++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-,", text[k])) /* and nothing that a pattern would read */
            text[i++] = text[k];
    *ret = arena_str(t->e->call->arena, text, i);
    return *ret ? ERR_OK : decode_fail(&t->d, ERR_NOMEM, "no room for the request");
}

/* finetuning_type freeze: model/adapter.py _setup_freeze_tuning; which layers that is, theirs_resolve() says, who knows how many there are. */
static enum err_code read_part(struct theirs *t, const struct their_key *key)
{
    const struct json *layers = json_get(t->doc, "freeze_trainable_layers");
    double n = 2;
    enum err_code rc;

    if (layers && (!json_number(layers, &n) || n < -4096 || n > 4096))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "freeze_trainable_layers is a number of layers");
    t->e->part.layers = n < 0 || n > 0 ? (int)n : 2;
    rc = text_of_list(t, json_get(t->doc, "freeze_trainable_modules"), "all", &t->e->part.modules);
    if (!rc)
        rc = text_of_list(t, json_get(t->doc, "freeze_extra_modules"), "", &t->e->part.extra);
    if (!rc)
        rc = theirs_say_word(t, key->member, "full");
    return rc ? rc : theirs_say_word(t, "training.trainer", "llama-factory");
}

/* Kinds of tuning that are not of the request's. */
static enum err_code read_tuning(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (s && word_among("oft|qoft|llama-adapter|adalora|dora", s, strlen(s), true)) {
        theirs_gap(&t->d, "a tuning other than full, lora and qlora");
        return ERR_OK;
    }
    return s && !strcmp(s, "freeze") ? read_part(t, key) : theirs_say(t, key->member, v);
}

/* model/model_utils/moe.py configure_moe(): the router's logits and a weight of their loss, for the types that it names. */
static enum err_code read_balance(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const char weighted[] = "ernie4_5_moe|granitemoe|jamba|llama4|mixtral|olmoe|phimoe|qwen2_moe|qwen3_moe";
    const char *stage = json_str(json_get(t->arguments, "stage")), *weight;
    enum err_code rc = theirs_read_weight(t, v, &weight);

    (void)key;
    if (rc || !weight)
        return rc;
    if (stage && !word_among("sft|pt", stage, strlen(stage), true)) {
        theirs_gap(&t->d, "the balancing loss of experts beside a preference's");
        return ERR_OK;
    }
    theirs_change(t, &(struct config_change){.name = "output_router_logits", .text = "true", .types = weighted});
    theirs_change(t, &(struct config_change){.name = "output_router_logits", .text = "true", .types = "dbrx|jetmoe"});
    theirs_change(t, &(struct config_change){.name = "output_router_logits", .text = "true", .of_text = true, .types = "glm4v_moe_text|qwen3_moe"});
    theirs_change(t, &(struct config_change){.name = "router_aux_loss_coef", .text = weight, .types = weighted});
    theirs_change(t, &(struct config_change){.name = "router_aux_loss_coef", .text = weight, .of_text = true, .types = "qwen3_moe"});
    theirs_change(t, &(struct config_change){.name = "aux_loss_alpha", .text = weight, .types = "deepseek"});
    theirs_change(t, &(struct config_change){.name = "aux_loss_coef", .text = weight, .types = "jetmoe"});
    return ERR_OK;
}

/* Its trainers but that of supervised fine-tuning compute losses of their own, over all logits. A preference of other kinds stands in pref_loss. */
static enum err_code read_stage(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    const char *loss = json_str(json_get(t->arguments, "pref_loss"));
    enum err_code rc;

    if (s && word_among("ppo", s, strlen(s), true)) {
        theirs_gap(&t->d, "LLaMA-Factory's own trainer of policies");
        return ERR_OK;
    }
    if (!s || !word_among("dpo|kto|rm", s, strlen(s), true))
        return theirs_say(t, key->member, v);
    if (loss && !strcmp(s, "dpo") && !word_among("sigmoid|orpo|simpo", loss, strlen(loss), true)) {
        theirs_gap(&t->d, "a pref_loss other than sigmoid, orpo and simpo");
        return ERR_OK;
    }
    rc = theirs_say_word(t, key->member, loss && !strcmp(s, "dpo") && strcmp(loss, "sigmoid") != 0 ? loss : s);
    return rc ? rc : theirs_say_word(t, "training.trainer", "llama-factory");
}

/* data/collator.py SFTDataCollatorWith4DAttentionMask: under flash attention one row without a mask, whose positions start anew; else a mask of
 * four dimensions. */
static enum err_code read_neat_packing(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *attention = json_str(json_get(t->arguments, "flash_attn"));
    double rows = 0;
    bool on = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (rc || !on)
        return rc;
    if (attention && !strcmp(attention, "fa3")) {
        theirs_gap(&t->d, "neat_packing under fa3, which LLaMA-Factory hands a mask of four dimensions");
        return ERR_OK;
    }
    if (!attention || strcmp(attention, "fa2") != 0) {
        rc = theirs_say_word(t, "training.trainer", "llama-factory");
        return rc ? rc : theirs_say_text(t, key->member, "true");
    }
    if (!json_number(json_get(t->arguments, "per_device_train_batch_size"), &rows) || rows != 1) {
        theirs_gap(&t->d, "neat_packing under fa2 of several rows, which LLaMA-Factory refuses (\"bsz should be 1 for neat packing\")");
        return ERR_OK;
    }
    return theirs_say_text(t, key->member, "true");
}

/* LLaMA-Factory 0.9.5 train/fp8_utils.py create_fp8_kwargs: torchao by rows; axolotl 0.19.0 utils/schemas/fp8.py: as fp8_config says. */
static enum err_code read_fp8(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *recipe = json_str(json_get(json_get(t->arguments, "fp8_config"), "recipe"));
    bool on = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (rc || !on)
        return rc;
    if (theirs_tool_is(t, TOOL_LLAMA_FACTORY))
        return theirs_say_word(t, key->member, "rowwise");
    if (theirs_tool_is(t, TOOL_AXOLOTL))
        return theirs_say_word(t, key->member, recipe ? recipe : "tensorwise");
    theirs_gap(&t->d, "float8 products");
    return ERR_OK;
}

const struct their_key llama_factory_keys[] = {
    BY(read_tuning, "finetuning_type|adapter", "training.tuning"),
    BY(read_stage, "stage", "training.stage"),
    SAY("cutoff_len", "training.seq_len"),
    SAY("lora_rank", "training.lora.rank"),
    BY(read_targets, "lora_target", "training.lora.target_modules"),
    BY(read_targets, "additional_target", "training.lora.modules_to_save"),
    SAY("use_dora", "training.lora.use_dora"),
    BY(read_bits, "quantization_bit", "training.quantization"),
    BY(read_flash_attn, "flash_attn", "training.attention"),
    FLAG("pure_bf16", "training.precision=\"bf16\""),
    FLAG("disable_gradient_checkpointing", "training.gradient_checkpointing=false"),
    SAY("use_reentrant_gc", "training.checkpoint_reentrant"),
    BY(read_neat_packing, "neat_packing", "training.packing"),
    MOVES("use_galore|use_apollo|use_badam|use_adam_mini|use_muon", "an optimizer of LLaMA-Factory's own"),
    MOVES("use_llama_pro", "training blocks that are added"),
    MOVES("use_unsloth|use_unsloth_gc|use_v1_kernels|use_kt|use_mca|use_hyper_parallel",
          "another trainer or kernels in the place of the Trainer's"),
    MOVES("dist_config|peft_config|init_config|quant_config|kernel_config|kt_config|cp_size",
          "LLaMA-Factory's v1 trainer or KTransformers (src/llamafactory/v1)"),
    MOVES("upcast_layernorm|upcast_lmhead_output", "norms or logits in fp32"),
    MOVES("shift_attn", "shifted attention"),
    MOVES("mixture_of_depths", "mixture of depths"),
    BY(read_balance, "moe_aux_loss_coef", NULL),
    MOVES("use_dft_loss|use_asft_loss|use_eaft_loss", "a loss of LLaMA-Factory's own"),
    MOVES("compute_accuracy", "logits that an evaluation keeps"),
    MOVES("pissa_init|pissa_convert", "adapters that are made of the weights"),
    MOVES("train_from_scratch", "weights that are made in the dtype of the config"),
    MOVES("resize_vocab|add_tokens|add_special_tokens|new_special_tokens_config", "a vocabulary that grows (config.vocab_size says it)"),
    MOVES_BUT("bnb|none", "quantization_method", "a quantisation other than bitsandbytes'"),
    MOVES("include_effective_tokens_per_second", "counting tokens over all processes each step"),
    MOVES("enable_torch_profiler", "the profiler"),
    BY(read_fp8, "fp8", "training.float8"),
    MOVES("fp8_enable_fsdp_float8_all_gather", "weights that are gathered in float8"),
    MOVES_BUT("auto|torchao", "fp8_backend", "float8 products by Transformer Engine"),
    MOVES("compute_dtype", "what is derived of the precision and nobody may say (training.precision says it)"),
    MOVES("block_diag_attn", "a mask for each sequence of a row"),
    MOVES("ref_model|ref_model_adapters|reward_model_adapters|ref_model_quantization_bit|reward_model_quantization_bit",
          "a model beside the one that is trained"),
    MOVES("pref_ftx|pref_bco_weight|ppo_score_norm|ppo_whiten_rewards", "a loss beside the stage's own"),
    MOVES_BUT("1|4", "ppo_buffer_size|ppo_epochs", "a stage other than sft"),
    /* Read by a stage, a tuning or an optimizer that has no model, or by nothing in a training step. */
    KNOWN("model|adapter_name_or_path|adapter_folder|cache_dir|use_fast_tokenizer|split_special_tokens|init_special_tokens|"
          "low_cpu_mem_usage|infer_backend|offload_folder|use_kv_cache|infer_dtype|hf_hub_token|ms_hub_token|"
          "om_hub_token|print_param_status|quantization_type|double_quantization|quantization_device_map|image_max_pixels|image_min_pixels|"
          "image_do_pan_and_scan|crop_to_patches|video_max_pixels|video_min_pixels|video_fps|video_maxlen|use_audio_in_video|"
          "audio_sampling_rate|export_dir|export_size|export_device|export_quantization_bit|export_quantization_dataset|"
          "export_quantization_nsamples|export_quantization_maxlen|export_legacy_format|export_hub_model_id|vllm_maxlen|vllm_gpu_util|"
          "vllm_enforce_eager|vllm_max_lora_rank|vllm_config|sglang_maxlen|sglang_mem_fraction|sglang_tp_size|sglang_config|"
          "sglang_lora_backend|kt_weight_path|kt_expert_checkpoint_path|kt_use_lora_experts|kt_lora_expert_num|"
          "kt_lora_expert_intermediate_size|device_map|model_max_length"),
    KNOWN(
        "template|dataset|eval_dataset|dataset_dir|media_dir|train_on_prompt|mask_history|streaming|buffer_size|mix_strategy|interleave_probs|"
        "overwrite_cache|preprocessing_batch_size|preprocessing_num_workers|max_samples|eval_num_beams|ignore_pad_token_for_loss|val_size|"
        "eval_on_each_dataset|tool_format|default_system|enable_thinking|preserve_thinking|tokenized_path|data_shared_file_system|task|"
        "task_dir|lang|n_shot|save_dir|download_mode|do_sample|num_beams|length_penalty|skip_special_tokens"),
    KNOWN("freeze_trainable_layers|freeze_trainable_modules|freeze_extra_modules|loraplus_lr_ratio|loraplus_lr_embedding|pissa_iter|create_new_adapter|"
          "module_dropout|oft_rank|oft_block_size|oft_target|pref_beta|pref_loss|dpo_label_smoothing|kto_chosen_weight|kto_rejected_weight|"
          "ppo_target|reward_model_type|galore_target|galore_rank|galore_update_interval|galore_scale|galore_proj_type|galore_layerwise|"
          "apollo_target|apollo_rank|apollo_update_interval|apollo_scale|apollo_proj|apollo_proj_type|apollo_scale_type|apollo_layerwise|"
          "apollo_scale_front|badam_mode|badam_start_block|badam_switch_mode|badam_switch_interval|badam_update_ratio|badam_mask_mode|"
          "badam_verbose|use_swanlab|swanlab_project|swanlab_workspace|swanlab_run_name|swanlab_mode|swanlab_api_key|swanlab_logdir|"
          "swanlab_lark_webhook_url|swanlab_lark_secret|hyper_parallel_args|asft_alpha|eaft_alpha|freeze_vision_tower|"
          "freeze_multi_modal_projector|freeze_language_model|disable_shuffling|early_stopping_steps|plot_loss|ray_num_workers|"
          "ray_init_kwargs|master_addr|master_port|profiler_output_dir|profiler_wait_steps|profiler_warmup_steps|profiler_active_steps|"
          "profiler_repeat|profiler_record_shapes|profiler_profile_memory|profiler_with_stack|profile_modules"),
    {0},
};
