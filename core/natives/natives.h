/*
 * natives.h - what modelling code imports of PyTorch: torch, torch.nn, torch.nn.functional, torch.utils.checkpoint, flash_attn; over core/torch.
 *
 * Purpose   gives the language (core/script) tensors without content: sizes, strides and storages are core/torch's, whose births and deaths
 *           follow the references that the language holds. A module that a class makes becomes a node of a `struct tree` that tuning and
 *           parallel rewrite, and is called as core/torch calls modules.
 * Runs      tensors are of one of two runs: the device's, whose tape is read, and the host's, which only knows shapes (what __init__ makes
 *           before the model is moved, scalars, finfo).
 * Content   a few things that data decides are known from the batch's description (content.h); else the script leaves the language.
 * Owner     one struct natives a script; it lives as long as the script. One thread.
 * Source    torch 2.15 python bindings: torch/_tensor.py, torch/nn/modules, torch/nn/functional.py, torch/utils/checkpoint.py.
 */
#ifndef NATIVES_NATIVES_H
#define NATIVES_NATIVES_H

#include "script/script.h"
#include "torch/module.h"
#include "torch/run.h"

struct again;
struct calls_book;
struct tensor;

struct natives {
    struct script *s;
    struct run *run; /* the device's; NULL while only a tree is declared */
    struct run host;
    unsigned char *host_end; /* of its tables, in its arena */
    struct tree *tree;         /* NULL until the model stands in one */
    struct module *embeddings; /* get_input_embeddings(); NULL: nobody asks */
    bool embeddings_require_grad;
    bool layers_wrapped; /* each layer stands in a module of the method's: the caller says so */
    unsigned capability; /* ten times the device's, where that is known before there is a run; 0: an A100's is told */
    enum dtype
        default_dtype; /* torch.get_default_dtype(): of floats that are made without one; that of the weights while the model is made */
    bool making;    /* __init__ runs */
    bool any_dtype; /* nobody asks what the weights are in: sizes alone */
    struct cls *tensor, *parameter, *buffer;
    sv dtypes[DTYPE_COUNT], cuda, cpu;
    sv forward, weight, bias, is_transposed, last_hidden_state; /* names */
    struct tensor *planted;   /* parameters and buffers of the tree */
    struct again *free_again; /* regions.c */
    struct calls_book *book;  /* forwards of layers that were heard before: heard.c; NULL: none is kept */
    uint64_t identity;        /* of the model, among those whose forwards the book has */
    const uint8_t *layer_kinds; /* equal for layers that are alike; NULL: each is taken for itself */
    uint32_t n_layers;
    const struct module *layers; /* their list; NULL until it is asked for */
    uint64_t by_hand;            /* steps of what is done by hand, of the forward that is written down */
    void *of;                 /* the caller's */
};

/* Adds the modules to an image. */
MUST_CHECK enum err_code natives_image(struct image *im, struct err *err);

/* Before the script's first import. `arena` holds the host's run. */
MUST_CHECK enum err_code natives_begin(struct natives *n, struct script *s, struct arena *arena, const struct quirks *q, struct err *err);

/* The same for a script that was thawed with its natives (freeze.h); natives_sleep() before it is frozen. */
MUST_CHECK enum err_code natives_wake(struct natives *n, struct arena *arena, const struct quirks *q, struct err *err);
bool natives_sleep(struct natives *n); /* false: modules made tensors when they were imported */

/* What the host's run holds, apart from the script's own memory: a copy of it, to be put back where a script stands again as it stood. */
bool natives_rest(const struct natives *n); /* it holds tensors alone */
size_t natives_host_bytes(const struct natives *n);
void natives_host_save(const struct natives *n, void *to);
void natives_host_load(struct natives *n, const void *from, struct arena *arena, const struct quirks *q); /* n as it was; both are its own from here on */

/* The tree of a model (an nn.Module of the script) in `t`: names, parameters and buffers in the order of its __init__. */
MUST_CHECK enum err_code natives_tree(struct natives *n, sv model, struct tree *t, struct err *err);

/* The node of a module (an nn.Module of the script) in the tree; NULL: it has none. */
struct module *natives_module(struct natives *n, sv module);

/* The model stands on the device: its parameters and buffers are the tree's from here on. */
void natives_on_device(struct natives *n, struct run *r);

/* Before the model's first forward: its layers' forwards may be asked again out of the book. */
void natives_heard(struct natives *n, struct calls_book *book, uint64_t identity, const uint8_t *layer_kinds, uint32_t n_layers);

/* A tensor of the device whose value the caller keeps a reference to. */
sv natives_tensor(struct natives *n, val v);
val natives_value(struct natives *n, sv tensor); /* lent; 0: it is none of the device's */

void natives_fail_run(struct natives *n); /* the script's error becomes the run's */

/* Tells the lattice what a batch's tensor holds: content.h. */
void natives_tell_ones(sv tensor);
void natives_tell_padded(sv tensor);
void natives_tell_text(sv tensor, int64_t padded_with, int64_t ends_with); /* < 0: nothing; no number */
void natives_tell_packed(sv tensor, uint32_t sequences); /* positions that start anew for each of them */

#endif
