/* Workload inference: its summary, and what it assumes. */
#include "api/answer/inference.h"

#include "base/ascii.h"

static const char *verdict_of(const struct inference_candidate *c)
{
    if (c->fits)
        return c->tight ? "Fits tightly: " : "Fits: ";
    if (c->start == START_SURE)
        return "Does not fit: ";
    return c->start == START_MAYBE ? "May not start: " : "Does not start: ";
}

/* ", needs 40.0 of ": of vLLM, which takes its share of the GPU whatever there is, what stands in it. */
static void say_room(struct buf *out, const struct inference_candidate *c, bool vllm)
{
    if (c->start != START_SURE) {
        buf_str(out, ", ");
        say_gib(out, (double)c->vllm.weights_bytes);
        buf_str(out, " GiB of weights where vLLM takes ");
        say_gib(out, (double)c->vllm.requested_bytes);
    } else {
        buf_str(out, c->fits ? ", " : vllm ? ", takes " : ", needs ");
        say_gib(out, (double)c->device_bytes);
    }
    buf_str(out, " of ");
}

void inference_say(struct buf *out, const struct inferring *i)
{
    const struct inference_candidate *c = i->answer.candidates;
    const struct inference_question *q = &i->q;
    const struct words *map = &i->e->rq.inference.device_map;

    if (!i->answer.any_modelled) {
        buf_str(out, "No answer: ");
        buf_str(out, c->reason.detail ? c->reason.detail : "nothing was asked that has a model");
        buf_char(out, '.');
        return;
    }
    buf_str(out, verdict_of(c));
    buf_str(out, c->weights->name);
    buf_str(out, " weights, batch ");
    say_number(out, q->batch_size);
    buf_str(out, ", ");
    say_number(out, q->new_tokens);
    buf_str(out, " tokens behind a prompt of ");
    say_number(out, q->prompt_tokens);
    say_room(out, c, q->engine == ENGINE_VLLM);
    say_gib(out, (double)q->capacity_bytes);
    buf_str(out, " GiB on ");
    if (q->on_host)
        buf_str(out, "a host without a GPU");
    else
        say_gpus(out, c->spread ? q->gpus_per_node : q->tensor_parallel, gpu_in_words(i->e));
    if (c->spread) {
        buf_str(out, " by device_map=");
        buf_str(out, map->n ? device_map_words[map->at[0]].name : "auto");
    }
    if (c->spread && (c->devices->host_bytes || c->devices->disk_bytes)) {
        buf_str(out, ", ");
        say_gib(out, (double)c->devices->host_bytes);
        buf_str(out, " GiB of weights on the host");
        if (c->devices->disk_bytes) {
            buf_str(out, " and ");
            say_gib(out, (double)c->devices->disk_bytes);
            buf_str(out, " GiB on disk");
        }
    }
    if (c->fits && (c->tokens_per_s > 0 || c->bound_tokens_per_s > 0)) {
        buf_str(out, c->tokens_per_s > 0 ? ", " : ", at most ");
        say_number(out, c->tokens_per_s > 0 ? c->tokens_per_s : c->bound_tokens_per_s);
        buf_str(out, " tokens/s");
    }
    buf_char(out, '.');
    if (!c->fits && q->engine == ENGINE_VLLM && c->reason.detail) {
        buf_char(out, ' ');
        buf_char(out, ascii_upper(c->reason.detail[0]));
        buf_str(out, c->reason.detail + 1);
        buf_char(out, '.');
    }
    if (c->largest_known && c->max_batch_size && c->fits) {
        buf_str(out, " At most a batch of ");
        say_number(out, c->max_batch_size);
        if (c->max_context_tokens) {
            buf_str(out, ", or a context of ");
            say_number(out, (double)c->max_context_tokens);
            buf_str(out, " tokens");
        }
        buf_char(out, '.');
    }
}

static const char *kernels_of(const struct inference_candidate *c)
{
    const struct quirks *q = &c->step.quirks;
    enum packing kind = c->weights->packed.kind;

    if (kind == PACKING_AWQ4)
        return q->awq_by_gptqmodel ? "gptqmodel's Marlin" : "autoawq's kernels";
    return q->gptq_by_gptqmodel ? "gptqmodel's Marlin" : kind == PACKING_GPTQ4 ? "auto-gptq's exllama" : "auto-gptq's cuda-old";
}

static void assume_packed(struct notes *n, const struct inference_candidate *c)
{
    if (c->weights->packed.kind == PACKING_MXFP4)
        note_of(n, NOTE_OF_YOURS,
                "mxfp4: what the host code of kernels-community/gpt-oss-triton-kernels allocates, its kernels not run; one packed tensor loads after the "
                "other: the threads that read ahead may bring some more");
    else if (c->weights->packed.kind == PACKING_FP8)
        note_of(n, NOTE_OF_YOURS, "fp8: linears in blocks of %d x %d, their inputs quantised for each product; beside a CUDA toolkit's nvcc transformers 5 "
                "has DeepGEMM quantise them apart on H100 or B200, a byte and 1/32 each, not counted; seconds are those of products in half: "
                "a published table (Qwen3, H20, transformers 4.51) has 1.9 to 3.7 times as many",
                PACKED_BLOCK, PACKED_BLOCK);
    else
        note_of(n, NOTE_OF_YOURS, "%s: groups of %u rows, no act-order, products by %s: read from its host code, not traced", c->weights->name,
                c->weights->packed.group, kernels_of(c));
}

static void assume_vllm(struct notes *n)
{
    note_of(n, NOTE_OF_YOURS,
            "basis range: vLLM 0.33.0's rule of its source; what it measures when it starts (the profile's peak, memory outside PyTorch, CUDA graphs) "
            "is low..high, and blocks, batch and context are those of the least that is left");
    note_of(n, NOTE_OF_YOURS, "empirical: outside PyTorch 50 to 400 MiB, CUDA graphs 200 to 1,700 MiB, as its logs print");
    note_of(n, NOTE_OF_YOURS, "bound_tokens_per_s: weights and cache once a token at the memory's rate, products at theirs, nothing sent: no server is faster");
}

/* Until 4.55 a config, and before 4.53 its class, asks for a HybridCache: configuration_gemma2.py and configuration_cohere2.py of 4.48.1, generation/utils.py
 * _prepare_cache_for_generation() of 4.53.3. */
static void warn_of_hybrid_cache(struct inferring *i)
{
    static const char *const types[] = {"gemma2", "gemma3", "gemma3_text", "cohere2"};
    const char *type = i->e->model.arch.model_type;
    bool is_one = false, grows = false;

    for (uint32_t k = 0; k < i->answer.n && i->q.cache == CACHE_DYNAMIC; k++)
        grows |= i->answer.candidates[k].modelled && !i->answer.candidates[k].step.quirks.cache_cuts_windows;
    for (size_t k = 0; grows && k < sizeof types / sizeof *types; k++)
        is_one |= !strcmp(type, types[k]);
    if (is_one)
        note(&i->e->warnings,
             "generate() of %s before transformers 4.56 keeps a HybridCache where a config says cache_implementation hybrid, as long as prompt and answer from "
             "the start, and compiles its step: that is not modelled, the figures are those of a cache that grows",
             type);
}

void inference_assume(struct inferring *i)
{
    static const char *const caches[] = {[CACHE_DYNAMIC] = "a cache that grows", [CACHE_STATIC] = "a static cache, not compiled (disable_compile=True)",
                                         [CACHE_FP8] = "QuantizedCache(backend=\"fp8\"), one scale for the keys and one for the values of a layer",
                                         [CACHE_NONE] = "no cache, the whole text again for each token"};
    struct notes *n = &i->e->assumptions;
    bool part = false;

    if (i->q.engine == ENGINE_VLLM) {
        assume_vllm(n);
        return;
    }
    if (i->q.litgpt) {
        note_of(n, NOTE_OF_YOURS,
                "litgpt's generate/base.py: a cache of prompt and answer from the start, 4-bit weights of the head too; its layers are taken as "
                "transformers' are, its top-k sampling and what it takes to load are not counted");
        return;
    }
    if (i->q.on_host)
        note_of(n, NOTE_OF_YOURS,
                "basis range: on the host from weights and cache to all tensors that are alive at once; kernels' scratch, weights that oneDNN orders anew, "
                "the process and its libraries are not counted; bound_tokens_per_s: weights and cache once a token at host_memory_gbs");
    note_of(n, NOTE_OF_YOURS, "%s with %s: %sbeams and torch.compile hold other temporaries", i->q.choice.drawn ? "a token is drawn" : "greedy search",
            caches[i->q.cache], i->q.choice.drawn ? "" : "sampling (do_sample), ");
    warn_of_hybrid_cache(i);
    for (uint32_t k = 0; k < i->answer.n; k++) {
        part |= i->answer.candidates[k].modelled && !i->answer.candidates[k].spread && !i->answer.candidates[k].memory.replayed_in_full;
        if (i->answer.candidates[k].spread && i->answer.candidates[k].modelled)
            note_of(n, NOTE_OF_YOURS,
                    "device_map: get_balanced_memory() and infer_auto_device_map() over a node's GPUs; each GPU's blocks are played apart, what hooks copy of "
                    "tables and masks is not counted; layers run one after the other");
    }
    if (part)
        note_of(n, NOTE_OF_INTERNALS,
                "basis bounded: of the tokens the first and the last were played on the allocator, not each between: reserved bytes are at least what is told");
    for (uint32_t k = 0; k < i->answer.n; k++)
        if (i->answer.candidates[k].modelled && i->answer.candidates[k].weights->packed.kind) {
            assume_packed(n, &i->answer.candidates[k]);
            break;
        }
    if (i->answer.any_modelled && i->q.system)
        note_of(n, NOTE_OF_YOURS, "tokens_per_s counts new tokens alone, the prompt's time included; constants were fitted on training steps");
}
