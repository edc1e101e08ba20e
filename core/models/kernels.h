/* kernels.h - what a request calls Liger's kernels; a bit each: 1u << LIGER_ROPE. The text that has them: models/library/liger. */
#ifndef MODELS_KERNELS_H
#define MODELS_KERNELS_H

/* training.lora.kernels, a bit each: models/library/axolotl/kernels.py */
enum lora_kernel { LORA_KERNEL_QKV, LORA_KERNEL_O, LORA_KERNEL_MLP, LORA_KERNEL_COUNT };

/* Whether axolotl finds the code that its kernels of attention take the place of, or raises. */
enum lora_kernels_fit {
    LORA_KERNELS_FIT,
    LORA_KERNELS_CAST, /* finds it; its norms hand out fp32 under autocast, where the kernels raise */
    LORA_KERNELS_UNREAD,
    LORA_KERNELS_RAISE
};
enum lora_kernels_fit lora_kernels_fit(const char *model_type);

enum liger_kernel { LIGER_ROPE, LIGER_RMS_NORM, LIGER_SWIGLU, LIGER_GEGLU, LIGER_LAYER_NORM, LIGER_CROSS_ENTROPY, LIGER_FUSED_LINEAR, LIGER_COUNT };

#endif
