/*
 * optim.h - torch.optim as the Trainer uses it, gradient clipping and the gradient scaler.
 *
 * Models    AdamW (foreach, fused, one by one), SGD without momentum, bitsandbytes' AdamW and Lion, transformers' Adafactor; two parameter groups;
 *           states are born at the first step. Paged states are in no figure of the allocator: optim_paged_bytes().
 * Source    torch/optim/adam.py, adamw.py, sgd.py, optimizer.py; torch/nn/utils/clip_grad.py; torch/amp/grad_scaler.py;
 *           bitsandbytes 0.50.2 optim/optimizer.py.
 */
#ifndef TORCH_OPTIM_H
#define TORCH_OPTIM_H

#include "torch/run.h"

enum optim_kind {
    OPTIM_ADAMW_FOREACH,
    OPTIM_ADAMW_FUSED,
    OPTIM_ADAMW_LOOP,
    OPTIM_SGD,
    OPTIM_BNB_ADAMW_8BIT,
    OPTIM_BNB_ADAMW_32BIT,
    OPTIM_BNB_LION_8BIT,
    OPTIM_BNB_LION_32BIT,
    OPTIM_ADAFACTOR
};

struct optim_state {
    val exp_avg, exp_avg_sq, step; /* Adafactor: a row's and a column's, or a vector's own; RMS */
    val absmax[2]; /* of 8-bit states, a number a block */
    bool stands;   /* bitsandbytes: states may lie in pages alone */
    bool wide;     /* 32 bits whatever the optimizer has: GlobalOptimManager */
};

/* Trainable leaves: with weight decay, without; tensor parallelism parts each in DTensors and plain tensors. */
enum { OPTIM_GROUPS = 4 };

struct optim {
    enum optim_kind kind;
    uint32_t n_group[OPTIM_GROUPS];
    val *group[OPTIM_GROUPS];
    struct optim_state *state[OPTIM_GROUPS];
    bool paged; /* large states in managed memory */
    val qmap[2];
};

void optim_step(struct run *r, struct optim *o);

/* The states as the first step would make them, before it: for one step that stands for a later one. */
void optim_prepare(struct run *r, struct optim *o);

bool optim_is_bnb(enum optim_kind kind);
void optim_bnb_init(struct run *r, struct optim *o, struct optim_state *s, val leaf); /* both used by optim.c */
uint64_t optim_paged_bytes(const struct optim *o, int64_t elems, bool wide);          /* of one parameter's states */
void optim_bnb_step(struct run *r, struct optim *o, int g);
void optim_adafactor_init(struct run *r, struct optim_state *s, val leaf);
void optim_adafactor_step(struct run *r, struct optim *o);

/* clip_grad_norm_ over all leaves that have a gradient; returns the norm, which the caller keeps (owned, not floating). */
val clip_grad_norm(struct run *r, uint32_t n, const val *leaves);

/* GradScaler: scale and growth tracker are born with the first scaled loss. */
struct scaler {
    val scale, growth_tracker, found_inf;
};
val scaler_scale(struct run *r, struct scaler *s, val loss);
void scaler_unscale(struct run *r, struct scaler *s);
void scaler_step(struct run *r, struct scaler *s, struct optim *o); /* optim_step() under the scaler */
void scaler_update(struct run *r, struct scaler *s);

#endif
