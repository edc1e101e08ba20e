/*
 * fold.h - the walk of a deep model from walks of shallow ones.
 *
 * Purpose   layers repeat each other: what a step needs grows by the same bytes with every further period of the layer pattern. train_fold() walks
 *           two depths, one period apart; what the deeper one has more is repeated as often as the depth asks, and summed (train_play_two()). Where that
 *           is refused, under DistributedDataParallel and with activations on the host it walks a third: where each figure lies on a straight line it
 *           carries the line on to the whole depth; where one does not, or the model is not deep, it walks the whole model.
 * Exact     two depths to the byte but for scratch of lists over all layers, which grows in steps (clip, some KiB); lines to the rounding of a block, as
 *           long as no moment that is lower at those depths rises faster. tests/laws holds both against train_walk() over families and methods. For
 *           candidates that are bounded, never for a replay.
 * Units     bytes.
 * Errors    as train_walk().
 */
#ifndef TRAIN_FOLD_H
#define TRAIN_FOLD_H

#include "train/measure.h"

/* walk_peak_bytes, phase peaks, static and resting bytes, peak_phase; births and parameters are those of the whole model only where all of it was walked. */
/* `cost`: as train_foretell() tells it, of the whole depth. */
/* `one_step`: of the first step alone, whose optimizer states stand already: half the price, and within what the steps keep of one another (batches,
 * the loss, a workspace) the same; never more. Two are walked under ZeRO-3 and in a pipeline, whose first is unlike. */
MUST_CHECK enum err_code train_fold(const struct arch *arch, const struct step *step, const struct device *device, bool one_step,
                                    struct rank_peaks *peaks, struct cost *cost, struct arena *arena, struct measured *ret, struct err *err);

/* How layers repeat: `prefix` of them stand before (dense ones before mixtures of experts), then kinds come again after `period`. 0 and 1: all are alike;
 * 0 and as many as there are: nothing repeats. Of the whole model, also where fewer of its layers are played. */
struct fold {
    uint32_t prefix, period;
};
struct fold fold_of(const struct arch *arch);

/* Of a model with so many periods, and what is left of one at its end. */
uint32_t fold_depth(const struct arch *arch, uint32_t periods);

#endif
