/* regions.h - checkpointed regions and the switches of a run. Included by core/natives only. */
#ifndef NATIVES_REGIONS_H
#define NATIVES_REGIONS_H

#include "natives/tensor.h"

enum { SCRIPT_KEYWORDS = 16 }; /* of a checkpointed call */

script_fn regions_checkpoint;

extern const struct script_module checkpoint_module, switches_module;

#endif
