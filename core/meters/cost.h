/*
 * cost.h - the meter of a run's log: what one optimizer step computes, moves, launches and sends.
 *
 * Purpose   cost_read() cuts the log of a step into its micro-steps and its end (clipping, optimizer), and sums it by stage. Where the
 *           micro-steps of an accumulation repeat each other, the log holds the first and the last: the second repeats the last.
 * Units     flops as executed (recomputation counts), bytes between a GPU and its memory; all of one rank.
 * Source    torch/work.h. model_flops: what the literature divides by the peak, see core/train/timing.h.
 * Owner     kernels and messages stay where the log was made.
 */
#ifndef METERS_COST_H
#define METERS_COST_H

#include "torch/run.h"
#include "torch/work.h"

enum cost_stage { COST_BATCH, COST_FORWARD, COST_LOSS, COST_BACKWARD, COST_RECOMPUTE, COST_CLIP, COST_OPTIMIZER, COST_STAGES };

struct cost_sum {
    uint64_t flops, product_flops, bytes; /* product_flops: matrix products and attention */
    uint64_t launches, calls;
};

struct cost {
    const struct kernel *kernels;
    const struct message *messages;
    uint32_t n_kernels, n_messages;
    uint32_t n_micro;               /* micro-steps in the log, 1 or 2 */
    uint32_t micro_begin[2];        /* first kernel of each */
    uint32_t end_begin;             /* first kernel of clipping and optimizer */
    uint32_t micro_message[2], end_message; /* first message of each, and of the end */
    uint32_t accumulation;          /* micro-steps that an optimizer step makes */
    uint32_t micro_batch_size, seq_len_tokens;
    uint32_t data_parallel;         /* ranks with a micro-batch of their own */
    uint32_t ranks_of_model;        /* that one such micro-batch runs on: tensor and pipeline parallel */
    enum flash_kernel flash;        /* whose flash kernels ran */
    bool engine;                    /* DeepSpeed's, whose bookkeeping takes the host longer */
    double model_flops;             /* of one micro-step, over all of them */
    struct cost_sum sum[COST_STAGES]; /* of the whole optimizer step, repeated micro-steps included */
};

enum cost_stage cost_stage_of(const struct kernel *k);
const char *cost_stage_name(enum cost_stage s); /* "recompute" */

/* `accumulation` micro-steps, of which the log holds one or two. The rest of *ret is the caller's to fill. */
void cost_read(const struct work *log, uint32_t accumulation, struct cost *ret);

/*
 * The cost at another micro-batch, from two that were run: sizes of tensors are linear in it, so what a kernel computes and moves is too.
 * False when the two logs are not the same kernels one by one (an operator chose another path), when both have the same micro-batch, or
 * when the arena is full. `accumulation` is that of the result and plays as many micro-steps as the two. Messages follow the same
 * line: those of tensor and pipeline parallelism grow with the batch.
 */
bool cost_at(const struct cost *a, const struct cost *b, uint32_t micro_batch_size, uint32_t accumulation, struct arena *arena, struct cost *ret);

/* How often micro-step `i` of the log is made in a step. */
static inline uint32_t cost_times(const struct cost *c, uint32_t i)
{
    return c->n_micro == 1 ? c->accumulation : i == 0 ? 1 : c->accumulation - 1;
}

#endif
