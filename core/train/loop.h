/*
 * loop.h - what the loops of core/train share: batches, the model's call, backward, clipping, the end of a step. Included by core/train only.
 */
#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H

#include "train/trainer.h"

/* What the loop's own variables hold; all owned. */
struct held {
    struct batch *batches, inputs;
    uint32_t n_batches;
    val items, loss_step, grad_norm, total;
    val *outputs; /* of a pipeline's last stage, by micro-batch, where they are kept */
};

void trainer_load(struct trainer *t);                  /* load.c */
void trainer_step(struct trainer *t, struct held *h);  /* loop_trainer.c */
void trainer_left(struct trainer *t, struct held *h);  /* what its names hold after a step that nobody ran */
void plain_step(struct trainer *t, struct held *h);    /* loop_plain.c; its names go with a step */
void pipeline_step(struct trainer *t, struct held *h); /* loop_pipeline.c */
uint32_t pipeline_plays(const struct trainer *t,
                        const struct recipe *q); /* micro-batches of a step that are played; the others repeat them */

struct batch make_batch(struct trainer *t);
void batch_ref(struct run *r, const struct batch *b);
void batch_unref(struct run *r, const struct batch *b);
void bind_inputs(struct trainer *t, struct held *h, struct batch next); /* inputs = next: the last ones die when these stand */

/* The third micro-step finds what the second left, and so on to the last: those between would repeat each other birth by birth. */
enum { MICRO_STEPS = 4 };
static inline bool repeats(uint32_t micro_step, uint32_t n)
{
    return micro_step + 1 >= MICRO_STEPS && micro_step + 1 < n;
}

/* Whether gradients are reduced after this micro-step; the others stand under no_sync(). */
void sync_gradients(struct trainer *t, uint32_t micro_step);
void end_micro_step(struct trainer *t, uint32_t micro_step); /* an engine's step(), which at the last one ends the step */
struct outputs call_model(struct trainer *t, const struct batch *b);
val task_loss(struct trainer *t, const struct batch *b); /* a temporary */
void drop_outputs(struct trainer *t, struct outputs *o);
void backward_of(struct trainer *t, val loss); /* loss.backward(), through the scaler or the engine where there is one */
bool trainer_clips(const struct trainer *t); /* with a norm that the loop keeps: an engine has its own */
void trainer_clip(struct trainer *t, struct held *h);
void end_step(struct trainer *t);

enum dtype compute_dtype(enum precision p); /* trainer.c: what products are made in */

#endif
