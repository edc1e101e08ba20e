/*
 * What no file says: what the script has to do for the job to be the one that was estimated.
 *
 * Source    transformers 5.23.0 modeling_utils.py (distributed_config), accelerate 1.15.0 utils/dataclasses.py, accelerator.py (what
 *           its FSDP plugin does not take), torch 2.15 distributed/fsdp, distributed/_composable, distributed/pipelining.
 */
#include "launch/launch.h"

#include "stack/defaults.h"

#include <stdarg.h>
#include <stdio.h>

static PRINTF(2, 3) void say(struct jsonw *w, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jsonw_str(w, NULL, text);
}

static const char *truth(enum tri t)
{
    return t == TRI_TRUE ? "True" : "False";
}

static void say_model(struct jsonw *w, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    if (launch_has_script(l))
        say(w,
            "train.py is whole as it stands: --train_file names your text, --max_steps or --num_train_epochs and --learning_rate are yours to say");
    say(w, "%s loads the model with from_pretrained(name, **model_init_kwargs) and hands over rows of %u tokens%s",
        launch_has_script(l) ? "a script of your own" : "train.py is yours: it", r->seq_len_tokens,
        r->attention_mask == TRI_FALSE && !r->packing ? ", without an attention_mask" : "");
    if (r->stage != TASK_SFT && !tasks[r->stage].module)
        say(w, "the model in it has a head for %s: from_pretrained() of that class", tasks[r->stage].stage);
    else if (r->stage != TASK_SFT)
        say(w, "the Trainer in it is %s%s: %s=%u%s", tasks[r->stage].by == TRAINER_TRL ? "trl 1.16's " : "", tasks[r->stage].trainer,
            trainer_rows[tasks[r->stage].by].length, r->seq_len_tokens, r->reference == REFERENCE_PRECOMPUTED ? ", precompute_ref_log_probs=True" : "");
    if (r->packing)
        say(w, "data_collator=DataCollatorWithFlattening(): rows are packed to %u tokens, and a batch is one row whose position_ids start anew",
            r->seq_len_tokens);
    if (launch_unpacks(l))
        say(w, "the checkpoint in it is quantised and is not trained so: from_pretrained(.., quantization_config=%s(dequantize=True))", launch_unpacks(l));
    if (kbit_is_gptq(r->quantization))
        say(w, "the model in it is a checkpoint of GPTQ: from_pretrained() of its folder, with kernels that train (Triton)");
    if (r->quantization == KBIT_AWQ4)
        say(w, "the model in it is a checkpoint of AWQ: from_pretrained() of its folder with autoawq; for all-linear all names, as peft finds nn.Linear alone");
    if (kbit_is_hqq(r->quantization))
        say(w, "from_pretrained(.., quantization_config=HqqConfig(nbits=%d, group_size=64)) with hqq; for all-linear all names, as peft finds nn.Linear alone",
            r->quantization == KBIT_HQQ4 ? 4 : 8);
    if (kbit_is_torchao(r->quantization))
        say(w, "from_pretrained(.., quantization_config=TorchAoConfig(%s()))", launch_torchao(r->quantization));
    if (kbit_is_loaded(r->quantization))
        say(w, "weights are quantised on the GPU that they are for: from_pretrained(.., device_map={\"\": PartialState().process_index})");
    if (r->quantization && r->prepare_kbit)
        say(w, "before the adapters: model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=%s)",
            truth(r->gradient_checkpointing));
    if (r->quantization && r->prepare_kbit == KBIT_PREPARE_AXOLOTL)
        say(w, "after it: norms, embedding and head back to bfloat16");
    if (recipe_casts_as_axolotl(r))
        say(w, "before the adapters, as axolotl does: routers called gate%s to float32", recipe_keeps_wide(r) ? ", norms, embedding and head" : "");
    if (r->quantization && r->prepare_kbit == KBIT_PREPARE_TRL)
        say(w, "after them: embedding and head back to bfloat16");
    if (r->tuning != TUNING_FULL)
        say(w, "it puts the adapters in place: get_peft_model(model, LoraConfig(**lora_config))");
}

/* trainer.py takes the data-parallel degree from the model's DistributedConfig, whatever accelerate's file says. */
static void say_shards(struct jsonw *w, const struct recipe *r)
{
    static const char own[] = "tensor parallelism is the model's own: from_pretrained(..";

    if (!stack_defaults_of(&r->stack).tp_by_config)
        say(w, "%s, tp_plan=\"auto\", tp_size=%u)", own, r->tensor_parallel);
    else if (r->data_parallel > 1)
        say(w, "%s, distributed_config=DistributedConfig(tp_size=%u, fsdp_size=%u))", own, r->tensor_parallel, r->data_parallel);
    else
        say(w, "%s, distributed_config=DistributedConfig(tp_size=%u))", own, r->tensor_parallel);
}

static void say_degrees(struct jsonw *w, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    if (method_is_colossal(r->method))
        say(w, "no launcher's file starts it: %s of taehokim20/LLMem does, over Colossal-AI 0.3.0 with the changes beside it",
            r->tensor_parallel > 1 ? "tp_real.py" : "dp_real.py");
    else if (r->tensor_parallel > 1)
        say_shards(w, r);
    if (r->method == METHOD_PP)
        say(w,
            "no launcher offers pipeline parallelism: the script cuts the model into %u stages and drives a schedule of "
            "torch.distributed.pipelining over %u micro-batches of %u",
            r->pipeline_parallel, r->gradient_accumulation_steps, r->micro_batch_size);
}

/* --- the Trainer: what it takes no argument for ------------------------------------------------------------------------------------ */

static void say_ddp(struct jsonw *w, const struct recipe *r)
{
    if (r->gradient_as_bucket_view == TRI_TRUE)
        say(w, "gradient_as_bucket_view=True is no argument of the Trainer: accelerate's DistributedDataParallelKwargs has it");
    if (r->ddp_bucket_bytes % (1 << 20))
        say(w, "buckets of %llu bytes are no whole MiB, and ddp_bucket_cap_mb counts in those", (unsigned long long)r->ddp_bucket_bytes);
}

static void say_zero3(struct jsonw *w, const struct recipe *r)
{
    if (r->zero.zero_init == TRI_TRUE)
        say(w, "TrainingArguments are made before the model: from_pretrained() then builds it within deepspeed.zero.Init()");
    else
        say(w, "the model is loaded whole on each process's host; stack.zero_init true is the estimate of one built within zero.Init()");
}

static void say_fsdp(struct jsonw *w, const struct launch *l)
{
    const struct recipe *r = &l->step->r;
    bool is_first = method_is_fsdp1(r->method);

    if (launch_half(l) && r->fsdp.reduce_dtype == REDUCE_FP32)
        say(w, "accelerate reduces gradients in %s: in fp32 takes a mixed_precision_policy of the script's own", launch_half(l));
    if (is_first && r->fsdp.limit_all_gathers == TRI_FALSE)
        say(w, "limit_all_gathers=False is read from fsdp_config of TrainingArguments, accelerate's file has no key for it");
    if (!is_first && r->fsdp.wrap != FSDP_WRAP_ACCELERATE)
        say(w, "accelerate wraps layers, tail and root: other units take fully_shard() calls of the script's own");
    if (r->method == METHOD_HSDP && r->shard_group != launch_gpus_per_node(l))
        say(w, "HYBRID_SHARD shards within a node: groups of %u take a device_mesh of the script's own", r->shard_group);
    if (r->offload == OFFLOAD_OPTIMIZER)
        say(w, "FSDP offloads parameters and optimizer together, never the optimizer alone");
}

/* --- a plain loop: what it calls --------------------------------------------------------------------------------------------------- */

static void plain_fsdp1(struct jsonw *w, const struct recipe *r)
{
    static const char *const prefetch[] = {
        [FSDP_PREFETCH_PRE] = "BackwardPrefetch.BACKWARD_PRE",
        [FSDP_PREFETCH_POST] = "BackwardPrefetch.BACKWARD_POST",
        [FSDP_PREFETCH_NONE] = "None",
    };

    say(w,
        "the script wraps each layer, then the model: FullyShardedDataParallel(m, sharding_strategy=ShardingStrategy.%s, "
        "backward_prefetch=%s, forward_prefetch=%s, use_orig_params=%s, limit_all_gathers=%s)",
        launch_method(r->method)->strategy, prefetch[r->fsdp.backward_prefetch], truth(r->fsdp.forward_prefetch),
        truth(r->fsdp.use_orig_params), truth(r->fsdp.limit_all_gathers));
}

static const char *policy(const struct recipe *r)
{
    if (!precision_is_mixed(r->precision))
        return "";
    return r->fsdp.reduce_dtype == REDUCE_FP32 ? ", mp_policy=MixedPrecisionPolicy(param_dtype, reduce_dtype=torch.float32)"
                                               : ", mp_policy=MixedPrecisionPolicy(param_dtype)";
}

static void plain_fsdp2(struct jsonw *w, const struct recipe *r)
{
    bool reshard = launch_method(r->method)->reshard, titan = r->fsdp.wrap == FSDP_WRAP_TITAN;

    say(w, "the script calls fully_shard(m, reshard_after_forward=%s%s) on %s", reshard ? "True" : "False", policy(r),
        titan ? "the embedding, each layer, [norm, head], then the model" : "each layer, then the model");
    if (r->method == METHOD_HSDP2 && r->shard_group)
        say(w, "its mesh is (%u, %u): replicas, shards", r->data_parallel / r->shard_group, r->shard_group);
}

static void plain_zero(struct jsonw *w, const struct recipe *r)
{
    say(w, "the script calls deepspeed.initialize(model=.., model_parameters=.., optimizer=.., config=\"%s\")%s",
        launch_file(FILE_DEEPSPEED), r->zero.zero_init == TRI_TRUE ? ", and makes the model within deepspeed.zero.Init()" : "");
}

static void say_plain(struct jsonw *w, const struct launch *l)
{
    const struct recipe *r = &l->step->r;
    const struct launch_method *m = launch_method(r->method);

    if (r->method == METHOD_DDP)
        say(w, "the script wraps the model: DistributedDataParallel(m, bucket_cap_mb=%.9g, gradient_as_bucket_view=%s)",
            (double)r->ddp_bucket_bytes / (1 << 20), truth(r->gradient_as_bucket_view));
    if (m->engine)
        plain_zero(w, r);
    if (m->fsdp_version == 1)
        plain_fsdp1(w, r);
    if (m->fsdp_version == 2)
        plain_fsdp2(w, r);
    say(w, "the loop is the script's: micro-batches of %u, %u of them a step, gradient checkpointing %s, optimizer %s, clipping at %.9g",
        r->micro_batch_size, r->gradient_accumulation_steps, r->gradient_checkpointing == TRI_TRUE ? "on" : "off", l->optimizer,
        r->max_grad_norm);
}

void launch_notes(struct jsonw *w, const char *name, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    jsonw_array(w, name);
    say_model(w, l);
    say_degrees(w, l);
    if (!launch_is_trainer(l))
        say_plain(w, l);
    else if (r->method == METHOD_DDP)
        say_ddp(w, r);
    else if (launch_method(r->method)->fsdp_version)
        say_fsdp(w, l);
    else if (r->method == METHOD_ZERO3)
        say_zero3(w, r);
    jsonw_end(w);
}
