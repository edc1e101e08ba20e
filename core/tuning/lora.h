/*
 * lora.h - peft's LoRA: rewrites target modules of a declared tree into adapted ones.
 *
 * Purpose   lora_apply() freezes the base, finds the targets by name suffix or by a regular expression, hangs lora_dropout, lora_A and lora_B beside the
 *           base layer and gives their births to the run. The family's pointers stay valid: the node itself is rewritten.
 * Source    peft tuners/lora/layer.py Linear (0.10.0, 0.21.2), tuners/tuners_utils.py check_target_module_exists.
 * Work      what it takes to find the targets is counted in the budget of the tree's arena.
 * Errors    ERR_FIELD_VALUE at /training/lora/target_modules when no module of the model has such a name.
 */
#ifndef TUNING_LORA_H
#define TUNING_LORA_H

#include "torch/module.h"
#include "tuning/narrow.h"
#include "tuning/pattern.h"

#include <stdbool.h>
#include <stdint.h>

struct expert_names;
struct quirks;

/* Names that peft takes for tensors of the experts, in a release of it and of transformers; NULL: none. */
const struct expert_names *lora_experts(const struct quirks *q, const char *model_type);

struct lora_options {
    const struct quirks *q;
    const struct lora_narrow *narrow; /* NULL: nothing does */
    uint32_t rank;
    double dropout;
    enum dtype dtype; /* of the adapters */
    bool dora;        /* use_dora: a magnitude beside A and B */
    bool steps_modules; /* a method counts the modules that run (DeepSpeed's stage 3): nn.Identity in the place of a dropout of 0 is one of them */
    enum lora_bias bias;
    bool all_linear;  /* every linear but the output embeddings */
    uint32_t n_targets;
    const char *const *targets;
    const struct pattern *pattern; /* instead of a list; NULL: none */
    const struct expert_names *experts; /* targets.h; NULL: every name means modules */
    const char *saved;             /* children of the model, with blanks between, that are trained in full and that "all-linear" leaves out; NULL: none */
    uint32_t n_saved;              /* modules_to_save: ends of names of modules that are copied and trained in full, and that are not adapted */
    const char *const *saved_names;
    uint32_t n_parameters;         /* target_parameters: ends of names of tensors */
    const char *const *parameters;
    const char *tensors_gap;       /* why adapters of tensors do not go with this method; NULL: they do */
    double alpha;
    bool spares_mamba;             /* lora_spares() */
    bool on_host;                  /* adapters are made before the model stands on the device, and go there with it */
};

/* Whether a list, or a pattern, means a module of this name. */
bool lora_means(const struct lora_options *o, const char *path, struct pattern_effort *effort);

/* tuners_utils.py _check_lora_target_modules_mamba: peft raises for out_proj and conv1d of these types. */
bool lora_spares(const char *model_type, const struct quirks *q);

/* Whether a module's name stands for a tensor of the experts or the router. */
bool lora_names_expert(const struct lora_options *o, const char *leaf);

MUST_CHECK enum err_code lora_count(const struct tree *t, const struct pattern_effort *effort, struct err *err);

/* What target_modules mean in a tree that has no adapters yet. */
struct lora_found {
    uint32_t linears;
    bool embeddings, exhausted;
    bool biases, adapted_biases; /* some module has a bias; some that is adapted */
    bool uneven;       /* of layers that are built alike some are adapted otherwise, or with other ranks */
    char refused[128]; /* a module that peft has no adapter for ("Target module .. is not supported", tuners/lora/model.py); "": none */
};
MUST_CHECK enum err_code lora_find(const struct tree *t, const struct lora_options *o, struct arena *arena, struct lora_found *ret,
                                   struct err *err);

/* utils/other.py _set_trainable, tuners_utils.py inject_adapter: str.endswith() of the name */
bool lora_saves(const struct lora_options *o, const char *path);

/* Declares the adapters. The number of adapted modules in *ret. */
MUST_CHECK enum err_code lora_apply(struct tree *t, const struct lora_options *o, uint32_t *ret, struct err *err);

/* What the plan of tensor parallelism says of a linear, for its base and its adapters: B is cut by columns as its base is, A by rows
 * (tuners/lora/model.py add_lora_tp_hooks_dtensor). Where peft cannot, the error says what it raises. */
MUST_CHECK enum err_code lora_split(struct tree *t, const struct quirks *q, struct err *err);

/* Their births, in peft's order: made in the base's dtype, then cast one after the other. After materialise(). */
void lora_materialise(struct run *r, struct tree *t, const struct lora_options *o);

#endif
