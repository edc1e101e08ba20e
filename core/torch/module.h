/*
 * module.h - torch.nn: a tree of modules with parameters, declared once and read by every meter.
 *
 * Purpose   a family declares its tree (names, shapes, ties) in the order of its __init__; its forward calls what stands
 *           there. LoRA and the like replace a node's forward before the run; the family does not notice.
 * Owner     the tree's arena. One tree, one run.
 */
#ifndef TORCH_MODULE_H
#define TORCH_MODULE_H

#include "torch/run.h"

struct module;
struct module_hook;

enum { PARAM_DIMS = 5 }; /* what Conv3d has */

struct param {
    const char *name;     /* "weight" */
    struct module *owner;
    struct param *next, *tied; /* tied: another parameter whose storage this is */
    int64_t size[PARAM_DIMS];
    int64_t stands_for;   /* elements, where packed words hold a quantised weight; 0: its own; < 0: none */
    int ndim;
    enum dtype dtype;
    bool requires_grad, buffer;
    bool born_frozen; /* its class made it with requires_grad=False */
    uint8_t group;        /* of the optimizer: 0 decays */
    bool transposed;      /* [experts, in, out] of experts whose class says is_transposed */
    uint8_t cut;          /* by SPLIT_EXPERTS: the dimension, from 1; 0: whole on every rank */
    bool named_twice;     /* a buffer that an attribute beside it holds as well: original_inv_freq */
    bool late;            /* not part of the checkpoint: who added it gives its birth */
    val value;            /* once the model stands on the device: what forward reads */
    val shard;            /* what a sharding method trains in its place; 0: `value` itself */
    val (*reads)(struct run *r, struct param *p); /* while a parametrization stands in its place: what forward reads; NULL: `value` */
    void *reads_of;
};

enum module_kind { MODULE_CONTAINER, MODULE_LINEAR, MODULE_CONV1D, MODULE_EMBEDDING, MODULE_LAYER_NORM, MODULE_NORM, MODULE_DROPOUT, MODULE_ACTIVATION };

/*
 * How tensor parallelism cuts a module: its outputs over the ranks, and put together again; its inputs, which come cut or whole; an embedding's rows;
 * each expert, or parameters of its own, as these say (param.cut). Or not at all, but each rank's gradient is a part of the sum: of its parameters, of
 * its last columns.
 */
enum split {
    SPLIT_NONE,
    SPLIT_COLUMNS,
    SPLIT_COLUMNS_GATHERED,
    SPLIT_ROWS,
    SPLIT_ROWS_OF_WHOLE,
    SPLIT_VOCABULARY,
    SPLIT_EXPERTS,
    SPLIT_OWN_PARAMS, /* bare parameters of a module whose forward is left as it is */
    SPLIT_SUM_GRADIENT,
    SPLIT_SUM_LAST_COLUMNS,
    SPLIT_NARROW_OUT, /* adapters of a cut linear that were made as wide as its part, and stand for themselves */
    SPLIT_NARROW_IN
};

typedef val (*module_forward)(struct run *r, struct module *m, val x);

/* What stands around the forward of a module with a text of its own. */
struct module_around {
    void (*enter)(struct run *r, struct module *m);
    void (*leave)(struct run *r, struct module *m);
    void *of;
};

/* What peft puts around a linear. Its forward is the node's own; who multiplies by the parts himself finds them here. */
struct adapter {
    struct module *base, *dropout, *a, *b;
    struct module *identity;  /* in the place of a dropout of 0, where somebody counts; NULL: left out */
    struct module *magnitude; /* DoRA's; NULL: none */
    bool packed;              /* the base's weight is no matrix */
    val (*unpacked)(struct run *r, struct module *base); /* of a packed base, as axolotl's kernels make one: a temporary; NULL: they cannot */
};

struct module {
    const char *name;
    const char *class_name, *class_module; /* of its Python; NULL: made by C */
    struct module *parent, *first, *last, *next;
    struct param *params, *last_param;
    struct param *weight, *bias; /* of the leaf kinds */
    module_forward forward;
    module_forward within;    /* of a class derived from a leaf: what its super().forward() runs in place of the kind's own; NULL: that */
    enum module_kind kind;
    uint32_t number;      /* in the order of declaration, from 1 */
    int64_t in, out;
    double p;             /* dropout */
    int variant;          /* which formula an activation is; what else a kind needs */
    bool padding_idx;
    bool planned;         /* the family's plan of tensor parallelism names it, whether it is cut or not */
    bool wraps_parent;    /* what peft hangs around its parent's tensor: to() meets it after the parent's own */
    uint8_t split;        /* enum split: what the family's plan says of it */
    uint32_t last_columns; /* of SPLIT_SUM_LAST_COLUMNS */
    void *extra;          /* of what replaced the node */
    struct module_hook *hooks; /* hooks.h */
    uint8_t casts_to;          /* enum dtype + 1: floats among its other arguments are cast, in tuples and lists too; 0: they stay */
    struct module_around *around;
    const struct adapter *adapter; /* of a linear that has one; NULL: none */
    struct module *original;   /* peft's copy: what it is a copy of, a child that runs in its place while adapters are off; NULL: it is none */
};

struct tree {
    struct arena *arena;
    struct module *root;
    struct module **modules;  /* by number */
    uint32_t n_modules, max_modules;
    enum dtype dtype;         /* of parameters, and of buffers that follow them */
    struct module *head;      /* the output embeddings: when they return, the loss begins */
    uint32_t n_layers;        /* of the list of layers; 0: nobody said */
    bool shares_modules;      /* one stands in several places, of which the tree has the first */
    struct err error;         /* sticky */
};

MUST_CHECK enum err_code tree_init(struct tree *t, struct arena *arena, enum dtype dtype, uint32_t max_modules, struct err *err);

/* Children and parameters stand in the order of these calls. */
struct module *container(struct tree *t, struct module *parent, const char *name);
module_forward module_leaf_forward(enum module_kind kind); /* of the leaf kinds: what runs until it is replaced; NULL: none */
struct module *container_at(struct tree *t, struct module *parent, uint32_t index); /* of a ModuleList */
struct module *linear(struct tree *t, struct module *parent, const char *name, int64_t in, int64_t out, bool bias);
struct module *conv1d(struct tree *t, struct module *parent, const char *name, int64_t in, int64_t out); /* transformers' Conv1D */
struct module *embedding(struct tree *t, struct module *parent, const char *name, int64_t rows, int64_t width, bool padding_idx);
struct module *layer_norm_module(struct tree *t, struct module *parent, const char *name, int64_t width, bool affine);
struct module *dropout_module(struct tree *t, struct module *parent, const char *name, double p);
struct param *param_add(struct tree *t, struct module *m, const char *name, int ndim, const int64_t *size);
struct param *buffer_add(struct tree *t, struct module *m, const char *name, enum dtype dtype, int ndim, const int64_t *size);
int64_t param_numel(const struct param *p); /* of the whole tensor, before a method cuts it */
void tie(struct param *p, struct param *to);
bool module_is_below(const struct module *m, const struct module *root); /* or is it */
void module_unlink(struct module *m); /* takes it and what is below it from its parent's children; it keeps its number and its name */

/* nn.Module.__call__: the argument lives until the module returns. */
val call(struct run *r, struct module *m, val x);
void module_read(struct run *r, struct module *m); /* a forward looks at its parameters, and does not call it */
struct frame module_enter(struct run *r, struct module *m); /* for forwards with more arguments: hold() each, then frame_leave() */
struct frame module_enter_with(struct run *r, struct module *m, val *x); /* its hooks see, and may replace, the first argument */
void module_hook(struct tree *t, struct module_hook **list, struct module_hook hook); /* adds one at the end of &m->hooks */
static inline val hold(struct run *r, val v)
{
    return local(r, v);
}

/* "model.layers.0.self_attn.q_proj"; for reports, into buf. */
const char *module_path(const struct tree *t, uint32_t number, char *buf, size_t bytes);

/* model.to(device): every parameter and buffer once, children before their parent, in declaration order. */
/* What is born until the next such call belongs to the module, where the run tells owners (loads_by_owner). */
void run_owner(struct run *r, const struct module *m);
void materialise(struct run *r, struct tree *t);
void widen_trained(struct run *r, struct tree *t); /* what stands there in half and is trained to fp32, a parameter at a time */

/* A ModuleList below the root, a container of "0", "1", ..: of those of n_layers, or where none is, of all, the one with the most parameters; NULL: none. */
struct module *module_list(const struct tree *t);
bool module_lists_beside(const struct tree *t); /* another one stands neither in its layers nor around it: a tower's */

/* Walks model.named_parameters(): a module's own parameters, then its children; of peft's copy its original
 * comes first (utils/other.py AuxiliaryTrainingWrapper). */
typedef void (*param_visitor)(void *context, struct module *m, struct param *p);
void params_visit(struct module *m, param_visitor visit, void *context);

#endif
