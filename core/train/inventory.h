/*
 * inventory.h - every parameter tensor of a model, read from the same declaration that the memory run walks.
 *
 * Purpose   exact counts: names, shapes, ties as model.named_parameters() of transformers gives them (state-dict names of
 *           the CausalLM class), buffers that live on the device, and the trainable elements of a peft LoRA.
 */
#ifndef TRAIN_INVENTORY_H
#define TRAIN_INVENTORY_H

#include "base/arena.h"
#include "base/err.h"
#include "torch/module.h"

#include <stdbool.h>
#include <stdint.h>

struct arch;
struct step;

struct tensor_info {
    const char *name;    /* "model.layers.0.self_attn.q_proj.weight" */
    const char *tied_to; /* NULL: a storage of its own */
    uint32_t ndim;
    uint64_t shape[PARAM_DIMS];
    uint64_t elems;
    bool trainable;
    bool buffer;         /* on the device but not a parameter */
    enum module_kind kind; /* of the module that owns it */
    bool input_embeddings, output_embeddings; /* get_input_embeddings(), get_output_embeddings(): all their tensors */
    const char *dtype;   /* "bf16", "fp32", "fp16", "bool", "int64" */
};

enum { SAVED_TOLD = 64 }; /* names of modules_to_save that are looked for */

struct inventory {
    uint32_t n;                     /* all rows, tied ones and buffers included */
    const struct tensor_info *rows; /* in the model's own order */
    uint32_t tensors;               /* distinct parameter tensors */
    uint64_t parameters, trainable_parameters; /* tied ones once; adapters count in both when step tunes by LoRA */
    uint64_t base_parameters;       /* without adapters */
    uint64_t active_parameters;     /* of these, what one token passes: experts count as far as they are taken */
    uint32_t adapted_modules;
    uint64_t saved_nowhere; /* of modules_to_save, a bit each for the first SAVED_TOLD: no module has such a name */
};

/* Walks the declaration for `step` (tuning, lora, dtype). Memory from `arena`. */
MUST_CHECK enum err_code inventory_of(const struct arch *arch, const struct step *step, struct arena *arena,
                                      struct inventory *ret, struct err *err);

/* Distinct parameter tensors below `root` and their elements: a tied one counts once. */
struct parameter_count {
    uint64_t parameters, trainable;
    uint64_t experts, trained_experts; /* of them, below a module called experts */
    uint32_t tensors;
};

struct parameter_count parameters_of(struct module *root);

/* Of a model `times` periods of layers deeper than b, which is one deeper than a. */
struct parameter_count parameters_along(const struct parameter_count *a, const struct parameter_count *b, uint32_t times);

#endif
