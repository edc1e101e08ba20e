/* Members that a request states and nothing of its answer reads: named in `assumptions`, each with the reason. */
#include "api/answer/estimate.h"

#include "base/buf.h"
#include "models/kernels.h"
#include "stack/defaults.h"

#include <stdio.h>
#include <string.h>

/* Whether this candidate's figures hang on the member. */
typedef bool candidate_reads(const struct estimate *e, const struct plan_candidate *c);

struct idle {
    const char *member; /* "training.lora.rank"; of an object: all of it */
    candidate_reads *reads;
    const char *why;
};

static bool adapts(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.tuning != TUNING_FULL;
}

static bool adapts_tensors(const struct estimate *e, const struct plan_candidate *c)
{
    return adapts(e, c) && c->step.r.lora.n_parameters;
}

/* DeepSpeed's engine holds what is trained in its own dtype; accelerate casts what fully_shard cuts to fp32 (resolve.c upcast_adapters). */
static bool keeps_adapters_dtype(const struct estimate *e, const struct plan_candidate *c)
{
    const struct words *asked = &e->rq.training.lora.dtype;

    return adapts(e, c) && !method_is_zero(c->step.r.method) && lora_dtype_words[asked->at[0]].value == (int)c->step.r.lora.dtype;
}

static bool is_packed(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.quantization != KBIT_NONE;
}

static bool is_prepared(const struct estimate *e, const struct plan_candidate *c)
{
    return is_packed(e, c) || recipe_casts_as_axolotl(&c->step.r);
}

static bool is_ddp(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.method == METHOD_DDP;
}

static bool is_zero(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return method_is_zero(c->step.r.method);
}

static bool has_buckets(const struct estimate *e, const struct plan_candidate *c)
{
    return is_zero(e, c) && c->step.r.method != METHOD_ZERO0;
}

static bool is_zero3(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.method == METHOD_ZERO3;
}

static bool is_zero12(const struct estimate *e, const struct plan_candidate *c)
{
    return has_buckets(e, c) && c->step.r.method != METHOD_ZERO3;
}

static bool is_fsdp1(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return method_is_fsdp1(c->step.r.method);
}

static bool is_fsdp2(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return method_is_fsdp2(c->step.r.method);
}

static bool is_fsdp(const struct estimate *e, const struct plan_candidate *c)
{
    return is_fsdp1(e, c) || is_fsdp2(e, c);
}

static bool is_hybrid(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return method_is_hybrid(c->step.r.method);
}

static bool takes_a_degree(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return !method_is_colossal(c->step.r.method) || c->step.r.method == METHOD_LLMEM_DPTP;
}

static bool is_any_but_colossal(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return !method_is_colossal(c->step.r.method);
}

static bool is_no_pipeline(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.method != METHOD_PP;
}

/* TRL's own loss calls the decoder itself. */
static bool may_use_cache(const struct estimate *e, const struct plan_candidate *c)
{
    return is_no_pipeline(e, c) && !tasks[c->step.r.stage].module;
}

static bool is_checkpointed(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.gradient_checkpointing == TRI_TRUE;
}

static bool is_on_host(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->host_bytes_per_node > 0 || c->step.r.offload != OFFLOAD_NONE;
}

static bool accumulates(const struct estimate *e, const struct plan_candidate *c)
{
    return e->rq.training.sync_each_batch == TRI_FALSE || (c->step.r.gradient_accumulation_steps > 1 && c->step.r.data_parallel > 1);
}

/* quirks.def trainer_always_norms */
static bool may_skip_norm(const struct estimate *e, const struct plan_candidate *c)
{
    if (c->step.r.method == METHOD_ZERO0 && c->step.r.precision != PRECISION_FP32) /* unfused_optimizer.py step() */
        return false;
    return e->rq.training.max_grad_norm.real > 0 || c->step.r.framework != FRAMEWORK_TRANSFORMERS || !c->step.quirks.trainer_always_norms;
}

static bool has_fp32_products(const struct estimate *e, const struct plan_candidate *c)
{
    bool adapters = adapts(e, c) && c->step.r.lora.dtype == LORA_DTYPE_FP32 && !precision_autocasts(c->step.r.precision);

    return c->step.r.precision == PRECISION_FP32 || adapters;
}

static bool looks_at_cudnn(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    return c->step.r.cudnn_attention != TRI_UNSET;
}

static bool is_evaluated(const struct estimate *e, const struct plan_candidate *c)
{
    (void)c;
    return e->has_around;
}

/* from_pretrained() reads it before transformers 5 for what bitsandbytes packs; the host's bytes hang on it for what it does not. */
static bool is_told_of_fsdp(const struct estimate *e, const struct plan_candidate *c)
{
    return is_fsdp(e, c) && (kbit_is_bnb(c->step.r.quantization) ? !c->step.quirks.bnb_stays_on_device : e->has_around);
}

static bool keeps_predictions(const struct estimate *e, const struct plan_candidate *c)
{
    return is_evaluated(e, c) && e->rq.training.prediction_loss_only == TRI_FALSE;
}

static bool has_neighbours(const struct estimate *e, const struct plan_candidate *c)
{
    (void)c;
    return e->question.gpus > 1;
}

static bool has_nodes(const struct estimate *e, const struct plan_candidate *c)
{
    (void)c;
    return e->question.gpus_per_node && e->question.gpus > e->question.gpus_per_node;
}

/* A package that is named also dates those that are not; what a tool requires nobody asked for. */
static bool dates_others(const struct estimate *e, enum package p)
{
    return !e->rq.stack.torch || !e->rq.stack.transformers || (e->required & PACKAGE_BIT(p));
}

static bool needs_peft(const struct estimate *e, const struct plan_candidate *c)
{
    return dates_others(e, PACKAGE_PEFT) || adapts(e, c);
}

static bool needs_bitsandbytes(const struct estimate *e, const struct plan_candidate *c)
{
    enum optim_kind kind = optimizer_rows[c->step.r.optimizer].kind;

    return dates_others(e, PACKAGE_BITSANDBYTES) || kbit_is_bnb(c->step.r.quantization) || (kind >= OPTIM_BNB_ADAMW_8BIT && kind <= OPTIM_BNB_RMSPROP_32BIT);
}

static bool needs_deepspeed(const struct estimate *e, const struct plan_candidate *c)
{
    return dates_others(e, PACKAGE_DEEPSPEED) || is_zero(e, c);
}

static bool needs_flash_attn(const struct estimate *e, const struct plan_candidate *c)
{
    return dates_others(e, PACKAGE_FLASH_ATTN) || attention_is_flash(c->step.r.attention);
}

static bool needs_liger(const struct estimate *e, const struct plan_candidate *c)
{
    return dates_others(e, PACKAGE_LIGER) || c->step.r.liger_kernels || c->step.r.loss == LOSS_LIGER;
}

/* Files of strangers run by PyTorch's own operators, whatever is installed. */
static bool takes_kernels(const struct estimate *e, enum package p)
{
    return !e->model.n_files && !e->model.installed && (stack_kernels(e->model.model_type) & PACKAGE_BIT(p));
}

static bool needs_causal_conv1d(const struct estimate *e, const struct plan_candidate *c)
{
    (void)c;
    return takes_kernels(e, PACKAGE_CAUSAL_CONV1D);
}

static bool needs_mamba_ssm(const struct estimate *e, const struct plan_candidate *c)
{
    (void)c;
    return takes_kernels(e, PACKAGE_MAMBA_SSM);
}

static bool needs_fla(const struct estimate *e, const struct plan_candidate *c)
{
    (void)c;
    return takes_kernels(e, PACKAGE_FLA);
}

/* A pipeline's loop is its library's; the words of Colossal-AI and DeepSpeed say their methods alone. */
static bool has_loop(const struct estimate *e, const struct plan_candidate *c)
{
    const struct words *f = &e->rq.stack.framework;
    int loop = f->n ? framework_words[f->at[0]].value : FRAMEWORK_TRANSFORMERS;

    if (loop == FRAMEWORK_ENGINE)
        return method_is_zero(c->step.r.method);
    return is_no_pipeline(e, c) && (loop == FRAMEWORK_COLOSSAL) == method_is_colossal(c->step.r.method);
}

/* monkey_patch.py MODEL_TYPE_TO_APPLY_LIGER_FN of 0.8.5, of types that have a step: of others the Trainer's run goes on without a kernel. */
static bool liger_knows(const struct estimate *e, const struct plan_candidate *c)
{
    static const char types[] = "|llama|mistral|qwen2|qwen3|smollm3|gemma|gemma2|gemma3_text|phi3|olmo2|olmo3|exaone4|glm4|granite|mixtral|qwen3_moe|gpt_oss|"
                                "qwen3_next|qwen3_5_text|deepseek_v2|deepseek_v3|falcon_h1|nemotron|";
    char type[80];

    (void)c;
    (void)snprintf(type, sizeof type, "|%s|", e->model.model_type);
    return !e->rq.training.liger_kernels.n || strstr(types, type) != NULL;
}

/* layer_norm is in no text model's function, geglu in the gemmas' alone (core/models/library/liger/patches.py). */
static bool has_kernels(const struct estimate *e, const struct plan_candidate *c)
{
    const struct words *k = &e->rq.training.liger_kernels;
    bool gemma = !strncmp(e->model.model_type, "gemma", 5);

    if (!liger_knows(e, c))
        return true;
    for (unsigned i = 0; i < k->n; i++) {
        int kernel = liger_words[k->at[i]].value;

        if (kernel == LIGER_LAYER_NORM || kernel == (gemma ? LIGER_SWIGLU : LIGER_GEGLU))
            return false;
    }
    return true;
}

static bool never(const struct estimate *e, const struct plan_candidate *c)
{
    (void)e;
    (void)c;
    return false;
}

#define NO_ADAPTERS  "no candidate has adapters"
#define NO_FSDP      "no candidate is sharded by FSDP"
#define NO_FSDP1     "no candidate is sharded by FSDP1"
#define NO_BUCKETS   "no candidate is DeepSpeed's of stage 1, 2 or 3"
#define NO_ZERO3     "no candidate is ZeRO-3"
#define NO_DDP       "no candidate is DistributedDataParallel's"
#define NO_AROUND    "memory.around is not played for the first candidate"
#define NO_PEERS     "one GPU sends nothing"
#define ONE_NODE     "one node sends nothing to another"
#define OF_STAGES    "a pipeline's stages are called with ids and hidden states alone"
#define NO_KERNELS   "no builtin model of this type takes its kernels"
#define NO_PACKAGE   "no candidate runs code of that package"
static const struct idle rows[] = {
    {"cluster.host_memory_bytes_per_node", is_on_host, "no candidate keeps anything on the host"},
    {"cluster.host_memory_gbs", never, "no host computes: a host without a GPU is answered for workload inference"},
    {"cluster.intra_node", has_neighbours, NO_PEERS},
    {"cluster.intra_node_gbs", has_neighbours, NO_PEERS},
    {"cluster.inter_node", has_nodes, ONE_NODE},
    {"cluster.inter_node_gbs", has_nodes, ONE_NODE},
    {"training.tensor_parallel", takes_a_degree, "LLMem's method cuts over all GPUs or none"},
    {"training.lora.rank", adapts, NO_ADAPTERS},
    {"training.lora.target_modules", adapts, NO_ADAPTERS},
    {"training.lora.target_parameters", adapts, NO_ADAPTERS},
    {"training.lora.modules_to_save", adapts, NO_ADAPTERS},
    {"training.lora.layers_to_transform", adapts, NO_ADAPTERS},
    {"training.lora.layers_pattern", adapts, NO_ADAPTERS},
    {"training.lora.exclude_modules", adapts, NO_ADAPTERS},
    {"training.lora.rank_pattern", adapts, NO_ADAPTERS},
    {"training.lora.dropout", adapts, NO_ADAPTERS},
    {"training.lora.use_dora", adapts, NO_ADAPTERS},
    {"training.lora.bias", adapts, NO_ADAPTERS},
    {"training.lora.kernels", adapts, NO_ADAPTERS},
    {"training.lora.dtype", keeps_adapters_dtype, "no candidate has adapters, or accelerate and DeepSpeed's engine hold them in a dtype of their own"},
    {"training.lora.alpha", adapts_tensors, "a factor, which takes memory beside target_parameters alone"},
    {"training.lora.alpha_pattern", adapts_tensors, "factors, which take memory beside target_parameters alone"},
    {"training.prepare_kbit", is_prepared, "no candidate's weights are quantised"},
    {"training.tf32", has_fp32_products, "products are in half"},
    {"training.cudnn_attention", looks_at_cudnn, "sdpa in halves takes cuDNN's attention first on GPUs of compute capability 9.0 and 10.x alone, from torch 2.11 on"},
    {"training.optimizer", is_any_but_colossal, "Gemini has HybridAdam"},
    {"training.max_grad_norm", may_skip_norm, "the Trainer of this release takes the gradients' norm without clipping too (trainer.py _get_grad_norm), and so does DeepSpeed's stage 0"},
    {"training.checkpoint_reentrant", is_checkpointed, "no candidate is checkpointed"},
    {"training.liger_kernels", liger_knows, "Liger has no kernels for this type: it says so in the log, and the step is the model's own"},
    {"training.liger_kernels", has_kernels, "of its words layer_norm, and that of swiglu and geglu which is not the model's gate: Liger's function of this type has no such kernel"},
    {"training.reduce_dtype", is_fsdp, NO_FSDP},
    {"training.gradient_as_bucket_view", is_ddp, NO_DDP},
    {"training.find_unused_parameters", is_ddp, NO_DDP},
    {"training.buckets.ddp_bytes", is_ddp, NO_DDP},
    {"training.overlap_comm", has_buckets, NO_BUCKETS},
    {"training.buckets.reduce_elems", has_buckets, NO_BUCKETS},
    {"training.buckets.allgather_elems", never, "ZeRO-1 and 2 gather into the parameters themselves, however many at a time, and nobody else reads it"},
    {"training.buckets.prefetch_elems", is_zero3, NO_ZERO3},
    {"training.buckets.max_live_elems", is_zero3, NO_ZERO3},
    {"training.buckets.reuse_elems", is_zero3, NO_ZERO3},
    {"training.buckets.round_robin", is_zero12, "no candidate is ZeRO-1 or 2, which alone deal parameters out"},
    {"training.buckets.sub_group_elems", is_zero3, NO_ZERO3},
    {"training.buckets.persistence_elems", is_zero3, NO_ZERO3},
    {"stack.zero_init", is_zero3, NO_ZERO3},
    {"training.sync_each_batch", accumulates, "no gradients wait for a later micro-batch to be reduced"},
    {"training.fsdp.wrap", is_fsdp2, "no candidate is sharded by fully_shard; FSDP1 wraps layers"},
    {"training.fsdp.forward_prefetch", is_fsdp, NO_FSDP},
    {"training.fsdp.autocast", is_fsdp, NO_FSDP},
    {"training.fsdp.cpu_ram_efficient_loading", is_told_of_fsdp, "no candidate under FSDP loads otherwise by it: bitsandbytes' weights of transformers 4 do, and memory.around"},
    {"training.fsdp.backward_prefetch", is_fsdp1, NO_FSDP1},
    {"training.fsdp.use_orig_params", is_fsdp1, NO_FSDP1},
    {"training.fsdp.limit_all_gathers", is_fsdp1, NO_FSDP1},
    {"training.shard_group", is_hybrid, "no candidate shards within a group"},
    {"training.padded", is_no_pipeline, OF_STAGES},
    {"training.attention_mask", is_no_pipeline, OF_STAGES},
    {"training.use_cache", may_use_cache, "no candidate's loop asks for a cache"},
    {"training.eval_batch_size", is_evaluated, NO_AROUND},
    {"training.prediction_loss_only", is_evaluated, NO_AROUND},
    {"training.eval_batches", keeps_predictions, "no predictions are kept (prediction_loss_only false keeps them), or memory.around is not played"},
    {"training.eval_accumulation_steps", keeps_predictions, "no predictions are kept (prediction_loss_only false keeps them), or memory.around is not played"},
    {"inference", never, "the workload is finetune"},
    {"stack.framework", has_loop, "the loop is that of the method: torch.distributed.pipelining's for pp, Colossal-AI's for llmem_*, DeepSpeed's engine for zero0 to zero3"},
    {"stack.peft", needs_peft, NO_PACKAGE},
    {"stack.bitsandbytes", needs_bitsandbytes, NO_PACKAGE},
    {"stack.deepspeed", needs_deepspeed, NO_PACKAGE},
    {"stack.flash_attn", needs_flash_attn, NO_PACKAGE},
    {"stack.liger", needs_liger, NO_PACKAGE},
    {"stack.causal_conv1d", needs_causal_conv1d, NO_KERNELS},
    {"stack.mamba_ssm", needs_mamba_ssm, NO_KERNELS},
    {"stack.fla", needs_fla, NO_KERNELS},
    {"stack.trl", never, "what TRL does is as in 1.16.0, whatever release is named"},
    {"stack.cuda", never, "kernels and context are those of CUDA 11.7 and later, whatever release is named"},
};

/* The slot of a dotted name, and its row. */
static const struct member *find(const struct estimate_request *rq, const char *dotted, const void **ret_at)
{
    const struct member *m = estimate_members;
    const char *at = (const char *)rq;

    for (;;) {
        size_t n = strcspn(dotted, ".");

        while (m->key && (strlen(m->key) != n || strncmp(m->key, dotted, n) != 0))
            m++;
        at += m->at;
        if (!dotted[n] || !m->key) {
            *ret_at = at;
            return m;
        }
        dotted += n + 1;
        m = m->members;
    }
}

/* Stated by the request itself: what a tool's file says beside is that file's habit. */
static bool is_stated(const struct estimate *e, const char *dotted)
{
    const void *at;
    const struct member *m = find(&e->rq, dotted, &at);

    if (m->kind == KIND_OBJECT)
        return members_any_set(m->members, at);
    return m->key && member_is_set(m, at) && !origin_of(&e->origins, at);
}

/* Where nothing has figures, nothing is said of them. */
static bool is_read(const struct estimate *e, const struct idle *row)
{
    const struct plan_answer *a = &e->answer;

    if (!a->any_modelled)
        return true;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled && row->reads(e, &a->candidates[i]))
            return true;
    return false;
}

/* One line a reason. */
struct saying {
    struct notes *notes;
    struct buf names;
    char text[480];
    unsigned n;
    const char *why;
};
enum { NAMED_MAX = 8 };

static void say(struct saying *s)
{
    if (s->n > NAMED_MAX)
        note_of(s->notes, NOTE_OF_YOURS, "%s and %u more say nothing here: %s", buf_text(&s->names), s->n - NAMED_MAX, s->why);
    else if (s->n)
        note_of(s->notes, NOTE_OF_YOURS, "%s say%s nothing here: %s", buf_text(&s->names), s->n > 1 ? "" : "s", s->why);
    buf_init_fixed(&s->names, s->text, sizeof s->text);
    s->n = 0;
}

static void add(struct saying *s, const char *name, const char *why)
{
    if (s->why && strcmp(s->why, why) != 0)
        say(s);
    s->why = why;
    if (s->n++ >= NAMED_MAX)
        return;
    buf_str(&s->names, s->n > 1 ? ", " : "");
    buf_str(&s->names, name);
}

/* "/training/learning_rate" as a sentence has it. */
static const char *dotted(struct estimate *e, const char *pointer)
{
    char *ret = arena_str(e->call->arena, pointer + 1, strlen(pointer + 1));

    for (char *p = ret; p && *p; p++)
        if (*p == '/')
            *p = '.';
    return ret ? ret : pointer;
}

/* Members of training and lora that other tools have, too. */
static void say_harmless(struct estimate *e, struct saying *s)
{
    for (const struct ignored *i = e->left_out.harmless; i; i = i->next)
        add(s, dotted(e, i->pointer), "another tool's names, of what moves neither memory nor time of a step");
    say(s);
}

void idle_say(struct estimate *e)
{
    struct saying s = {.notes = &e->assumptions};

    buf_init_fixed(&s.names, s.text, sizeof s.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_stated(e, rows[i].member) && !is_read(e, &rows[i]))
            add(&s, rows[i].member, rows[i].why);
    say_harmless(e, &s);
}

/* --- workload inference ----------------------------------------------------------------------------------------------------------------- */

void idle_say_inference(struct estimate *e, bool vllm, bool packed, bool spread)
{
    const struct words *f = &e->rq.stack.framework;
    bool loop = f->n && framework_words[f->at[0]].value != FRAMEWORK_TRANSFORMERS && (vllm || !asks_litgpt(&e->rq));
    const struct {
        const char *member;
        bool is_read;
        const char *why;
    } of[] = {
        {"inference.compute_dtype", packed && !vllm, vllm ? "vLLM computes in the model's dtype" : "weights that are not packed are computed with as they are"},
        {"inference.max_model_len", vllm, "generate() has no such limit"},
        {"inference.max_num_batched_tokens", vllm, "generate() has no such limit"},
        {"cluster.host_memory_bytes_per_node", spread, "nothing of a generation is kept on the host but by device_map over several GPUs"},
        {"cluster.intra_node", false, "no message is in the seconds of a generation"},
        {"cluster.intra_node_gbs", false, "no message is in the seconds of a generation"},
        {"cluster.inter_node", false, "GPUs of one node are used"},
        {"cluster.inter_node_gbs", false, "GPUs of one node are used"},
        {"allocator.expandable_segments", !vllm, "vLLM's blocks are a part of the GPU, however it is cut"},
        {"objective", false, "nothing is ranked by it: weights are compared by what they hold"},
        {"llmem", false, "LLMem knows training alone"},
        {"stack.framework", !loop, "generate() has no loop of training"},
        {"stack.zero_init", false, "the workload is inference"},
        {"stack.trl", false, "the workload is inference"},
        {"stack.causal_conv1d", false, "generating runs no code of that package here"},
        {"stack.mamba_ssm", false, "generating runs no code of that package here"},
        {"stack.fla", false, "generating runs no code of that package here"},
        {"stack.cuda", false, "kernels and context are those of CUDA 11.7 and later, whatever release is named"},
    };
    struct saying s = {.notes = &e->assumptions};

    buf_init_fixed(&s.names, s.text, sizeof s.text);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (is_stated(e, of[i].member) && !of[i].is_read)
            add(&s, of[i].member, of[i].why);
    say_harmless(e, &s);
}
