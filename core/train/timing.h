/*
 * timing.h - what one optimizer step of a resolved step costs one rank.
 *
 * Purpose   train_cost() drives the same run that memory is measured on, with the log of work.h on in its last step; perf_step_time() makes
 *           seconds of it. Cheaper than a walk: what a step does is the same before and after optimizer states stand, so one step is played
 *           (two under DDP, whose buckets are made anew after the first). Of an accumulation two micro-steps are played: the first, which
 *           finds no gradients, and the last; those between repeat the last.
 * Flops     model_flops = (6 N + 12 L h s) a token with N trained parameters, 4 N for frozen ones (no gradient of the weight): the count
 *           that published MFU use, attention in full and no recomputation. It serves MFU alone; times come from the log.
 *           Source: PaLM (arXiv 2204.02311) appendix B; llm-foundry's benchmark tables count alike.
 * Errors    as train_walk().
 * Owner     kernels and messages of *ret live in `arena`; what the run took besides is given back.
 */
#ifndef TRAIN_TIMING_H
#define TRAIN_TIMING_H

#include "meters/cost.h"
#include "stack/device.h"
#include "train/recipe.h"

struct arch;
struct trainer;

/* Room for the log of a step. `costs_alone`: of train_cost(), without what streams wait for; else of as many micro-steps as memory is played for. */
MUST_CHECK enum err_code timing_log(const struct arch *arch, const struct step *step, bool costs_alone, unsigned wider, struct arena *arena, struct work **ret,
                                    struct err *err);

/* Whether a run for memory plays what train_cost() would, so that its log tells both: an accumulation has other micro-steps, DistributedDataParallel's buckets
 * are not those of the first step, a pipeline's time is that of all stages. */
bool timing_is_foretold(const struct step *step);

/* What is told of a run whose log holds its only step. */
void timing_read(const struct trainer *t, const struct arch *arch, const struct step *step, struct cost *ret);

MUST_CHECK enum err_code train_cost(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                                    struct cost *ret, struct err *err);

#endif
