/* The optimizers of HF's `optim`: OptimizerNames of transformers training_args.py, 4.40.0 and 5.23.0. */
#include "api/words/words.h"

#include "plan/plan.h"

/* Known, accepted, not modelled yet. */
#define LATER(name, says)                 \
    {                                     \
        name, WORD_UNMODELLED, NULL, says \
    }

const struct word optimizer_words[] = {
    {"adamw_torch", OPTIMIZER_ADAMW_TORCH, "adamw", "torch.optim.AdamW: two states a parameter, updated a list of tensors at a time."},
    {"adamw_torch_fused", OPTIMIZER_ADAMW_TORCH_FUSED, "fused_adamw", "torch.optim.AdamW(fused=True): the same states, no temporaries."},
    {"sgd", OPTIMIZER_SGD, NULL, "torch.optim.SGD as the Trainer makes it: no momentum, no state."},
    {"adamw_hf", OPTIMIZER_ADAMW_HF, NULL, "transformers' own AdamW of 4.x: two states, a loop over parameters."},
    LATER("adamw_torch_xla", "AdamW for TPUs."),
    LATER("adamw_torch_npu_fused", "AdamW for NPUs."),
    LATER("adamw_apex_fused", "NVIDIA Apex's fused AdamW."),
    LATER("adamw_anyprecision", "torchdistx AdamW with states of a chosen dtype."),
    {"adamw_torch_4bit", OPTIMIZER_AO_ADAMW_4BIT, NULL, "torchao AdamW with 4-bit states."},
    {"adamw_torch_8bit", OPTIMIZER_AO_ADAMW_8BIT, NULL, "torchao AdamW with 8-bit states."},
    {"adafactor", OPTIMIZER_ADAFACTOR, NULL, "transformers' Adafactor as the Trainer makes it: a row and a column of second moments a matrix."},
    {"ademamix", OPTIMIZER_BNB_ADEMAMIX_32BIT, NULL, "bitsandbytes AdEMAMix: three states."},
    {"ademamix_8bit", OPTIMIZER_BNB_ADEMAMIX_8BIT, NULL, "AdEMAMix with 8-bit states."},
    {"adagrad", OPTIMIZER_ADAGRAD, NULL, "torch.optim.Adagrad: one state, which stands before the first step."},
    {"adamw_bnb_8bit", OPTIMIZER_BNB_ADAMW_8BIT, "adamw_8bit", "bitsandbytes AdamW with 8-bit states in blocks of 256."},
    {"lion_32bit", OPTIMIZER_BNB_LION_32BIT, "lion", "bitsandbytes Lion: one state in fp32."},
    {"lion_8bit", OPTIMIZER_BNB_LION_8BIT, NULL, "Lion with an 8-bit state."},
    {"paged_adamw_32bit", OPTIMIZER_BNB_ADAMW_32BIT_PAGED, "paged_adamw", "AdamW with states in unified memory."},
    {"paged_adamw_8bit", OPTIMIZER_BNB_ADAMW_8BIT_PAGED, NULL, "8-bit AdamW with states in unified memory."},
    {"paged_ademamix_32bit", OPTIMIZER_BNB_ADEMAMIX_32BIT_PAGED, "paged_ademamix", "AdEMAMix with states in unified memory."},
    {"paged_ademamix_8bit", OPTIMIZER_BNB_ADEMAMIX_8BIT_PAGED, NULL, "8-bit AdEMAMix with states in unified memory."},
    {"paged_lion_32bit", OPTIMIZER_BNB_LION_32BIT_PAGED, "paged_lion", "Lion with its state in unified memory."},
    {"paged_lion_8bit", OPTIMIZER_BNB_LION_8BIT_PAGED, NULL, "8-bit Lion with its state in unified memory."},
    {"rmsprop", OPTIMIZER_RMSPROP, NULL, "torch.optim.RMSprop: one state."},
    {"rmsprop_bnb", OPTIMIZER_BNB_RMSPROP_32BIT, "rmsprop_bnb_32bit", "bitsandbytes RMSprop: one state in fp32."},
    {"rmsprop_bnb_8bit", OPTIMIZER_BNB_RMSPROP_8BIT, NULL, "bitsandbytes RMSprop with an 8-bit state."},
    LATER("galore_adamw", "AdamW on gradients projected to a low rank."),
    LATER("galore_adamw_8bit", "The same with 8-bit states."),
    LATER("galore_adafactor", "Adafactor on gradients projected to a low rank."),
    LATER("galore_adamw_layerwise", "GaLore AdamW, a parameter at a time in backward."),
    LATER("galore_adamw_8bit_layerwise", "The same with 8-bit states."),
    LATER("galore_adafactor_layerwise", "GaLore Adafactor, a parameter at a time in backward."),
    LATER("lomo", "LOMO: a parameter is updated when its gradient is known; no state."),
    LATER("adalomo", "LOMO with factored second moments."),
    LATER("grokadamw", "GrokAdamW."),
    {"schedule_free_radam", OPTIMIZER_FREE_RADAM, NULL, "RAdam without a schedule: a copy of the weights and a second moment."},
    {"schedule_free_adamw", OPTIMIZER_FREE_ADAMW, NULL, "AdamW without a schedule: a copy of the weights and a second moment."},
    {"schedule_free_sgd", OPTIMIZER_FREE_SGD, NULL, "SGD without a schedule: a copy of the weights."},
    {"muon", OPTIMIZER_MUON, NULL, "torch.optim.Muon over the matrices of the layers, AdamW over the rest."},
    LATER("apollo_adamw", "AdamW scaled by a low-rank auxiliary state."),
    LATER("apollo_adamw_layerwise", "APOLLO, a parameter at a time in backward."),
    LATER("stable_adamw", "AdamW with update clipping."),
    {0},
};
