/*
 * stage.h - a stage of a pipeline: consecutive decoder layers of a model, with what belongs to the ends.
 *
 * Purpose   stage_cut() takes from a declared tree what other stages hold: embeddings stand on the first, the last norm and the head on the last,
 *           rotary tables on each. A stage shares no storage with another: a tied head is a weight of its own.
 * Layers    as even as they can be, the earlier stages take the remainder.
 * Source    torch.distributed.pipelining cuts nothing by itself: PipelineStage takes a module. These are the stages of PyTorch's own tutorial and of
 *           torchtitan's models: embed, layers, norm, output. Families that have one: `stage` of their classes.
 */
#ifndef MODELS_STAGE_H
#define MODELS_STAGE_H

#include "models/model.h"

/* Layers [*first, *end) of stage `index` of `stages`. */
void stage_layers(uint32_t layers, uint32_t index, uint32_t stages, uint32_t *first, uint32_t *end);

/* ERR_FIELD_CONFLICT where the family or the release has no stage. No more stages than layers: parallel/gap.h. */
MUST_CHECK enum err_code stage_cut(struct model *m, uint32_t index, uint32_t stages, struct err *err);

#endif
