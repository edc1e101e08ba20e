/*
 * trainer.h - a fine-tuning run as transformers.Trainer or a plain loop makes it: load, then steps of batch, forward, backward, clip,
 * optimizer.
 *
 * Purpose   trainer_run() drives the model's program through the interpreter; what it leaves is the run's tape.
 * Source    transformers/trainer.py 4.40 (inner loop) and 5.23 (get_batch_samples, training_step, _clip_grad_norm),
 *           accelerate's autocast wrapper and convert_outputs_to_fp32; what Trainer's own variables keep alive from one step
 *           to the next: the batches, the last loss, the gradient norm.
 * Models    one rank. Two steps: the second has optimizer states. Under DistributedDataParallel three: it makes its buckets anew in the second.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "models/model.h"
#include "parallel/program.h"
#include "torch/optim.h"
#include "train/inventory.h"
#include "train/recipe.h"

struct offloading;

struct trainer {
    struct offloading *offload; /* of activations; NULL: they stay */
    struct run run;
    struct model model;
    const struct step *step;
    struct optim optim;
    struct scaler scaler;
    uint32_t n_trainable;
    val *trainable;
    bool as_saved; /* declare the class that the config names, not the causal model: inventories */
    bool plain;    /* a loop over torch alone */
    bool autocast;
    enum dtype autocast_dtype;
    uint32_t adapted_modules;
    const struct method_program *method; /* NULL: the model is not wrapped */
    void *wrapped;                       /* its state */
    void *referred;                      /* its state around a model beside the policy; NULL: it has none */
    struct parallel_options parallel, beside;
    uint32_t steps_begin;  /* events before it are loading */
    bool live_blocks_only; /* set before trainer_run(): nobody replays the run on an allocator, whose blocks have a history */
    uint8_t wider;    /* set before trainer_run(): a power of two that its run's limits are multiplied by */
    enum model_memory memory; /* set before trainer_run(): of its model (models/model.h) */
    bool foretells;   /* set before trainer_run(): one step, with optimizer states that stand already, for a figure that is near enough */
    bool alike;       /* live blocks alone are those of a step after one that was not run: what it leaves stands already */
    struct work *log; /* set before trainer_run(): what the last step gives the GPU to do; NULL: nobody asks */
    bool costs_alone; /* set before trainer_run(): nobody asks for memory, beside the log */
    struct work *costs; /* set before trainer_run(): the log that one of costs alone would have, of the step before the last; NULL: nobody asks */
    const struct around_question *around; /* set before trainer_run(): what follows the steps, around.h; NULL: nothing */
    uint32_t around_marks[2];             /* events before evaluation; before saving */
    struct parameter_count whole; /* of the model, whatever a rank has of it; where costs alone are asked, or its tree has passed */
    uint32_t last_begins;         /* first event of the last step */
};

/* Declares the model for this step, adapters included; no run is needed for an inventory. */
MUST_CHECK enum err_code trainer_declare(struct trainer *t, const struct arch *arch, const struct step *step, struct arena *arena,
                                         struct err *err);

/* The first event of the steps whose peaks are told: under a method that settles only in later steps, of the last. */
static inline uint32_t trainer_peaks_begin(const struct trainer *t)
{
    return t->method ? t->last_begins : t->steps_begin;
}

/* Optimizer states of one rank in managed memory. */
uint64_t trainer_paged_bytes(const struct trainer *t);

/* What the method's program is told of a resolved step. */
void parallel_options_of(const struct step *s, struct parallel_options *ret);

uint32_t train_turns(const struct arch *a, const struct step *s); /* nodes of the graph that loops over a sequence make, of a layer */
MUST_CHECK enum err_code trainer_run(struct trainer *t, const struct arch *arch, const struct step *step, const struct device *device,
                                     struct arena *arena, struct err *err);

/* Its method's first step is like no other (parallel/program.h). */
bool trainer_learns_order(const struct step *s);

/* Whether live blocks of the last step are those of one that begins with all that the step before it leaves: that is less than it did, and known. */
bool trainer_skips_first(const struct arch *arch, const struct step *step);

/* The same model without a run: whoever calls has its tape from elsewhere. */
MUST_CHECK enum err_code trainer_stand_in(struct trainer *t, const struct arch *arch, const struct step *step, struct arena *arena,
                                          struct err *err);

#endif
