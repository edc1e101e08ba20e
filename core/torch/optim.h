/*
 * optim.h - torch.optim as the Trainer uses it, gradient clipping and the gradient scaler.
 *
 * Models    one row a kind (optim.c): AdamW (foreach, fused, one by one, transformers' own), SGD without momentum, Adagrad, RMSprop, Muon; schedulefree's;
 *           bitsandbytes' AdamW, AdEMAMix, Lion and RMSprop; torchao's AdamW of few bits; transformers' Adafactor. Two parameter groups. States are born at
 *           the first step, Adagrad's before. Paged states are in no figure of the allocator: optim_paged_bytes().
 * Source    torch/optim/adam.py, adamw.py, sgd.py, adagrad.py, rmsprop.py, _muon.py, optimizer.py; torch/nn/utils/clip_grad.py; torch/amp/grad_scaler.py;
 *           bitsandbytes 0.50.2 optim/optimizer.py, ademamix.py; schedulefree 1.4.1; torchao 0.18.0 optim/adam.py; transformers 4.40.0 optimization.py.
 * Not modelled: what Inductor's kernels of torchao's update keep while they run.
 */
#ifndef TORCH_OPTIM_H
#define TORCH_OPTIM_H

#include "torch/optim_kind.h"
#include "torch/run.h"
#include "torch/work.h"

struct optim_state {
    val exp_avg, exp_avg_sq, step; /* of one state exp_avg_sq; Adafactor: a row's and a column's, or a vector's own; RMS */
    val absmax[2];                 /* of states of few bits, a number a block */
    val qmap[2];                   /* torchao: each has its own */
    bool stands;                   /* states may lie in pages alone */
    bool wide;     /* 32 bits whatever the optimizer has: GlobalOptimManager */
};

/* Trainable leaves: with weight decay, without; tensor parallelism parts each in DTensors and plain tensors. */
enum { OPTIM_GROUPS = 4 };

struct optim {
    enum optim_kind kind;
    uint32_t n_group[OPTIM_GROUPS];
    val *group[OPTIM_GROUPS];
    struct optim_state *state[OPTIM_GROUPS];
    bool paged;          /* large states in managed memory */
    uint64_t page_bytes; /* of those that were made */
    val qmap[2];
    struct optim_mesh {
        struct work_group group;
        bool hosts; /* it reaches beyond one */
    } mesh; /* Muon's leaves are DTensors, whose rows this group shares; of no ranks: plain tensors */
};

void optim_step(struct run *r, struct optim *o);

/* The states as the first step would make them, before it: for one step that stands for a later one. */
void optim_prepare(struct run *r, struct optim *o);

/* What its __init__ makes: before the first step. */
void optim_start(struct run *r, struct optim *o);

/* One parameter's own optimizer steps, as a hook of its gradient does: torchtune 0.6.1 training/memory.py register_optim_in_bwd_hooks. */
void optim_step_one(struct run *r, struct optim *o, int g, uint32_t i);

bool optim_is_bnb(enum optim_kind kind);
bool optim_takes_scaler(enum optim_kind kind); /* fused kernels: they unscale by themselves */
uint64_t optim_paged_bytes(const struct optim *o, int64_t elems, bool wide); /* of one parameter's states */

/* clip_grad_norm_ over all leaves that have a gradient; returns the norm, which the caller keeps (owned, not floating). */
val clip_grad_norm(struct run *r, uint32_t n, const val *leaves);

/* GradScaler: scale and growth tracker are born with the first scaled loss. */
struct scaler {
    val scale, growth_tracker, found_inf;
};
val scaler_scale(struct run *r, struct scaler *s, val loss);
void scaler_unscale(struct run *r, struct scaler *s);
val scaler_before_step(struct run *r, struct scaler *s, const struct optim *o); /* what dies with the optimizer's step; 0: nothing */
void scaler_update(struct run *r, struct scaler *s);

#endif
