/*
 * defaults.h - what a stack does when nobody asks: the defaults that moved between releases.
 *
 * Purpose   stack_defaults_of() runs once per request; train/resolve.c reads d.reentrant, never a version number.
 * Source    a row of defaults.c each, with the file it was read in.
 */
#ifndef STACK_DEFAULTS_H
#define STACK_DEFAULTS_H

#include "stack/stack.h"

#include <stdbool.h>

struct stack_defaults {
    bool fused_adamw;      /* the Trainer's optimizer is adamw_torch_fused */
    bool reentrant;        /* gradient_checkpointing_enable() checkpoints with use_reentrant=True */
    bool cache_off;        /* the Trainer sets config.use_cache to False */
    bool loads_as_saved;   /* from_pretrained keeps the checkpoint's dtype; else fp32 */
    bool adapters_in_fp32; /* get_peft_model casts half adapters to fp32 */
    bool dtype_argument;   /* from_pretrained() is told the dtype as `dtype`, before as `torch_dtype` */
    bool fsdp_upcasts;     /* accelerate makes what FSDP trains fp32 where mixed precision is on */
    bool ignores_sync;     /* the Trainer's own no_sync() does not ask sync_each_batch */
    bool fsdp2_units;      /* accelerate gives embedding and tail units of their own under fully_shard */
    bool launches_fsdp2;   /* accelerate launch knows fully_shard */
    bool launches_mesh;    /* and parallelism_config: hybrid shards, degrees */
    bool trains_tp;        /* the Trainer runs a model that from_pretrained() has cut in shards */
    bool trains_tp_fsdp2;  /* and hands over to fully_shard what is cut */
    bool tp_by_config;     /* from_pretrained() is told the degree by a DistributedConfig, before by tp_size */
    bool trainer_fsdp2;    /* TrainingArguments' fsdp means fully_shard where fsdp_config does not say */
    bool muon;             /* torch has torch.optim.Muon */
    bool dtensor_products; /* how DTensor lays the factors of a product out is known */
    bool own_adamw;        /* transformers has an AdamW of its own, which the Trainer takes as adamw_hf */
    bool has_flash_3;      /* a class with flash attention takes flash_attention_3 too */
};

struct stack_defaults stack_defaults_of(const struct stack *s);

/* The attention kernels a model class can run with. */
enum { CLASS_EAGER = 1, CLASS_SDPA = 2, CLASS_FLASH_2 = 4, CLASS_SDPA_IF_ASKED = 8, CLASS_FLEX = 16 };

/* 0: that release has no such class. Types that have no row in models.def: everything. */
unsigned stack_class_attention(const char *model_type, const struct stack *s);

/* The classes beside the causal one, which AutoModelForSequenceClassification and AutoModelForTokenClassification find. Of types that have no row: all. */
enum { CLASS_SEQUENCES = 32, CLASS_TOKENS = 64 };
unsigned stack_class_heads(const char *model_type, const struct stack *s);
release stack_head_first(const char *model_type, unsigned head); /* the first transformers with the class; UINT32_MAX: none that was read */

bool stack_type_is_known(const char *model_type); /* transformers has a causal class of this type */
release stack_class_first(const char *model_type); /* the first transformers with the class; 0: older than what was read */

/* PACKAGE_BIT of each package whose compiled kernels the code of a model type takes where it is installed: causal_conv1d, mamba_ssm, fla. NULL: none. */
unsigned stack_kernels(const char *model_type);

#endif
