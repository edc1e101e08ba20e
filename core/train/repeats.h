/*
 * repeats.h - whether a model of somebody else's runs its layers alike, so that fewer of them may stand for all.
 *
 * Purpose   files of a request or of an installed release may do in forward whatever they like with a layer's number. Its step is played in full, once
 *           without checkpoints and once with them, and laid out from shallow ones (play.h): where both tapes are the same, event by event, the model's
 *           layers are what its config and its declaration say (arch.may_repeat), and other sizes and methods may be made from few layers too.
 * Not seen  a forward that treats layers otherwise only at other sizes, or only under some method.
 * Owner     `scratch` is as it was.
 */
#ifndef TRAIN_REPEATS_H
#define TRAIN_REPEATS_H

#include "base/arena.h"
#include "train/recipe.h"

struct arch;
struct device;

bool train_repeats(const struct arch *arch, const struct recipe *like, const struct device *device, struct arena *scratch);

#endif
