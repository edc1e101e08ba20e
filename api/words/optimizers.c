/* The optimizers of HF's `optim`: OptimizerNames of transformers training_args.py, 4.40.0 and 5.23.0. */
#include "api/words/words.h"

#include "plan/plan.h"

/* Known, accepted, not modelled yet. */
#define LATER(name, says)                 \
    {                                     \
        name, WORD_UNMODELLED, NULL, says \
    }
#define LATER_TOO(name, also, says)       \
    {                                     \
        name, WORD_UNMODELLED, also, says \
    }

const struct word optimizer_words[] = {
    {"adamw_torch", OPTIMIZER_ADAMW_TORCH, "adamw", "torch.optim.AdamW: two states a parameter, updated a list of tensors at a time."},
    {"adamw_torch_fused", OPTIMIZER_ADAMW_TORCH_FUSED, "fused_adamw", "torch.optim.AdamW(fused=True): the same states, no temporaries."},
    {"sgd", OPTIMIZER_SGD, NULL, "torch.optim.SGD as the Trainer makes it: no momentum, no state."},
    LATER("adamw_hf", "transformers' own AdamW of 4.x: two states, a loop over parameters."),
    LATER("adamw_torch_xla", "AdamW for TPUs."),
    LATER("adamw_torch_npu_fused", "AdamW for NPUs."),
    LATER("adamw_apex_fused", "NVIDIA Apex's fused AdamW."),
    LATER("adamw_anyprecision", "torchdistx AdamW with states of a chosen dtype."),
    LATER("adamw_torch_4bit", "torchao AdamW with 4-bit states."),
    LATER("adamw_torch_8bit", "torchao AdamW with 8-bit states."),
    {"adafactor", OPTIMIZER_ADAFACTOR, NULL, "transformers' Adafactor as the Trainer makes it: a row and a column of second moments a matrix."},
    LATER("ademamix", "bitsandbytes AdEMAMix: three states."),
    LATER("ademamix_8bit", "AdEMAMix with 8-bit states."),
    LATER("adagrad", "torch.optim.Adagrad: one state."),
    {"adamw_bnb_8bit", OPTIMIZER_BNB_ADAMW_8BIT, "adamw_8bit", "bitsandbytes AdamW with 8-bit states in blocks of 256."},
    {"lion_32bit", OPTIMIZER_BNB_LION_32BIT, "lion", "bitsandbytes Lion: one state in fp32."},
    {"lion_8bit", OPTIMIZER_BNB_LION_8BIT, NULL, "Lion with an 8-bit state."},
    {"paged_adamw_32bit", OPTIMIZER_BNB_ADAMW_32BIT_PAGED, "paged_adamw", "AdamW with states in unified memory."},
    {"paged_adamw_8bit", OPTIMIZER_BNB_ADAMW_8BIT_PAGED, NULL, "8-bit AdamW with states in unified memory."},
    LATER_TOO("paged_ademamix_32bit", "paged_ademamix", "AdEMAMix with states in unified memory."),
    LATER("paged_ademamix_8bit", "8-bit AdEMAMix with states in unified memory."),
    {"paged_lion_32bit", OPTIMIZER_BNB_LION_32BIT_PAGED, "paged_lion", "Lion with its state in unified memory."},
    {"paged_lion_8bit", OPTIMIZER_BNB_LION_8BIT_PAGED, NULL, "8-bit Lion with its state in unified memory."},
    LATER("rmsprop", "torch.optim.RMSprop: one state."),
    LATER("rmsprop_bnb", "bitsandbytes RMSprop."),
    LATER("rmsprop_bnb_8bit", "bitsandbytes RMSprop with an 8-bit state."),
    LATER("rmsprop_bnb_32bit", "bitsandbytes RMSprop with a 32-bit state."),
    LATER("galore_adamw", "AdamW on gradients projected to a low rank."),
    LATER("galore_adamw_8bit", "The same with 8-bit states."),
    LATER("galore_adafactor", "Adafactor on gradients projected to a low rank."),
    LATER("galore_adamw_layerwise", "GaLore AdamW, a parameter at a time in backward."),
    LATER("galore_adamw_8bit_layerwise", "The same with 8-bit states."),
    LATER("galore_adafactor_layerwise", "GaLore Adafactor, a parameter at a time in backward."),
    LATER("lomo", "LOMO: a parameter is updated when its gradient is known; no state."),
    LATER("adalomo", "LOMO with factored second moments."),
    LATER("grokadamw", "GrokAdamW."),
    LATER("schedule_free_radam", "RAdam without a schedule."),
    LATER("schedule_free_adamw", "AdamW without a schedule: one more copy of the weights' average."),
    LATER("schedule_free_sgd", "SGD without a schedule."),
    LATER("apollo_adamw", "AdamW scaled by a low-rank auxiliary state."),
    LATER("apollo_adamw_layerwise", "APOLLO, a parameter at a time in backward."),
    LATER("stable_adamw", "AdamW with update clipping."),
    {0},
};
