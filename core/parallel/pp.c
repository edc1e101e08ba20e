/*
 * pp.c - torch.distributed.pipelining: each rank holds a stage of the model. The stage is cut before (models/stage.h), the schedule is a loop of its own
 * (train/loop_pipeline.c); here is what wraps it, which is nothing, and which ranks differ: all.
 */
#include "parallel/programs.h"

static void *wrap(struct wrapping *w)
{
    w->place(w);
    wrapping_train_all(w);
    return w->r;
}

static uint32_t ranks(const struct parallel_options *o, const struct tree *tree, uint32_t max, uint32_t *ret)
{
    uint32_t n = o->at.pipeline_parallel < max ? o->at.pipeline_parallel : max;

    (void)tree;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = i;
    return n;
}

const struct method_program pp_program = {
    .source = "torch/distributed/pipelining/stage.py PipelineStage",
    .wrap = wrap,
    .ranks = ranks,
};
