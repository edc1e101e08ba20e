/* The tables of the request: every member, its kind, its range and what else people call it. */
#include "api/request/request.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* A table's rows name the member once; S is the struct they fill. */
#define AT(member)                 .key = #member, .at = offsetof(S, member)
#define STR(member, most)          AT(member), .kind = KIND_STR, .min = 1, .max = most
#define WHOLE(member, least, most) AT(member), .kind = KIND_WHOLE, .min = least, .max = most
#define BYTES(member)              AT(member), .kind = KIND_BYTES, .min = 1, .max = UINT64_C(1) << 50
#define REAL(member, most)         AT(member), .kind = KIND_REAL, .max = most
/* Of a GPU or a link; 0: not known. A step at less would take more seconds than anybody reads. */
#define RATE(member)              AT(member), .kind = KIND_REAL, .max = 1000000, .least = 0.001
#define BOOL(member)              AT(member), .kind = KIND_BOOL
#define WORD(member, vocabulary)  AT(member), .kind = KIND_WORDS, .words = vocabulary
#define WORDS(member, vocabulary) AT(member), .kind = KIND_WORDS, .words = vocabulary, .list = true, .min = 1
#define STRS(member, least)       AT(member), .kind = KIND_STRS, .min = least, .max = 128
#define OBJECT(member, table)     AT(member), .kind = KIND_OBJECT, .members = table
#define JSON(member)              AT(member), .kind = KIND_JSON
#define LATER(what)               .later = what
#define OWN(member, read, out, set) \
    AT(member), .kind = KIND_OWN, .own = read, .write = out, .is_set = set, .size = sizeof(((S *)0)->member)

enum { MOST_GPUS = 65536 };
#define MOST_ELEMS (UINT64_C(1) << 50)

#define S struct gpu_numbers
static const struct member gpu_members[] = {
    {BYTES(memory_bytes)},
    {RATE(bf16_tflops)},
    {RATE(fp16_tflops)},
    {RATE(memory_gbs)},
    {STR(compute_capability, 8)},
    {WHOLE(multiprocessors, 1, 4096)},
    {0},
};
#undef S

static enum err_code gpu_read(struct decoding *d, const struct json *v, void *at)
{
    struct gpu_request *gpu = at;

    gpu->name = json_str(v);
    if (gpu->name)
        return gpu->name[0] && strlen(gpu->name) <= 64 ? ERR_OK : decode_fail(d, ERR_FIELD_RANGE, "must have 1 to 64 bytes");
    if (json_type(v) != JSON_OBJECT)
        return decode_fail(d, ERR_FIELD_TYPE, "must be a GPU's name or an object of its numbers, not %s", json_type_name(json_type(v)));
    gpu->by_numbers = true;
    return decode(d, v, gpu_members, &gpu->numbers);
}

static bool gpu_is_set(const void *at)
{
    const struct gpu_request *gpu = at;

    return gpu->name || gpu->by_numbers;
}

static void gpu_write(struct jsonw *w, const char *key, const void *at)
{
    const struct gpu_request *gpu = at;

    if (!gpu->by_numbers) {
        jsonw_str(w, key, gpu->name);
        return;
    }
    jsonw_object(w, key);
    encode_members(w, gpu_members, &gpu->numbers);
    jsonw_end(w);
}

/* One figure, or one per GPU: the smallest counts. */
static enum err_code free_read(struct decoding *d, const struct json *v, void *at)
{
    static const struct member rows[] = {{.key = "bytes", .kind = KIND_BYTES, .min = 1, .max = UINT64_C(1) << 50}, {0}};
    struct quantity least = {0}, *ret = at;
    size_t n = strlen(d->path), i = 0;
    enum err_code rc = ERR_OK;

    if (json_type(v) != JSON_ARRAY)
        return decode_value(d, rows, v, ret);
    if (!json_count(v))
        return decode_fail(d, ERR_FIELD_RANGE, "must have a figure for each GPU");
    json_each (e, v) {
        struct quantity q = {0};

        (void)snprintf(d->path + n, sizeof d->path - n, "/%zu", i++);
        rc = decode_value(d, rows, e, &q);
        if (rc)
            return rc;
        if (!least.set || q.whole < least.whole)
            least = q;
        d->path[n] = 0;
    }
    *ret = least;
    return rc;
}

static bool free_is_set(const void *at)
{
    return ((const struct quantity *)at)->set;
}

static void free_write(struct jsonw *w, const char *key, const void *at)
{
    const struct quantity *q = at;

    if (q->set)
        jsonw_u64(w, key, q->whole);
}

/* {"0": "20GiB", "1": "24GiB", "cpu": "64GiB"}, as from_pretrained() is given it. */
static enum err_code room_read(struct decoding *d, const struct json *v, void *at)
{
    static const struct member rows[] = {{.key = "bytes", .kind = KIND_BYTES, .max = UINT64_C(1) << 50}, {0}};
    struct max_memory_request ret = {.set = true};
    size_t n = strlen(d->path);
    uint64_t named = 0;

    if (json_type(v) != JSON_OBJECT)
        return decode_fail(d, ERR_FIELD_TYPE, "must be an object like {\"0\": \"20GiB\", \"cpu\": \"64GiB\"}, not %s", json_type_name(json_type(v)));
    json_each (e, v) {
        const char *name = json_name(e);
        uint32_t gpu = strlen(name) < 3 && name[0] && strspn(name, "0123456789") == strlen(name) ? (uint32_t)(name[0] - '0') : MAX_MEMORY_GPUS;
        struct quantity q = {0};
        enum err_code rc;

        if (gpu < MAX_MEMORY_GPUS && name[1])
            gpu = 10 * gpu + (uint32_t)(name[1] - '0');
        if (gpu >= MAX_MEMORY_GPUS && strcmp(name, "cpu") != 0)
            return decode_fail(d, ERR_FIELD_VALUE, "'%.40s' is neither a GPU's number nor \"cpu\"", name);
        (void)snprintf(d->path + n, sizeof d->path - n, "/%s", name);
        rc = decode_value(d, rows, e, &q);
        if (rc)
            return rc;
        d->path[n] = 0;
        if (gpu >= MAX_MEMORY_GPUS) {
            ret.host = true;
            ret.host_bytes = q.whole;
            continue;
        }
        named |= UINT64_C(1) << gpu;
        ret.gpu_bytes[gpu] = q.whole;
    }
    while (ret.gpus < MAX_MEMORY_GPUS && named >> ret.gpus & 1)
        ret.gpus++;
    if (!ret.gpus || (ret.gpus < MAX_MEMORY_GPUS && named >> ret.gpus))
        return decode_fail(d, ERR_FIELD_VALUE, "must name GPUs from 0 on, without gaps");
    memcpy(at, &ret, sizeof ret);
    return ERR_OK;
}

static bool room_is_set(const void *at)
{
    return ((const struct max_memory_request *)at)->set;
}

static void room_write(struct jsonw *w, const char *key, const void *at)
{
    const struct max_memory_request *r = at;
    char name[12];

    if (!r->set)
        return;
    jsonw_object(w, key);
    for (uint32_t i = 0; i < r->gpus; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        jsonw_u64(w, name, r->gpu_bytes[i]);
    }
    if (r->host)
        jsonw_u64(w, "cpu", r->host_bytes);
    jsonw_end(w);
}

/* "roce-400 x8": a link of the catalogue and how many adapters a node has. */
static enum err_code link_read(struct decoding *d, const struct json *v, void *at)
{
    const char *text = json_str(v), *times;
    size_t n;

    if (!text)
        return decode_fail(d, ERR_FIELD_TYPE, "must be a link's name, not %s", json_type_name(json_type(v)));
    n = strlen(text);
    times = strrchr(text, 'x');
    if (times > text && (times[-1] == ' ' || times[-1] == '-') && times[1] >= '1' && times[1] <= '9' &&
        strspn(times + 1, "0123456789") == strlen(times + 1))
        n = (size_t)(times - text);
    if (n > 64 || (word_find(link_words, text, n) < 0 && word_find(link_words, text, strlen(text)) < 0))
        return decode_fail(d, ERR_FIELD_VALUE, "'%.40s' is no link that is known, like \"nvlink4\", \"pcie4\", \"ib-hdr x2\"", text);
    memcpy(at, &text, sizeof text);
    return ERR_OK;
}

/* Of a slot that is a pointer. */
static bool names_something(const void *at)
{
    const void *v;

    memcpy(&v, at, sizeof v);
    return v != NULL;
}

static void str_write(struct jsonw *w, const char *key, const void *at)
{
    const char *s;

    memcpy(&s, at, sizeof s);
    if (s)
        jsonw_str(w, key, s);
}

#define S struct cluster_request
static const struct member cluster_members[] = {
    {STR(name, 64)},
    {OWN(gpu, gpu_read, gpu_write, gpu_is_set), .members = gpu_members},
    {WHOLE(gpus_per_node, 1, 1024), .also = "gpus"},
    {WHOLE(nodes, 1, MOST_GPUS)},
    {OWN(free_memory_bytes, free_read, free_write, free_is_set), .list = true},
    {BYTES(host_memory_bytes_per_node)},
    {RATE(host_memory_gbs)},
    {OWN(intra_node, link_read, str_write, names_something)},
    {OWN(inter_node, link_read, str_write, names_something)},
    {RATE(intra_node_gbs)},
    {RATE(inter_node_gbs)},
    {0},
};
#undef S

#define S struct lora_request
const struct member lora_members[] = {
    {WHOLE(rank, 1, 65536), .also = "r|lora_rank|lora_r"},
    {REAL(alpha, 1000000), .also = "lora_alpha"},
    {STRS(target_modules, 0), .words = target_words, .open = true, .also = "lora_target|lora_target_modules"},
    {STRS(target_parameters, 0), .also = "lora_target_parameters"},
    {STRS(modules_to_save, 0), .also = "lora_modules_to_save"},
    {OWN(layers_to_transform, narrow_layers_read, narrow_layers_write, names_something), .agrees = narrow_agrees, .list = true, .also = "peft_layers_to_transform"},
    {STRS(layers_pattern, 0), .open = true, .also = "peft_layers_pattern"},
    {STRS(exclude_modules, 0), .open = true, .also = "lora_exclude_modules"},
    {OWN(rank_pattern, narrow_ranks_read, narrow_numbers_write, names_something), .agrees = narrow_agrees, .also = "lora_rank_pattern"},
    {OWN(alpha_pattern, narrow_alphas_read, narrow_numbers_write, names_something), .agrees = narrow_agrees, .also = "lora_alpha_pattern"},
    {REAL(dropout, 1), .open = true, .also = "lora_dropout"},
    {WORD(dtype, lora_dtype_words)},
    {WORD(bias, lora_bias_words)},
    {WORDS(kernels, lora_kernel_words)},
    {BOOL(use_dora), .also = "lora_use_dora|use_dora|peft_use_dora"},
    {0},
};
#undef S

#define S struct fsdp_request
static const struct member fsdp_members[] = {
    {WORD(wrap, wrap_words)},
    {BOOL(forward_prefetch)},
    {WORD(backward_prefetch, prefetch_words)},
    {BOOL(use_orig_params)},
    {BOOL(limit_all_gathers)},
    {BOOL(autocast)},
    {BOOL(cpu_ram_efficient_loading)},
    {0},
};
#undef S

#define S struct buckets_request
static const struct member bucket_members[] = {
    {WHOLE(reduce_elems, 1, MOST_ELEMS)},    {WHOLE(allgather_elems, 1, MOST_ELEMS)},
    {WHOLE(prefetch_elems, 0, MOST_ELEMS)},  {WHOLE(max_live_elems, 0, MOST_ELEMS)},
    {WHOLE(sub_group_elems, 1, MOST_ELEMS)}, {WHOLE(persistence_elems, 0, MOST_ELEMS)},
    {WHOLE(ddp_bytes, 1, MOST_ELEMS)},       {WHOLE(reuse_elems, 0, MOST_ELEMS)},
    {BOOL(round_robin)},                     {0},
};
#undef S

#define S struct images_request
static const struct member images_members[] = {{WHOLE(per_sequence, 0, 65536)}, {WHOLE(height, 1, 65536)}, {WHOLE(width, 1, 65536)}, {0}};
#undef S

#define S struct training_request
const struct member training_members[] = {
    {WHOLE(seq_len, 1, UINT64_C(1) << 22), .also = "max_length|max_seq_length|cutoff_len|sequence_len"},
    {WHOLE(micro_batch_size, 1, 65536), .also = "per_device_train_batch_size|train_micro_batch_size_per_gpu"},
    {WHOLE(global_batch_size, 1, UINT64_C(1) << 30), .also = "train_batch_size"},
    {WHOLE(gradient_accumulation_steps, 1, ACCUMULATION_MAX)},
    {OWN(methods, methods_read, methods_write, methods_are_set), .agrees = methods_agree, .list = true, .also = "method"},
    {WHOLE(tensor_parallel, 1, MOST_GPUS), .also = "tensor_parallel_size"},
    {WHOLE(pipeline_parallel, 1, MOST_GPUS), .also = "pipeline_parallel_size"},
    {WHOLE(context_parallel, 1, MOST_GPUS), .also = "context_parallel_size", LATER("context parallelism"), .neutral = "1"},
    {WHOLE(expert_parallel, 1, MOST_GPUS), .also = "expert_parallel_size", LATER("expert parallelism"), .neutral = "1"},
    {WORDS(tuning, tuning_words), .also = "finetuning_type"},
    {OBJECT(lora, lora_members)},
    {WORD(quantization, quantization_words), .also = "quantization_bit"},
    {WORD(prepare_kbit, prepare_kbit_words)},
    {WORDS(precision, precision_words)},
    {WORD(float8, float8_words)},
    {BOOL(tf32)},
    {WORDS(optimizer, optimizer_words), .also = "optim"},
    {AT(optim_args), .kind = KIND_STR, .max = 512},
    {BOOL(optimizer_in_backward)},
    {REAL(max_grad_norm, 1000000000), .also = "gradient_clipping"},
    {WORDS(gradient_checkpointing, checkpointing_words), .also = "activation_checkpointing"},
    {BOOL(checkpoint_reentrant)},
    {WORDS(attention, attention_words), .also = "attn_implementation"},
    {BOOL(cudnn_attention)},
    {WORDS(loss, loss_words)},
    {AT(liger_kernels), .kind = KIND_WORDS, .words = liger_words, .list = true},
    {BOOL(compile), .also = "torch_compile"},
    {WORD(reduce_dtype, reduce_words)},
    {BOOL(keep_outputs)},
    {BOOL(gradient_as_bucket_view)},
    {BOOL(overlap_comm)},
    {BOOL(sync_each_batch)},
    {OBJECT(fsdp, fsdp_members)},
    {WHOLE(shard_group, 1, MOST_GPUS)},
    {WORDS(offload, offload_words)},
    {BOOL(padded)},
    {BOOL(attention_mask)},
    {BOOL(use_cache)},
    {OBJECT(buckets, bucket_members)},
    {BOOL(packing)},
    {BOOL(quantize_experts)},
    {OWN(lengths, lengths_read, lengths_write, names_something), .list = true},
    {WORD(stage, stage_words)},
    {WORD(trainer, trainer_words)},
    {WORD(reference, reference_words)},
    {STRS(freeze, 0)},
    {STRS(trainable, 1), .open = true},
    {REAL(freeze_ratio, 1)},
    {OBJECT(images, images_members), LATER("images in the sequences")},
    {AT(expert_skew), .kind = KIND_REAL, .min = 1, .max = 65536},
    {BOOL(find_unused_parameters), .also = "ddp_find_unused_parameters"},
    {WHOLE(eval_batch_size, 1, 65536), .also = "per_device_eval_batch_size|per_gpu_eval_batch_size"},
    {WHOLE(eval_batches, 1, 1 << 20)},
    {WHOLE(eval_accumulation_steps, 1, 1 << 20)},
    {BOOL(prediction_loss_only)},
    {0},
};
#undef S

#define S struct inference_request
static const struct member inference_members[] = {
    {WHOLE(prompt_tokens, 1, UINT64_C(1) << 22), .also = "prompt_len|prompt_length|input_len|input_tokens"},
    {WHOLE(new_tokens, 1, UINT64_C(1) << 22), .also = "max_new_tokens|output_len|output_tokens"},
    {WHOLE(batch_size, 1, 65536), .also = "max_num_seqs"},
    {WORD(weights, weights_words), .also = "dtype|torch_dtype"},
    {WORD(compute_dtype, compute_words)},
    {WORD(kv_cache, kv_cache_words), .also = "kv_cache_dtype"},
    {WORD(cache, cache_words), .also = "cache_implementation"},
    {WORD(engine, engine_words)},
    {WHOLE(tensor_parallel, 1, MOST_GPUS), .also = "tensor_parallel_size"},
    {REAL(gpu_memory_utilization, 1)},
    {WHOLE(max_model_len, 1, UINT64_C(1) << 22)},
    {WHOLE(max_num_batched_tokens, 1, UINT64_C(1) << 22)},
    {BOOL(enforce_eager)},
    {WORD(device_map, device_map_words)},
    {BOOL(do_sample)},
    {REAL(temperature, 1000)},
    {WHOLE(top_k, 0, UINT64_C(1) << 22)},
    {REAL(top_p, 1)},
    {WHOLE(num_return_sequences, 1, 1024)},
    {WHOLE(num_beams, 1, 1024), .also = "beams|best_of", LATER("beam search"), .neutral = "1"},
    {OWN(max_memory, room_read, room_write, room_is_set)},
    {WHOLE(pipeline_parallel, 1, 1024), .also = "pipeline_parallel_size", LATER("layers over several GPUs under vLLM"), .neutral = "1"},
    {WHOLE(data_parallel, 1, 1024), .also = "data_parallel_size", LATER("copies of the model under vLLM"), .neutral = "1"},
    {BOOL(enable_expert_parallel), LATER("experts over several GPUs under vLLM")},
    {REAL(cpu_offload_gb, 1 << 20), LATER("weights on the host under vLLM"), .neutral = "0"},
    {BOOL(use_cache)},
    {WHOLE(prefill_chunk_size, 1, UINT64_C(1) << 22), LATER("a prompt in chunks under generate()")},
    {STR(assistant_model, 255), .also = "speculative_model|draft_model", LATER("speculative decoding, whose draft stands beside the model")},
    {WHOLE(num_speculative_tokens, 0, 1024), .also = "prompt_lookup_num_tokens", LATER("speculative decoding")},
    {0},
};
#undef S

#define S struct stack_request
const struct member stack_members[] = {
    {WORD(framework, framework_words)},
    {STR(torch, 32)},
    {STR(transformers, 32)},
    {STR(peft, 32)},
    {STR(accelerate, 32)},
    {STR(bitsandbytes, 32)},
    {STR(deepspeed, 32)},
    {STR(flash_attn, 32)},
    {STR(liger, 32)},
    {STR(causal_conv1d, 32)},
    {STR(mamba_ssm, 32)},
    {STR(fla, 32)},
    {STR(trl, 32)},
    {STR(cuda, 32)},
    {BOOL(zero_init)},
    {0},
};
#undef S

#define S struct allocator_request
static const struct member allocator_members[] = {{BOOL(expandable_segments)}, {0}};
#undef S

#define S struct llmem_request
static const struct member llmem_members[] = {{WORD(variant, llmem_words)}, {BYTES(base_bytes)}, {0}};
#undef S

#define S struct framework_config_request
static const struct member framework_config_members[] = {
    {WORD(framework, tool_words)},
    {AT(text), .kind = KIND_STR, .min = 1, .max = 1 << 20},
    {0},
};
#undef S

#define S struct estimate_request
const struct member estimate_members[] = {
    {STR(model, 255)},
    {STR(revision, 128)},
    {JSON(config)},
    {WORD(workload, workload_words)},
    {OBJECT(cluster, cluster_members)},
    {OBJECT(training, training_members)},
    {OBJECT(inference, inference_members)},
    {OBJECT(stack, stack_members)},
    {OBJECT(allocator, allocator_members)},
    {WORD(objective, objective_words)},
    {WORD(program, program_words)},
    {REAL(margin, 1), .open = true},
    {OBJECT(llmem, llmem_members)},
    {JSON(deepspeed_config), .open = true},
    {JSON(accelerate_config), .open = true},
    {JSON(training_arguments), .open = true},
    {OBJECT(framework_config, framework_config_members)},
    {JSON(modeling)},
    {0},
};
#undef S
