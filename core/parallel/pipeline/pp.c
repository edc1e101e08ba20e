/*
 * pp.c - torch.distributed.pipelining: each rank holds a stage of the model. The stage is cut before (models/stage.h), the schedule is a loop of its own
 * (train/loop_pipeline.c); here is what wraps it, which is nothing, and which ranks are looked at.
 */
#include "parallel/programs.h"

static void *wrap(struct wrapping *w)
{
    w->place(w);
    wrapping_train_all(w);
    return w->r;
}

/* The first has the embeddings and the most micro-batches in flight, the last the head and the loss; from the second on a stage has receive buffers too,
 * and each has less than the one before. */
static uint32_t ranks(const struct parallel_options *o, const struct tree *tree, uint32_t max, uint32_t *ret)
{
    uint32_t stages = o->at.pipeline_parallel, n = stages < 3 ? stages : 3;

    (void)tree;
    for (uint32_t i = 0; i < n && i < max; i++)
        ret[i] = i + 1 == n ? stages - 1 : i;
    return n < max ? n : max;
}

const struct method_program pp_program = {
    .source = "torch/distributed/pipelining/stage.py PipelineStage",
    .wrap = wrap,
    .ranks = ranks,
};
