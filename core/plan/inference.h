/*
 * inference.h - a question about generating text with a model on one GPU, and its answer: a candidate for each form of the weights.
 *
 * Purpose   plays each form (core/infer), looks for the largest batch and the longest context that fit beside what was asked, and times prompt and tokens.
 * Models    transformers' generate(), greedy, one GPU. Weights as they are saved or cast, and by bitsandbytes. A candidate without a model has a reason.
 * Units     bytes, tokens, seconds.
 * Errors    as plan_answer(): of one candidate they are its reason.
 * Owner     the answer lies in `keep`; `scratch` is for the runs.
 * Threads   pure.
 */
#ifndef PLAN_INFERENCE_H
#define PLAN_INFERENCE_H

#include "infer/device_play.h"
#include "infer/generate.h"
#include "infer/vllm.h"
#include "plan/plan.h"

/* A form of the weights. */
struct inference_weights {
    const char *name;   /* "nf4" */
    enum precision cast; /* of what stays a number each; PRECISION_UNSET: not modelled */
    enum kbit kbit;
    struct packed_options packed;
    enum packing unpacks; /* to `cast`, of a checkpoint that has them so: while it is loaded */
};

enum inference_engine { ENGINE_TRANSFORMERS, ENGINE_VLLM };

struct inference_question {
    const struct arch *arch; /* NULL: `gap` says why */
    const char *gap;
    struct stack stack;
    struct device device;
    const struct perf_system *system; /* NULL: no times */
    uint64_t capacity_bytes;
    double margin;
    bool expandable_segments, padded, litgpt; /* litgpt: generate/base.py of that package, over a model of its own */
    enum attention attention;
    enum inference_engine engine;
    struct generation_choice choice;
    enum generation_cache cache; /* generate()'s; CACHE_FP8 where kv_bytes is 1 */
    uint32_t tensor_parallel; /* GPUs that share each layer; at least 1 */
    uint32_t gpus, gpus_per_node;
    bool spread_alone;        /* device_map="auto" was asked: no candidate on one GPU beside it */
    bool spread_never;        /* another device_map was */
    enum device_map_shares shares;
    struct {                  /* what from_pretrained() is told: GPUs that it does not name are not used */
        uint32_t gpus;        /* 0: nothing, what is free counts */
        bool host;            /* it names "cpu" */
        const uint64_t *gpu_bytes;
        uint64_t host_bytes;
    } max_memory;
    uint64_t host_bytes;      /* of a node; 0: not known */
    bool on_host;             /* no GPU computes: capacity_bytes is the host's memory */
    double host_bytes_per_s;  /* of that; 0: not known */
    /* vLLM's */
    double utilization;
    bool a100;
    unsigned kv_bytes;        /* of an element of the cache; 0: as what is not quantised */
    bool eager;               /* enforce_eager */
    uint32_t max_model_len, batched_tokens; /* 0: as many positions as the model has; its default */
    enum dtype compute;      /* of 4-bit weights' products; DTYPE_COUNT: as what is not quantised */
    uint32_t batch_size, prompt_tokens, new_tokens;
    uint32_t n_weights;
    const struct inference_weights *weights; /* in the order to try: unasked, later ones stand beside the first */
    bool asked;              /* they are the request's */
};

/* Whether vLLM has blocks for one request of max_model_len, of what it measures when it starts: at most and at least. Other engines start. */
enum start { START_SURE, START_MAYBE, START_NEVER };

struct inference_candidate {
    const struct inference_weights *weights;
    bool spread;             /* over the node's GPUs by device_map="auto" */
    bool modelled, fits, tight;
    struct plan_reason reason;
    struct step step;        /* its attention, its quirks */
    struct generated memory;
    uint64_t device_bytes;   /* reserved + context */
    bool largest_known;      /* the two below */
    uint32_t max_batch_size; /* 0: none */
    uint64_t max_context_tokens; /* prompt and answer together, at the asked batch and answer; 0: none */
    double prefill_s, token_s; /* 0: not known; token_s: the mean of the answer's tokens behind the first */
    struct device_spread *devices; /* where it is spread */
    struct vllm_answer vllm; /* of that engine: in the place of `memory` */
    enum start start;
    uint32_t max_model_len;
    double bound_tokens_per_s; /* a roofline: no kernel is slower than memory or its products; 0: not known */
    double tokens_per_s;     /* made, of the whole batch, prompt included in the time */
    double mfu;
};

struct inference_answer {
    struct inference_candidate *candidates; /* ranked: those that fit, the fastest first */
    uint32_t n;
    bool any_fits, any_modelled;
};

MUST_CHECK enum err_code plan_inference(const struct inference_question *q, struct arena *keep, struct arena *scratch, struct inference_answer *ret,
                                        struct err *err);

#endif
