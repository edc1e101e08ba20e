/* optim_kind.h - the names of the optimizers that core/torch plays: a row of optim.c each. */
#ifndef TORCH_OPTIM_KIND_H
#define TORCH_OPTIM_KIND_H

enum optim_kind {
    OPTIM_ADAMW_FOREACH,
    OPTIM_ADAMW_FUSED,
    OPTIM_ADAMW_LOOP,
    OPTIM_ADAMW_HF,
    OPTIM_SGD,
    OPTIM_ADAGRAD,
    OPTIM_RMSPROP,
    OPTIM_FREE_ADAMW,
    OPTIM_FREE_SGD,
    OPTIM_MUON, /* group 0; AdamW in lists has the others */
    OPTIM_BNB_ADAMW_8BIT,
    OPTIM_BNB_ADAMW_32BIT,
    OPTIM_BNB_ADEMAMIX_8BIT,
    OPTIM_BNB_ADEMAMIX_32BIT,
    OPTIM_BNB_LION_8BIT,
    OPTIM_BNB_LION_32BIT,
    OPTIM_BNB_RMSPROP_8BIT,
    OPTIM_BNB_RMSPROP_32BIT,
    OPTIM_AO_ADAMW_8BIT,
    OPTIM_AO_ADAMW_4BIT,
    OPTIM_ADAFACTOR,
    OPTIM_KINDS
};

#endif
