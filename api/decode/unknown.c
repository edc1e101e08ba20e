#include "api/decode/unknown.h"

#include "api/request/left_out.h"
#include "api/request/query.h"
#include "base/near.h"

#include <stdio.h>
#include <string.h>

/* Names that other tools give what the request has under another one. They are no synonyms that are taken: what they count differs from tool to tool
 * (a batch_size is a GPU's in one and the whole job's in another). */
static const struct {
    const char *names, *meant;
} aliases[] = {
    {"batch|batch_size|batchsize|bs|train_batch|mbs|per_device_batch_size|per_gpu_batch_size|device_batch_size|local_batch_size|batch_size_per_gpu|"
     "train_micro_batch_size|micro_batch",
     "/training/micro_batch_size"},
    {"sequence_length|seq_length|seqlen|context_length|context_len|ctx_len|max_seq_len|max_sequence_length|max_tokens|model_max_length|block_size|"
     "max_prompt_length|n_ctx|tokens_per_sequence",
     "/training/seq_len"},
    {"gbs|effective_batch_size|total_batch_size|global_batch", "/training/global_batch_size"},
    {"grad_accum|gradient_accumulation|accumulate_grad_batches|grad_accumulation_steps|accumulation_steps|gas|gradient_accumulation_iters",
     "/training/gradient_accumulation_steps"},
    {"num_gpus|n_gpus|gpu_count|num_gpu|world_size|num_processes|nproc_per_node|gpus_per_host|n_gpus_per_node|num_gpus_per_node",
     "/cluster/gpus_per_node"},
    {"num_nodes|nnodes|num_machines|n_nodes", "/cluster/nodes"},
    {"gpu_type|gpu_name|gpu_model|device_type", "/cluster/gpu"},
    {"gpu_memory|gpu_memory_bytes|vram|vram_bytes|memory_per_gpu", "/cluster/gpu/memory_bytes"},
    {"free_memory|free_bytes", "/cluster/free_memory_bytes"},
    {"host_memory|host_memory_bytes|cpu_memory|ram|host_ram_bytes", "/cluster/host_memory_bytes_per_node"},
    {"tp|tp_size|tensor_model_parallel_size|tp_degree|tensor_parallel_degree", "/training/tensor_parallel"},
    {"pp|pp_size|pipeline_model_parallel_size|pp_degree|pipeline_parallel_degree", "/training/pipeline_parallel"},
    {"cp|cp_size|cp_degree|context_parallel_degree", "/training/context_parallel"},
    {"ep|ep_size|ep_degree|expert_model_parallel_size|expert_parallel_degree", "/training/expert_parallel"},
    {"strategy|parallelism|parallel_strategy|sharding|sharding_strategy|zero_stage|zero_optimization|distributed_type|distributed_strategy",
     "/training/methods"},
    {"peft|peft_config|lora_config|adapter_config", "/training/lora"},
    {"target_layers|lora_modules|targets", "/training/lora/target_modules"},
    {"peft_type|train_type|finetuning|fine_tuning|use_lora|use_peft|qlora|use_qlora", "/training/tuning"},
    {"quant|quantize|load_in_4bit|load_in_8bit|bnb_4bit|quantization_config|quant_method", "/training/quantization"},
    {"dtype|torch_dtype|mixed_precision|bf16|fp16|amp|param_dtype|compute_dtype|data_type", "/training/precision"},
    {"optimizer_type|optimizer_name|opt|optimiser|optimizer_class", "/training/optimizer"},
    {"grad_clip|clip_grad|clip_grad_norm|gradient_clip_val|grad_norm_clip|max_norm", "/training/max_grad_norm"},
    {"recompute|recomputation|ac|gc|use_gradient_checkpointing|enable_gradient_checkpointing|activation_checkpoint|enable_activation_checkpointing|"
     "activation_recomputation|recompute_granularity|remat",
     "/training/gradient_checkpointing"},
    {"use_reentrant|reentrant", "/training/checkpoint_reentrant"},
    {"flash_attn|flash_attention|use_flash_attention|use_flash_attention_2|use_flash_attn|attention_implementation|attn_impl|attention_type",
     "/training/attention"},
    {"use_liger|use_liger_kernel|enable_liger_kernel|liger|liger_kernel", "/training/liger_kernels"},
    {"loss_type|loss_fn|loss_function", "/training/loss"},
    {"sample_packing|pack|packed|pack_sequences|use_packing|packing_strategy", "/training/packing"},
    {"cpu_offload|offload_optimizer|offload_params|offload_param|offload_activations|activation_offloading|use_cpu_offload",
     "/training/offload"},
    {"task_type|training_stage|training_type", "/training/stage"},
    {"ref_model|reference_model", "/training/reference"},
    {"freeze_modules|frozen|freeze_layers|frozen_modules", "/training/freeze"},
    {"image_size|num_images|image_resolution", "/training/images"},
    {"fp8|float8_recipe", "/training/float8"},
    {"cluster_name", "/cluster/name"},
    {"interconnect", "/cluster/inter_node"},
    {"model_name|model_id|model_name_or_path|model_path|base_model|hf_model|pretrained_model_name_or_path|repo_id", "/model"},
    {"model_config|hf_config|config_json", "/config"},
    {"deepspeed|ds_config|ds_json|deepspeed_json", "/deepspeed_config"},
    {"accelerate_yaml", "/accelerate_config"},
    {"training_args|trainer_args|train_args|hf_args|trainer_config|sft_config", "/training_arguments"},
    {"pytorch|torch_version|pytorch_version", "/stack/torch"},
    {"transformers_version|hf_version", "/stack/transformers"},
    {"peft_version", "/stack/peft"},
    {"cuda_version", "/stack/cuda"},
    {"trainer|launcher", "/stack/framework"},
    {"expandable|pytorch_cuda_alloc_conf|cuda_alloc_conf", "/allocator/expandable_segments"},
};

const char *alias_of(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (word_among(aliases[i].names, name, strlen(name), false))
            return aliases[i].meant;
    return NULL;
}

/* Of a pointer into the same object the last name is enough. */
static const char *within(const struct decoding *d, const char *pointer)
{
    const char *here = strrchr(d->path, '/'), *last = strrchr(pointer, '/');

    return here && last && here - d->path == last - pointer && !strncmp(pointer, d->path, (size_t)(last - pointer)) ? last + 1 : pointer;
}

enum err_code unknown_refuse(struct decoding *d, const char *name, const char *meant)
{
    enum err_code rc;

    if (!meant)
        return decode_fail(d, ERR_UNKNOWN_MEMBER, "'%.60s' is not known, and ?strict=true refuses what is not", name);
    if (meant[0] == '/' && d->root && d->left_out && d->left_out->by_query)
        meant = query_name(d->root, meant, d->arena);
    meant = within(d, meant);
    rc = decode_fail(d, ERR_UNKNOWN_MEMBER, "'%.60s' is not known here: did you mean %.60s?", name, meant);
    if (d->err)
        (void)snprintf(d->err->meant[0], sizeof d->err->meant[0], "%s", meant);
    return rc;
}

/* A name that is known, but stands elsewhere: "/training/seq_len". A label that somebody gives a request is no cluster's name. */
static const char *elsewhere(const struct decoding *d, const char *name, char text[POINTER_BYTES])
{
    struct place p = {0};

    if (d->root && strlen(name) > 2 && !strchr(name, '.') && strcmp(name, "name") != 0)
        p = place_find(d->root, name);
    if (!p.depth || p.rest[0])
        return NULL;
    place_pointer(&p, text);
    return text;
}

/* What other tools call a member, with a typing error. */
static const char *alias_near(struct decoding *d, const char *name)
{
    unsigned char *mark = d->arena->cur;
    const struct lexicon_entry *e;
    const char *row;
    struct lexicon l;
    size_t n = 0;

    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        n += lexicon_count(aliases[i].names);
    lexicon_init(&l, d->arena, n);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        lexicon_add(&l, aliases[i].names, aliases[i].meant);
    e = l.full ? NULL : lexicon_near(&l, name);
    row = e ? e->row : NULL;
    arena_rewind(d->arena, mark);
    return row;
}

/* "trainning.seq_len": an object's name with a typing error. */
static const char *object_near(const struct decoding *d, const char *name, char text[POINTER_BYTES])
{
    size_t n = strcspn(name, ".");

    for (const struct member *m = d->root; name[n] && m && m->key; m++)
        if (m->members && near_distance(m->key, strlen(m->key), name, n, 2) <= 2) {
            (void)snprintf(text, POINTER_BYTES, "%s%.100s", m->key, name + n);
            return text;
        }
    return NULL;
}

enum err_code unknown_member(struct decoding *d, size_t parent, const char *name, const struct lexicon *near)
{
    const struct lexicon_entry *e;
    char text[POINTER_BYTES], object[sizeof d->path];
    const char *meant;

    if (!d->left_out)
        return ERR_OK;
    meant = d->root && d->left_out->by_query ? alias_of(name) : NULL;
    e = meant ? NULL : lexicon_near(near, name);
    if (e) {
        char known[NEAR_MAX_BYTES + 1];

        (void)snprintf(known, sizeof known, "%.*s", (int)e->bytes, e->name);
        meant = d->left_out->by_query ? elsewhere(d, known, text) : NULL;
        return unknown_refuse(d, name, meant ? meant : known);
    }
    if (!meant && d->root)
        meant = alias_of(name);
    if (!meant)
        meant = elsewhere(d, name, text);
    if (!meant && d->root)
        meant = alias_near(d, name);
    if (!meant && d->left_out->by_query)
        meant = object_near(d, name, text);
    if (meant || d->left_out->strict)
        return unknown_refuse(d, name, meant);
    (void)snprintf(object, sizeof object, "%.*s", (int)parent, d->path);
    left_out_ignore(d->left_out, object, name);
    return ERR_OK;
}
