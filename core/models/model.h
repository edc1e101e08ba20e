/*
 * model.h - a causal language model: its declared tree, its forward, and what they may know of the step.
 *
 * Purpose   declare() builds the tree in the order of __init__, forward() runs it: of a text in the language (program.h), or of a test's own.
 *           Options that change what runs are members here.
 * Threads   one model, one run.
 */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "config/arch.h"
#include "models/kernels.h"
#include "models/task.h"
#include "stack/stack.h"
#include "torch/module.h"
#include "torch/ops.h"

/* Whose memory a declared model lies in. */
enum model_memory {
    MEMORY_OWN,
    MEMORY_PASSING, /* that of all that pass: nobody looks at it any more once another one was declared */
    MEMORY_KEPT     /* that of all whose tape is kept, one after the other */
};

enum attention_kernel { KERNEL_SDPA, KERNEL_EAGER, KERNEL_FLASH_2, KERNEL_FLEX };

struct model;
struct program_source;

struct batch {
    val ids, mask, labels, positions, types; /* int64 [batch, seq]; 0: it has none; held by the caller */
    bool mask_of_pairs;                         /* [batch, 1, seq, seq], of what products are made in */
    val more[TASK_MORE];              /* of a task: tasks.def */
    uint32_t sequences;               /* of a row whose positions start anew for each; 0: they are not given */
};

/* What the loop does around a call of the model. */
struct model_caller {
    void *of;
    void (*enter)(void *of, bool policy);          /* hooks of the method's, autocast */
    bool (*leave)(void *of, bool policy);          /* true: tensors of half become fp32 */
    void (*outputs)(void *of, bool policy, uint32_t n, val *v); /* what the method's wrapper hands out in their place; owned */
};

struct outputs {
    val loss, logits, more; /* temporaries; more: a second tensor of scores, 0 of most */
};

struct family_program {
    const char *name;
    const char *source;     /* the Python file it mirrors */
    void (*declare)(struct model *m);
    void (*forward)(struct run *r, struct model *m, const struct batch *b, struct outputs *ret);
    void (*widen)(struct run *r, struct model *m); /* what forward returned beside loss and logits becomes fp32, as accelerate has it; NULL: nothing is */
    /* How many tensors that is, in order; they themselves into `v`, referenced, unless it is NULL; `put_others`: what stands in `v` takes their place.
     * NULL: none */
    uint32_t (*rest)(struct run *r, struct model *m, val *v, bool put_others);
    val (*loss)(struct run *r, struct model *m, const struct batch *b); /* of a task: a temporary */
    void (*evaluate)(struct model *m);                                  /* model.eval() */
    enum err_code (*refer)(struct model *m, struct err *err);           /* of a task, once adapters stand: a reference model, and the trainer's __init__ */
    bool takes_item_count;  /* transformers 5: forward has **kwargs, so the Trainer hands it num_items_in_batch */
    bool norm_registered;   /* its own norm class is in ALL_LAYERNORM_LAYERS of 4.40: such weights do not decay */
};

/* Of a layer in the KV cache: key, value, and since 5.x the width of a sliding layer's window. */
enum { CACHE_KEY, CACHE_VALUE, CACHE_WINDOW, CACHE_ROWS };

struct model {
    struct tree tree;
    const struct arch *arch;
    const struct quirks *q;
    const struct family_program *family; /* set before model_declare() */
    void (*outputs_end)(struct run *r, struct model *m); /* declare() says so: the loop lets go of what forward returned; NULL: the cache is all there is */
    const struct task *task;      /* whose text computes the loss; NULL: the model's own */
    enum reference reference;
    struct module *reference_root, *reference_head; /* of a reference model that stands in the same tree; NULL: there is none */
    enum dtype reference_dtype;                     /* as it is loaded */
    const struct model_caller *caller;
    const struct program_source *source; /* of a program in the language: program.h */
    enum attention_kernel attention;
    const char *loss;             /* a function of models/library/losses.py; NULL: the model's own */
    unsigned liger_kernels;       /* a bit each */
    uint32_t liger_release;
    unsigned lora_kernels;        /* a bit each, of models whose linears will be adapted */
    bool padded, use_cache, checkpointing, reentrant;
    bool checkpoints_trained_alone; /* a layer without parameters that are trained runs as it is: LLaMA-Factory's checkpoint function */
    uint32_t checkpoint_every;    /* of checkpointing: one layer in so many */
    const char *experts_packed;   /* how a checkpoint's experts stay packed: "mxfp4", "fp8"; NULL: they are numbers */
    bool quantised;               /* its weights will be packed: configs say so, as transformers' quantizers/base.py leaves them */
    enum model_memory memory;
    bool layers_wrapped; /* each layer stands in a module of the method's: a layer that checkpoints itself leaves that one's hooks outside */
    bool position_table;          /* declare() says so: positions are rows of a table, and end with it */
    bool counts_items;            /* the loop hands num_items_in_batch to the loss: Trainer since 4.46, to families that take it */
    val items;                    /* that number where a wrapper of the model cast it: a tensor, which forward hands on; else 0 */
    bool score_head;              /* its class has a head that peft trains in full: task.h `saved`, model_take_class() */
    bool takes_token_types;       /* declare() says so: its tokenizer hands out token_type_ids beside the mask */
    bool writes_into_views;       /* declare() says so: its forward writes into views of what a gradient passes through */
    bool names_whole_modules;     /* _no_split_modules: device_map cuts no layer */
    bool takes_items;             /* forward takes num_items_in_batch: a **kwargs, in that release */
    bool only_sizes;              /* declared to be looked at: in which dtype is nobody's question */
    const char *refuses_items;    /* it is handed num_items_in_batch and raises: why; NULL: it does not */
    bool embeddings_require_grad; /* peft's enable_input_require_grads() */
    struct module *embeddings;    /* get_input_embeddings() */
    void *parts;                  /* the program's own */
    uint64_t identity;            /* among those whose layers' forwards are heard; 0: its own are not */
    unsigned capability;          /* ten times the device's; 0: there is none */
    bool by_hand;                 /* nothing is asked that was heard before */
    uint32_t n_layers;
    uint32_t first_layer, end_layer; /* of a pipeline stage: stage.h */
    bool starts, ends;            /* it has the embeddings; the norm and the head */
    val *cache;                   /* CACHE_ROWS of each layer while a forward builds a cache */
};

/* Declares the tree. Memory from tree.arena, which tree_init() was given. */
MUST_CHECK enum err_code model_declare(struct model *m, struct err *err);

/* Makes the declared causal language model the class that architectures[0] names: a score head for
 * *ForSequenceClassification, no head and no prefix for *Model. For inventories; only the causal model has a forward. */
void model_take_class(struct model *m);

#endif
