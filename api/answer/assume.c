/* What an answer rests on: notes for `assumptions`, and warnings that only the answer shows. */
#include "api/answer/estimate.h"

#include "parallel/nccl.h"
#include "parallel/program.h"
#include "stack/defaults.h"
#include "tuning/lora.h"

#include <stdio.h>
#include <string.h>

typedef bool (*candidate_test)(const struct plan_candidate *c);

static bool any(const struct plan_answer *a, candidate_test holds)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled && holds(&a->candidates[i]))
            return true;
    return false;
}

static bool is_bounded(const struct plan_candidate *c)
{
    return c->basis == BASIS_BOUNDED;
}

static bool is_ddp(const struct plan_candidate *c)
{
    return c->step.r.method == METHOD_DDP;
}

/* Adapters under reentrant checkpoints in the Trainer's loop: resolve.c tells why. */
static bool ignores_unused(const struct plan_candidate *c)
{
    const struct step *s = &c->step;

    return is_ddp(c) && s->r.framework == FRAMEWORK_TRANSFORMERS && s->r.tuning != TUNING_FULL && !s->find_unused_parameters;
}

static bool guesses_flash(const struct plan_candidate *c)
{
    return c->step.r.attention == ATTENTION_FLASH_2 && c->step.r.framework == FRAMEWORK_TORCH && !c->step.r.flash_attn_named;
}

static bool is_flex(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.attention == ATTENTION_FLEX;
}

static bool is_offloaded(const struct plan_candidate *c)
{
    return c->step.r.offload != OFFLOAD_NONE;
}

static bool crosses_streams(const struct plan_candidate *c)
{
    return c->basis == BASIS_REPLAYED && c->memory.crossed;
}

/* DeepSpeed's release decides what a model made outside zero.Init holds, and nobody said where it is made. */
static bool guesses_init(const struct plan_candidate *c)
{
    return c->step.r.method == METHOD_ZERO3 && c->step.r.zero.zero_init == TRI_FALSE && !c->step.quirks.zero3_wraps_linears;
}

static bool is_timed(const struct plan_candidate *c)
{
    return crosses_streams(c) && c->memory.timed;
}

static bool is_midway(const struct plan_candidate *c)
{
    return crosses_streams(c) && !c->memory.timed && c->step.r.method == METHOD_ZERO3;
}

static bool is_retrying(const struct plan_candidate *c)
{
    return c->basis == BASIS_REPLAYED && c->retries;
}

static bool is_unlaunchable(const struct plan_candidate *c)
{
    return c->fits && !c->launchable;
}

static bool is_pipeline(const struct plan_candidate *c)
{
    return c->step.r.method == METHOD_PP;
}

static bool is_int8(const struct plan_candidate *c)
{
    return c->step.r.quantization == KBIT_INT8;
}

static bool is_cut_by_zero3(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.method == METHOD_ZERO3 && kbit_is_bnb(c->step.r.quantization);
}

static bool is_packed_under_fsdp(const struct plan_candidate *c)
{
    enum method m = c->step.r.method;

    return c->modelled && kbit_is_bnb(c->step.r.quantization) && (method_is_fsdp1(m) || method_is_fsdp2(m));
}

static bool waits_on_host(const struct plan_candidate *c)
{
    return is_packed_under_fsdp(c) && step_packs_by_host(&c->step);
}

static bool deals_out(const struct plan_candidate *c)
{
    return c->modelled && method_is_zero_whole(c->step.r.method) && c->step.r.zero.round_robin && c->step.r.data_parallel > ZERO12_RANKS;
}

static bool leaves_ranks(const struct plan_candidate *c)
{
    return c->modelled && c->memory.ranks_left;
}

static bool is_torchao(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.quantization == KBIT_TORCHAO_INT8;
}

static bool is_torchao_nf4(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.quantization == KBIT_TORCHAO_NF4;
}

static bool is_awq(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.quantization == KBIT_AWQ4;
}

static bool is_hqq(const struct plan_candidate *c)
{
    return c->modelled && kbit_is_hqq(c->step.r.quantization);
}

static bool is_gptq(const struct plan_candidate *c)
{
    return c->modelled && kbit_is_gptq(c->step.r.quantization);
}

static bool is_paged(const struct plan_candidate *c)
{
    return optimizer_rows[c->step.r.optimizer].paged;
}

static bool compiles_update(const struct plan_candidate *c)
{
    enum optim_kind kind = optimizer_rows[c->step.r.optimizer].kind;

    return kind == OPTIM_AO_ADAMW_8BIT || kind == OPTIM_AO_ADAMW_4BIT;
}

/* accelerate utils/deepspeed.py map_pytorch_optim_to_deepspeed */
static bool becomes_host_adam(const struct plan_candidate *c)
{
    return c->modelled && method_is_zero(c->step.r.method) && offload_of_states(c->step.r.offload) &&
           optimizer_rows[c->step.r.optimizer].under != OPTIMIZER_UNDER_LOCAL;
}

static bool offloads_activations(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.offload == OFFLOAD_ACTIVATIONS;
}

static bool is_muon(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.optimizer == OPTIMIZER_MUON;
}

static bool uses_liger(const struct plan_candidate *c)
{
    return c->modelled && (c->step.r.liger_kernels || c->step.r.loss == LOSS_LIGER);
}

static bool is_compiled(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.compile;
}

static bool has_float8(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.float8;
}

static bool loss_is_fused(const struct plan_candidate *c)
{
    return c->modelled && recipe_fuses_loss(&c->step.r);
}

/* What is only known as a range, and why. */
static void assume_ranges(struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (any(a, is_compiled)) {
        note(&e->assumptions,
             "training.compile: Inductor in its default mode. high_bytes is the eager step with what a graph holds beyond it: an embedding's gradient summed "
             "in fp32; where the model is one graph (single, tp, pp, zero1, zero2) all gradients of a micro-batch until its backward ends");
        if (any(a, loss_is_fused))
            note(&e->assumptions,
                 "training.compile: the loss is in the graph, as the Trainer compiles the whole model: logits stand as they came, beside their "
                 "gradient and the zeros that "
                 "AOTAutograd takes for that of the logits which the graph returns; a loop that compiles layers alone holds an eager loss "
                 "(stack.framework torch). Steps "
                 "of torch 2.15 that were run lie in the range; one of torch 2.7 stood 10 %% above it, in the backward of a checkpointed layer");
        note(&e->assumptions,
             "training.compile: low_bytes keeps of a layer its input and what products and attention gave and backward reads, and logits once; fits, peaks "
             "and reserved bytes are those of the upper end");
    }
    if (any(a, has_float8))
        note(&e->assumptions,
             "training.float8: torchao 0.18.0's Float8Linear in the place of every linear layer but the head. high_bytes has its casts as eager PyTorch "
             "makes them, 9 bytes an element while one is made; low_bytes has none");
    if (any(a, is_compiled) || any(a, has_float8))
        note(&e->assumptions, "throughput is left out: what %s gains nobody computes here; candidates are ranked by the eager step's seconds",
             any(a, is_compiled) ? "a compiler" : "float8");
}

/* trl 1.16.0's METADATA: transformers>=4.56.2 */
enum { TRL_NEEDS = 4056 };

static bool runs_trl(const struct plan_candidate *c)
{
    return c->modelled && c->step.r.loss == LOSS_CHUNKED_NLL;
}

static void assume_losses(struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (any(a, uses_liger) && stack_needs(&e->stack, PACKAGE_LIGER) > e->stack.transformers)
        note(&e->warnings,
             "stack: Liger %s needs transformers %s and newer, and this is %s: no such pair runs; the figures are those of its kernels all the same",
             release_text(e->stack.liger).text, release_text(stack_needs(&e->stack, PACKAGE_LIGER)).text, release_text(e->stack.transformers).text);
    if (any(a, runs_trl) && e->stack.transformers < TRL_NEEDS)
        note(&e->warnings,
             "stack: what trl 1.16 does is in the figures, and it needs transformers %s and newer; this is %s: an older trl has other defaults and losses",
             release_text(TRL_NEEDS).text, release_text(e->stack.transformers).text);
    if (any(a, uses_liger) && !e->rq.stack.liger)
        note_of(&e->assumptions, NOTE_OF_YOURS, "Liger %s: the newest that runs beside transformers %s; stack.liger names another",
                release_text(e->stack.liger).text, release_text(e->stack.transformers).text);
}

static bool is_modelled(const struct plan_candidate *c)
{
    return c->modelled;
}

static bool counts_evenly(const struct plan_candidate *c)
{
    return c->modelled && c->memory.counts_evenly;
}

/* Which tokens an expert of a loop has. */
static const char *shares_of(const struct quantity *skew, char *text, size_t bytes)
{
    if (!skew->set || skew->real <= 1)
        return "each has an even share of them";
    (void)snprintf(text, bytes, "the first of each layer has %.4g even shares of them, at most all, the others share what is left", skew->real);
    return text;
}

/* Files that are not llmemd's own: what was read of them while they ran. */
static void assume_their_experts(struct estimate *e)
{
    const struct quantity *skew = &e->rq.training.expert_skew;
    char text[128];

    if (any(&e->answer, counts_evenly)) {
        note(&e->assumptions,
             "experts: this modelling file reads how many tokens each expert has, or which have any; %s; tokens that crowd on one take another "
             "amount of memory there",
             shares_of(skew, text, sizeof text));
    } else if (any(&e->answer, is_modelled) && (e->model.arch.experts || skew->set))
        note(&e->assumptions, "experts: this modelling file reads no number of tokens that an expert has, so memory is the same however they fall; seconds "
                              "are those of equal shares%s", skew->set && skew->real > 1 ? ", whatever training.expert_skew says" : "");
}

/* torch's grouped_mm has as many rows however tokens fall, in both directions; a loop over experts that are modules has not. */
static void assume_experts(struct estimate *e, const struct quirks *q)
{
    const struct arch *arch = &e->model.arch;
    const struct quantity *skew = &e->rq.training.expert_skew;
    char text[128];

    if (e->model.has_program && (e->model.n_files || e->model.installed)) {
        assume_their_experts(e);
        return;
    }
    if (!e->model.has_program || !arch->experts) {
        if (skew->set)
            note(&e->assumptions, "this model has no experts: training.expert_skew says nothing of it");
        return;
    }
    if (q->experts_in_turn) {
        note(&e->assumptions,
             "experts: a token takes %u of %u, which transformers %s has one after the other; %s; tokens that crowd on one take more "
             "memory there",
             arch->experts_used, arch->experts, release_text(e->stack.transformers).text, shares_of(skew, text, sizeof text));
        return;
    }
    note(&e->assumptions,
         "experts: a token takes %u of %u; one grouped product has a row for each token and expert it takes, however many of them are one expert's, "
         "so memory is the same from none to all tokens on one; seconds are those of %s",
         arch->experts_used, arch->experts, skew->set && skew->real > 1 ? "equal shares, whatever training.expert_skew says" : "equal shares");
}

/* Packages whose kernels the code takes in place of PyTorch's operators where they are installed. */
static const char *list_packages(unsigned packages, const char *before, char *text, size_t size)
{
    static const struct {
        enum package package;
        const char *name;
    } names[] = {{PACKAGE_MAMBA_SSM, "mamba-ssm"}, {PACKAGE_FLA, "flash-linear-attention"}, {PACKAGE_CAUSAL_CONV1D, "causal-conv1d"}};
    size_t n = 0;

    *text = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (packages & PACKAGE_BIT(names[i].package) && n < size)
            n += (size_t)snprintf(text + n, size - n, "%s%s%s", n ? " and " : "", before, *before ? package_name(names[i].package) : names[i].name);
    return text;
}

static void assume_kernels(struct estimate *e)
{
    bool theirs = e->model.n_files || e->model.installed; /* which run without, whatever is named */
    unsigned takes = e->model.has_program ? stack_kernels(e->model.model_type) : 0, named = 0;
    char text[128], ask[128];

    for (int p = 0; p < PACKAGE_COUNT; p++)
        named |= !theirs && stack_release(&e->stack, (enum package)p) ? PACKAGE_BIT(p) & takes : 0;
    if (takes & ~named)
        note(&e->assumptions,
             "%s: taken as not installed, so %s runs by PyTorch's own operators, as its traced steps do; their kernels keep other tensors, mostly "
             "fewer%s%s",
             list_packages(takes & ~named, "", text, sizeof text), e->model.model_type, theirs ? "" : "; asked for by ",
             theirs ? "" : list_packages(takes & ~named, "stack.", ask, sizeof ask));
    if (named & PACKAGE_BIT(PACKAGE_MAMBA_SSM))
        note(&e->assumptions,
             "mamba-ssm: the first launch of each kernel is measured by Triton's autotuner beside a buffer of 256 MiB, which first steps have");
    if (named & PACKAGE_BIT(PACKAGE_FLA))
        note(&e->assumptions,
             "flash-linear-attention: what its autotuner found is on disk; the run that finds it has 256 MiB more in its first step");
    if (named)
        note(&e->assumptions, "%s: kernels are timed by the bytes that they read and write; none was measured",
             list_packages(named, "", text, sizeof text));
}

static void assume_methods(struct estimate *e, const struct quirks *q)
{
    const struct plan_answer *a = &e->answer;

    assume_losses(e);
    assume_ranges(e);
    assume_experts(e, q);
    assume_kernels(e);

    if (any(a, is_ddp))
        note_of(&e->assumptions, NOTE_OF_INTERNALS,
                "ddp: peaks are those of the third step; DistributedDataParallel makes its buckets anew in the second");
    if (any(a, guesses_flash))
        note(
            &e->assumptions,
            "a plain loop that asks for flash_attention_2 and names no stack.flash_attn is timed by the kernel of the published runs of such "
            "loops, FlashAttention 1's in Triton (llm-foundry); a release from 2.0 on gives FlashAttention 2's rate");
    if (any(a, is_flex))
        note(&e->assumptions,
             "flex_attention: what Inductor compiles for lengths that stay the same; its kernels are timed as FlashAttention 2's, none was measured");
    if (any(a, ignores_unused))
        note(&e->assumptions, "ddp: ddp_find_unused_parameters is false, as it must be for adapters under reentrant checkpointing");
    if (any(a, crosses_streams))
        note(
            &e->assumptions,
            "blocks that several streams use stay active until the slowest has passed: low_bytes is a GPU that never lags behind the host, "
            "high_bytes one that always does");
    if (any(a, guesses_init) && e->rq.stack.zero_init == TRI_UNSET)
        note_of(
            &e->assumptions, NOTE_OF_YOURS,
            "zero3: before DeepSpeed 0.19 a model that is made within zero.Init() (TrainingArguments come first) keeps no gathered weights "
            "for backward; stack.zero_init is left out: it is made before");
    if (any(a, is_timed))
        note_of(
            &e->assumptions, NOTE_OF_INTERNALS,
            "zero3: peak_active_bytes and reserved bytes by the clocks of host, streams and links: a stream takes 1,024 operations, a hook "
            "of stage 3 takes the slowest rank 0.24 ms and a gather 0.18 ms, the fastest 15 %% less (empirical)");
    if (any(a, is_midway))
        note(&e->assumptions, "zero3: nothing says how fast this GPU is: peak_active_bytes is midway between low_bytes and high_bytes");
    if (any(a, is_int8))
        note(&e->assumptions,
             "int8: no input has a column beyond llm_int8_threshold; each that has takes a half copy of itself and of the weight's");
    if (any(a, is_cut_by_zero3))
        note(&e->assumptions,
             "zero3: 4-bit weights are stored in the dtype they compute in (bnb_4bit_quant_storage) and stand whole on each GPU, since "
             "transformers makes quantised models outside zero.Init(); the engine shares them out");
    if (any(a, deals_out))
        note(&e->assumptions,
             "round_robin_gradients: of more than %d ranks those are played that the order before dealing out makes likely to need most: another may need more",
             (int)ZERO12_RANKS);
    if (any(a, leaves_ranks))
        note(&e->assumptions, "ranks whose shares cut the gradients otherwise: where playing each is more work than one question has, the one is played "
                              "that is likely to need most (worst_rank): another may need more, by a few tensors of a bucket");
    if (any(a, is_packed_under_fsdp))
        note(&e->assumptions, q->bnb_stays_on_device
                 ? "4-bit weights under FSDP: transformers from 5.0 on loads all of them onto each GPU, cpu_ram_efficient_loading or not; then units are cut"
             : any(a, waits_on_host)
                 ? "4-bit weights under FSDP: cpu_ram_efficient_loading is true, as accelerate launch has it: packed on the GPU, they wait on the host"
                 : "4-bit weights under FSDP: without cpu_ram_efficient_loading all of them are loaded onto each GPU; then units are cut");
    if (any(a, is_torchao))
        note(&e->assumptions,
             "torchao-int8: torchao 0.18.0, Int8WeightOnlyConfig() of rows; its products are PyTorch's own, which keep each weight in half until backward");
    if (any(a, is_torchao_nf4))
        note(&e->assumptions, "torchao-nf4: torchao 0.18.0, NF4WeightOnlyConfig() with blocks of 64 and scales in blocks of 256");
    if (any(a, is_awq))
        note(&e->assumptions,
             "awq4: groups of 128 rows, autoawq 0.2.9 with its compiled kernels, weights in fp16 (from transformers 4.53 on, where bf16 is asked too); "
             "all-linear are the names of all linears, of which peft itself finds nn.Linear alone");
    if (any(a, is_hqq))
        note(&e->assumptions,
             "hqq: HqqConfig(group_size=64) of 0.2.8 with the products of PyTorch's operators (HQQBackend.PYTORCH); all-linear are the names of all "
             "linears, of which peft itself finds nn.Linear alone");
    if (any(a, is_gptq))
        note(&e->assumptions, "gptq: groups of 128 rows, as most checkpoints have; kernels in Triton (fms-acceleration-peft 0.3.1)");
    if (any(a, is_paged))
        note(
            &e->assumptions,
            "paged optimizer states lie in CUDA's managed memory and in no figure of the allocator: on the GPU while it has room, else on the host; "
            "memory.host_bytes_per_node has them in full");
    if (any(a, compiles_update))
        note(&e->assumptions,
             "torchao's optimizer compiles its update: what Inductor's code of it holds between its kernels is in the figures as torch 2.4, 2.7 and 2.15 "
             "write it, of 4 bits 24 bytes an element of the parameter that is updated");
    if (any(a, becomes_host_adam))
        note(&e->assumptions,
             "accelerate puts DeepSpeedCPUAdam in the place of an optimizer that is offloaded: fp32 states on the host whatever its name says");
    if (any(a, offloads_activations))
        note(&e->assumptions, "offload of activations is TRL's OffloadActivations around a training step: five tensors wait on the GPU, streams of its own; "
                              "memory.host_bytes_per_node holds the most that lies on the host at a time");
    if (any(a, is_muon))
        note(&e->assumptions, "muon: torch.optim.Muon over the matrices of the layers, then torch.optim.AdamW over embeddings, head and vectors");
    if (any(a, is_pipeline))
        note(&e->assumptions,
             "pp: torch.distributed.pipelining, 1F1B, layers as even as they go, no outputs kept; gradient_accumulation_steps counts the "
             "micro-batches of a step, 4 a stage where nothing says how many");
    if (any(a, is_offloaded) && !e->question.host_memory_bytes_per_node)
        note_of(
            a->any_fits && !is_offloaded(a->candidates) ? &e->assumptions : &e->warnings, NOTE_OF_YOURS,
            "offload is judged on the GPU alone: how much memory a host has is not known (cluster.host_memory_bytes_per_node); what it has to hold is "
            "memory.host_bytes_per_node");
}

static void assume_plan(struct estimate *e, const struct plan_candidate *first)
{
    if (e->question.system)
        note_of(&e->assumptions, NOTE_OF_INTERNALS, "%s", perf_assumption());
    if (e->question.system && e->answer.n > 1)
        note(
            &e->assumptions,
            "of candidates within 5 %% of the fastest the simplest comes first: no offload, one GPU, a simpler method, no checkpointing; one "
            "that is tight comes behind one that is not and is no more than a tenth slower");
    if (any(&e->answer, is_unlaunchable))
        note(&e->assumptions,
             "launchable false: no launcher starts it (a pipeline needs a loop of the script's own; other methods a newer accelerate or "
             "transformers); such candidates come after those that are");
    if (any(&e->answer, is_retrying))
        note(
            &e->assumptions,
            "a candidate may be tight because it fits only where PyTorch's allocator, when the GPU is full, gives cached segments back and "
            "asks again: its bytes are those of that run, within the capacity; its step time knows nothing of those stalls");
    if (any(&e->answer, is_bounded))
        note(&e->assumptions,
             "basis bounded: low_bytes are live blocks, high_bytes add what the allocator of a model of few layers holds beside its own, %.1f %% at the "
             "least, the largest remainder of unsplit blocks that was traced; it fits where one more of the largest block would fit, too, else it is played",
             100 * PLAN_LARGEST_REMAINDER);
    if (!e->rq.training.micro_batch_size.set)
        note_of(
            &e->assumptions, NOTE_OF_YOURS,
            "micro_batch_size: the fastest of those that fit%s; of equal speeds the smaller, and one that leaves 5 %% of the GPU free before "
            "one that does not and is less than a tenth faster",
            e->rq.training.global_batch_size.set ? " and divide the global batch" : "");
    if (first->step.r.data_parallel * first->step.r.tensor_parallel * first->step.r.pipeline_parallel > 1)
        note_of(&e->assumptions, NOTE_OF_INTERNALS,
                "NCCL holds %d MiB on a GPU of a pair, %d MiB of more (NVIDIA/nccl issue 964: 4 A100, NVLink)", (int)NCCL_MIB_PAIR,
                (int)NCCL_MIB_MORE);
}

static void assume_packing(struct estimate *e, const struct recipe *r)
{
    const struct batch_shape shape = train_batch_shape(r);

    if (packs_by_mask(r))
        note_of(&e->assumptions, NOTE_OF_YOURS,
                "packing: a batch is %lld rows of %lld tokens, and a mask of all pairs of a row's tokens, as LLaMA-Factory's collator makes it without flash "
                "attention",
                (long long)shape.rows, (long long)shape.tokens);
    else if (r->packing && r->sequence_tokens > 0)
        note_of(&e->assumptions, NOTE_OF_YOURS, "packing: a batch is one row of %lld tokens, %u sequences of the mean of training.lengths, cut at seq_len",
                (long long)shape.tokens, shape.sequences);
    else if (r->packing)
        note_of(&e->assumptions, NOTE_OF_YOURS,
                "packing: a batch is one row of %lld tokens and %u sequences, two a row of seq_len, the fewest that are packed at all; "
                "training.lengths says how many",
                (long long)shape.tokens, shape.sequences);
    else if (r->sequence_tokens > 0)
        note_of(&e->assumptions, NOTE_OF_YOURS, "training.lengths are read where rows are packed: here each row has seq_len tokens");
    if (r->packing && r->llama_factory && !packs_by_mask(r))
        note_of(&e->assumptions, NOTE_OF_YOURS, "training.trainer: under flash attention LLaMA-Factory's packed rows have no mask, as all others'");
}

static void assume_peft(struct estimate *e, const struct recipe *r, const struct quirks *q)
{
    if (r->tuning != TUNING_FULL && r->peft_unnamed && lora_spares(e->model.model_type, q))
        note_of(&e->assumptions, NOTE_OF_YOURS,
                "peft raises for adapters of out_proj and conv1d of this type since 0.16 (of nemotron_h since 0.20; tuners/tuners_utils.py); no stack.peft is "
                "named, so these stand for a release that adapts them");
}

/* modeling_qwen.py calls get_head_mask() */
static void assume_hub(struct estimate *e, const struct quirks *q)
{
    const struct model_info *m = &e->model;

    if (!strcmp(m->model_type, "qwen") && m->has_program && !m->n_files && !m->installed && !q->hub_head_mask)
        note_of(&e->assumptions, NOTE_OF_YOURS,
                "modeling_qwen.py of the hub raises on transformers 5 (get_head_mask ended with 4.57): figures are those of its step without that call; "
                "stack.transformers 4.57 or older runs it");
}

static void assume_stage(struct estimate *e, const struct recipe *r)
{
    static const char *const references[] = {
        [REFERENCE_COPY] = "; reference: a copy of the model, in its dtype, on each GPU",
        [REFERENCE_ADAPTER] = "; reference: the model without its adapters",
        [REFERENCE_PRECOMPUTED] = "; reference: numbers from before training",
    };
    const struct task *task = &tasks[r->stage];

    if (r->stage == TASK_SFT)
        return;
    if (!task->module) {
        note(&e->assumptions, "training.stage %s%s: %s", task->stage, e->rq.training.stage.n ? "" : ", by the class that architectures names", task->holds);
        return;
    }
    note(&e->assumptions, "training.stage %s: %s%s: %s%s", task->stage, r->stage == TASK_EMBEDDING || task->by != TRAINER_TRL ? "" : "trl 1.16.0 ",
         task->trainer, task->holds, task->refers && references[r->reference] ? references[r->reference] : "");
    if (r->stage == TASK_EMBEDDING) {
        note_of(&e->assumptions, NOTE_OF_YOURS,
                "training.stage embedding: %u pairs of rows of seq_len tokens%s; of a decoder too the mean of all tokens is taken",
                r->micro_batch_size, e->rq.training.packing == TRI_TRUE ? ", which flash attention's path flattens: taken as the rows that they are" : "");
        return;
    }
    note_of(&e->assumptions, NOTE_OF_YOURS,
            "training.stage %s: rows of seq_len tokens, chosen and rejected ones alike, whose tokens all count in the loss (no prompt is left out), "
            "which holds most",
            task->stage);
}

/* sdp_utils.cpp check_prefer_cudnn_attention; MHA.cpp get_workspace_size asks cuDNN: tests/data/ops/torch-2.11-cudnn-h100.csv */
static void assume_cudnn(struct estimate *e, const struct recipe *r)
{
    if (r->cudnn_attention == TRI_TRUE)
        note(&e->assumptions,
             "sdpa takes cuDNN's attention on this GPU where it has the shape (torch 2.11 and later; training.cudnn_attention false: the next kernel): "
             "its workspace is %s",
             e->question.device.cc_major == 9 ? "as measured on an H100 with torch 2.11 and cuDNN 9.19"
                                              : "taken to be that of an H100 with cuDNN 9.19, on this GPU it was not measured");
}

void assume_answer(struct estimate *e, const struct plan_candidate *first)
{
    const struct quirks *q = &first->step.quirks;

    if (!e->rq.training.seq_len.set)
        note_of(&e->assumptions, NOTE_OF_YOURS, "training.seq_len %u: left out, the smaller of 2048 and the model's maximum",
                first->step.r.seq_len_tokens);
    note_of(&e->assumptions, NOTE_OF_INTERNALS, "cub's scratch is as traced on two releases of torch: %d, %d, %d bytes",
            q->cub_scan_tail_bytes, q->cub_unique_tile, q->cub_unique_tail_bytes);
    assume_packing(e, &first->step.r);
    assume_stage(e, &first->step.r);
    assume_peft(e, &first->step.r, q);
    assume_hub(e, q);
    assume_cudnn(e, &first->step.r);
    assume_plan(e, first);
    assume_methods(e, q);
    if (first->step.r.attention == ATTENTION_EAGER && e->rq.training.attention.n && first->choice[AXIS_ATTENTION]->value == ATTENTION_SDPA)
        note(&e->warnings, "/training/attention: the %s class of this release has no sdpa, it runs eager", e->model.model_type);
    if (e->rq.training.sync_each_batch == TRI_TRUE && !train_reads_sync(&first->step.r))
        note(&e->warnings,
             "/training/sync_each_batch: the Trainer of this release does not read it, its gradients wait for the last micro-batch");
    if (first->step.r.use_cache == TRI_FALSE && e->rq.training.use_cache == TRI_TRUE)
        note(&e->warnings, "/training/use_cache: switched off while checkpointing, as transformers does");
}
