/* kernels.h - what a request calls Liger's kernels; a bit each: 1u << LIGER_ROPE. The text that has them: models/library/liger. */
#ifndef MODELS_KERNELS_H
#define MODELS_KERNELS_H

enum liger_kernel { LIGER_ROPE, LIGER_RMS_NORM, LIGER_SWIGLU, LIGER_GEGLU, LIGER_LAYER_NORM, LIGER_CROSS_ENTROPY, LIGER_FUSED_LINEAR, LIGER_COUNT };

#endif
