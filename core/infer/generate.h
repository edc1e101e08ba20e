/*
 * generate.h - a model on one GPU that generates: its memory from loading to the last token, and what its kernels compute and move.
 *
 * Purpose   plays model.generate() of transformers as training plays a step: the program of the model runs without autograd over the prompt and over the
 *           first and last of the new tokens; what lies between leaves a cache that is as much longer. All figures are of blocks that lived.
 * Source    transformers 5.23 generation/utils.py, cache_utils.py, in the language: core/models/library/generation. Checked against real PyTorch:
 *           tests/data/accuracy/generate.jsonl.
 * Models    the most likely token or one that is drawn, on one stream, with a cache that grows, one that stands whole from the start, or one in fp8. Not
 *           modelled: beams, integer and offloaded caches, chunked prefill, assisted decoding, torch.compile.
 * Units     bytes, tokens.
 * Errors    ERR_NOMEM when the arena is too small, ERR_FIELD_CONFLICT for what the model cannot run.
 * Threads   pure; one arena a thread.
 */
#ifndef INFER_GENERATE_H
#define INFER_GENERATE_H

#include "config/arch.h"
#include "meters/cost.h"
#include "meters/peak.h"
#include "models/generation.h"
#include "models/model.h"
#include "tuning/kbit.h"
#include "tuning/packed.h"

struct generate_question {
    const struct arch *arch;
    const struct quirks *quirks;
    const struct device *device;
    enum dtype dtype;            /* of what is not quantised, and of the cache */
    enum dtype compute;          /* that products of quantised weights are made in */
    enum kbit weights;           /* of the linears; KBIT_NONE: dtype */
    struct packed_options packed; /* or in a checkpoint that is packed already; PACKING_NONE */
    enum packing unpacks;        /* or of one that is unpacked to dtype as it is loaded */
    enum attention_kernel attention;
    uint32_t tensor_parallel;    /* GPUs that share each layer: tp_plan="auto"; 0, 1: none. Rank 0 is told, whose part is the largest */
    enum generation_cache cache;
    struct generation_choice choice;
    bool packs_head;             /* bitsandbytes packs the output embeddings too */
    bool padded;                 /* prompts of a batch have several lengths, padded on the left */
    uint32_t batch_size, prompt_tokens, new_tokens;
    enum generate_replay {
        REPLAY_NONE,             /* live blocks alone */
        REPLAY_PLAYED,           /* on the allocator too: what was run */
        REPLAY_ALL               /* each token, under the allocator that is asked for */
    } replay;
    bool expandable_segments;    /* that is asked for */
    uint64_t capacity_bytes;     /* for the allocator, for `fits`; 0: none is asked */
    bool by_owner;               /* what loading makes is told as its module's: for parts of several GPUs */
    bool timed;                  /* with the costs of the prompt and of a token */
    /* at the run, its model and cache, once all tokens are made; NULL: nobody does */
    void (*look)(void *of, const struct run *r, struct model *m, struct generation *g);
    void *looks;
};

enum { GENERATE_LARGEST = 16 };

struct generated {
    uint64_t peak_allocated_bytes;                       /* of the process: loading too, where a quantised model holds more than generating does */
    uint64_t static_bytes;                               /* the model */
    uint64_t resting_bytes;                              /* when the last token has been made and the cache still stands */
    uint64_t loading_bytes, prefill_bytes, decode_bytes; /* peaks of each; decode_bytes: from the first token's choice on */
    uint64_t peak_reserved_bytes, peak_reserved_expandable_bytes;             /* of what was played: 0: not replayed */
    bool fits;                   /* replayed: within the capacity, by release-and-retry where reserved is that */
    uint32_t retries;            /* how often cached segments were given back for it */
    bool replayed_in_full;       /* token by token; false: of a long answer the first and the last, and reserved is at least what is told */
    uint64_t kv_cache_bytes;                                                  /* when the last token has been made */
    uint64_t breakdown_bytes[CATEGORY_COUNT];
    enum phase peak_phase;
    uint64_t parameters;
    uint32_t tensors;
    struct cost prefill, decode; /* of the prompt; of a token in the middle of the answer. Where timed; the arena's */
};

MUST_CHECK enum err_code generate(const struct generate_question *q, struct arena *arena, struct generated *ret, struct err *err);

#endif
