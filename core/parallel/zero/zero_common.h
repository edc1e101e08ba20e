/*
 * zero_common.h - what DeepSpeed's engine does alike in all ZeRO stages: scaling the loss, looking for overflows, norms, clipping.
 *
 * Purpose   tensors of one element and the temporaries of whole gradients, in DeepSpeed's order, so that a step's small blocks are where they are.
 *           engine.backward() is zero_backward(): the loss divided and scaled, the graph, the stage's epilogue.
 * Source    deepspeed 0.14.2 and 0.19.8: runtime/engine.py (backward, _scale_loss_by_gas), runtime/fp16/loss_scaler.py, runtime/utils.py
 *           (has_inf_or_nan, is_invalid_grad_norm, combine_grad_norm_groups, mask_nan_or_inf_with_val_inplace), runtime/zero/stage_1_and_2.py
 *           (has_overflow, get_grad_norm_direct, scaled_global_norm, unscale_and_clip_grads); births and deaths compared with traces of both.
 * Results   owned by the caller.
 * Not modelled: an overflow: the steps are those that update.
 */
#ifndef PARALLEL_ZERO_ZERO_COMMON_H
#define PARALLEL_ZERO_ZERO_COMMON_H

#include "parallel/program.h"
#include "torch/work.h"

enum { ZERO_GROUPS = 2 }; /* of the optimizer */

struct zero_engine {
    struct run *r;
    const struct parallel_options *o;
    val losses;      /* engine.losses: the mean of the micro-steps so far, until 0.14 */
    val global_norm; /* optimizer._global_grad_norm */
    val last_norm;   /* engine._global_grad_norm until the step ends */
};

/* What a stage does inside: NULL, nothing. */
struct zero_stage {
    void (*prologue)(void *of); /* optimizer.backward() until 0.14: between engine.losses and the scaled loss */
    void (*epilogue)(void *of); /* engine.allreduce_gradients() */
    void *of;
    bool unscaled; /* the optimizer of the stage scales no loss: of 0.19 */
};

/* The whole model on the device in half: w->place(), then module.half() as the release casts. */
void zero_place(struct wrapping *w);

void zero_backward(struct zero_engine *e, val loss, const struct zero_stage *s);
void zero_step_ends(struct zero_engine *e); /* engine._take_model_step: the last norm goes, losses = None */

val zero_scalar(struct run *r, enum op op, enum dtype dtype);
val zero_flat(struct run *r, enum op op, enum dtype dtype, uint64_t elems);

/* Whether gradients are looked through for overflows. */
bool zero_checks_overflow(const struct zero_engine *e);
val zero_has_inf_or_nan(struct run *r, val x);                         /* _has_inf_or_nan(x): one scalar */
void zero_check_overflow(struct run *r, uint32_t n, const val *grads); /* has_overflow(): all of a rank's, then over the ranks */
void zero_share_overflow(struct run *r);                               /* the same where the rank knows already: offload */

val zero_norm(struct run *r, val gradient);                             /* x.double().norm(2) */
val zero_norm_of(struct run *r, uint32_t n, const val *grads);          /* get_grad_norm_direct(): of one group */
val zero_combine_norms(struct run *r, uint32_t n, const val *norms);    /* of all groups; one for each */
void zero_check_norm(struct run *r, val norm);                          /* is_invalid_grad_norm(norm) */
void zero_take_norm(struct zero_engine *e);                             /* _global_grad_norm = norm / loss_scale */
void zero_unscale(const struct zero_engine *e, val norm, val gradient); /* unscale_and_clip_grads() */

/* ---- tensors of one element and what becomes of them */
static inline void zero_die(struct run *r, int n, const val *all)
{
    for (int i = 0; i < n; i++)
        value_unref(r, all[i]);
}
#define DIE(r, ...) zero_die(r, (int)(sizeof((val[]){__VA_ARGS__}) / sizeof(val)), (const val[]){__VA_ARGS__})

/* A scalar made of another, which dies. */
static inline val zero_next(struct run *r, enum op op, enum dtype dtype, val old)
{
    val v = zero_scalar(r, op, dtype);

    value_unref(r, old);
    return v;
}

/* A kernel over all of `v`, so many bytes an element. */
static inline void zero_moved(struct run *r, enum op op, val v, unsigned bytes_each)
{
    work_add(r, op, 0, (uint64_t)numel(r, v) * bytes_each, 1);
}

val zero_is_finite(struct run *r, val x); /* torch.isfinite(x) */

/* The engine steps what it was given over the fp32 weights of a group: its own Adam in the place of torch's, bitsandbytes' as they are. */
struct optim zero_optim(const struct parallel_options *o);
/* One group's step. What all groups' states look up stands once, with the first. */
void zero_optim_step(struct run *r, struct optim *of_group, struct optim *first);
void zero_optim_prepare(struct run *r, struct optim *of_group, struct optim *first); /* the same of states made before a step */

#endif
