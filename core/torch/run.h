/*
 * run.h - the interpreter: values, Python's frames, autograd's graph, and the tape of births and deaths they leave.
 *
 * Purpose   a model's program calls the functions of ops.h on values that have sizes and strides but no content. Every storage
 *           that PyTorch would allocate is born and dies on the tape, in PyTorch's order.
 * Values    `val` is a handle; 0 is None. What an op returns is a temporary: it dies when the op that takes it has run.
 *           local() binds it to the frame, as a Python local: it dies when the frame ends or rebind() binds the name anew.
 * Graph     an op whose input requires grad makes a node that holds what its backward reads (ops.def). run_graph() runs the
 *           nodes as the engine does: falling sequence number, AccumulateGrad first, fan-in in place where the buffer is its own.
 * Source    torch/csrc/autograd/{engine,input_buffer,functions/accumulate_grad}.cpp, torch/utils/checkpoint.py; CPython's order of
 *           releasing locals. Checked block by block against the oracle's tapes (tests/accuracy).
 * Errors    sticky: the first failure stands in run.error, later ops return 0. A run without room is ERR_NOMEM.
 * Threads   none: one run, one thread. All memory is the arena's.
 * Streams   a birth comes from the pool of the stream that is current; who else uses a block says record_stream(). Order between
 *           streams is not played, but logged (work.h): the meters tell what a GPU that never lags holds, one that always does, and one that is timed.
 * Not modelled: double backward, CUDA graphs.
 */
#ifndef TORCH_RUN_H
#define TORCH_RUN_H

#include "base/arena.h"
#include "base/err.h"
#include "stack/device.h"
#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t val;

#define COLD __attribute__((noinline, cold)) /* what seldom runs takes no registers of what often does */

enum { MAX_DIMS = 8, MAX_EDGES = 4, MAX_SAVED = 16, MAX_OUTPUTS = 4 };

enum dtype { DTYPE_BOOL, DTYPE_UINT8, DTYPE_INT32, DTYPE_INT64, DTYPE_FP16, DTYPE_BF16, DTYPE_FP32, DTYPE_FP64, DTYPE_COMPLEX64, DTYPE_COUNT };

const char *dtype_name(enum dtype t);  /* "bf16" */
const char *scalar_type(enum dtype t); /* "BFloat16", as PyTorch's errors say */
unsigned dtype_bytes(enum dtype t);
static inline bool dtype_is_float(enum dtype t)
{
    return t >= DTYPE_FP16;
}

/* Where the program is; the tape names them as api.md does, once `loss` is told apart in backward. */
enum stage {
    STAGE_INIT,
    STAGE_BATCH,
    STAGE_FORWARD,
    STAGE_LOSS,
    STAGE_BACKWARD,
    STAGE_BETWEEN,
    STAGE_CLIP,
    STAGE_OPTIMIZER,
    STAGE_ZERO_GRAD,
    STAGE_REST,
    STAGE_PREFILL, /* of a generation: the prompt, then token by token */
    STAGE_DECODE,
    STAGE_COUNT
};

/* What a block turned out to be; MARK_NONE: its category follows from where it was born. */
enum mark { MARK_NONE, MARK_PARAMETER, MARK_BUFFER, MARK_GRADIENT, MARK_OPTIMIZER_STATE, MARK_WORKSPACE, MARK_COMMUNICATION, MARK_CACHE };

/* Whose pool a block comes from. The names are those of torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py FSDPCommContext;
 * other methods use those that do the same for them. */
enum stream_id { STREAM_COMPUTE, STREAM_GATHER_COPY, STREAM_GATHER, STREAM_REDUCE, STREAM_ALL_REDUCE, STREAM_COPY,
                 STREAM_BESIDE_COPY, STREAM_BESIDE_GATHER, /* of a second root's own: a reference model under FSDP and ZeRO-3 */
                 STREAM_COUNT };

enum op {
    OP_NONE,
#define OP(id, aten, node, saves, backward, autocast, work, source) OP_##id,
#include "torch/ops.def"
#undef OP
    OP_COUNT
};

/* One block's life. Blocks are numbered by birth; deaths name the birth's number. */
struct birth {
    uint64_t bytes;
    uint32_t module;              /* number of the module that runs, or that the running node's forward ran in */
    uint16_t op;                  /* enum op: the kernel that allocates */
    uint16_t node;                /* enum op of the autograd node that runs; OP_NONE in forward */
    uint8_t stage, forward_stage; /* now; and of the node's forward */
    uint8_t mark;
    uint8_t stream;  /* enum stream_id */
    bool recompute;  /* a checkpointed region runs again */
    uint8_t readers; /* streams other than its own, a bit each, that record_stream() named: freed, it stays active until they have passed */
    bool wrapped;    /* Python asked for its Storage, which counts as another reference from then on */
};

/*
 * One event of the tape: the birth of a block; bit 31 set: the death of block `event & EVENT_BLOCK`; bit 30 alone: of no block.
 *   EVENT_RELEASE              torch.cuda.empty_cache()
 *   EVENT_SYNC                 the host waits for all streams
 *   EVENT_WAIT | position      the host waits for a CUDA event that was recorded when the tape had `position` events
 */
enum { EVENT_DEATH = 1u << 31, EVENT_BLOCK = EVENT_DEATH - 1, EVENT_WAIT = 1u << 30, EVENT_POSITION = EVENT_WAIT - 1 };
#define EVENT_RELEASE EVENT_BLOCK
#define EVENT_SYNC    (EVENT_BLOCK - 1)

static inline bool event_is_of_block(uint32_t event)
{
    return !(event & EVENT_WAIT);
}

struct value {
    int64_t size[MAX_DIMS], stride[MAX_DIMS]; /* elements */
    int64_t offset;  /* of its first element in its storage; 0 of what as_strided() gave */
    uint32_t storage;
    uint32_t node; /* grad_fn, or the leaf's AccumulateGrad; 0: none */
    uint32_t refs;
    uint16_t output_nr; /* which output of `node` */
    uint8_t dtype, ndim;
    bool requires_grad, floating, contiguous;
    bool leaf : 1, view : 1;
    bool parameter : 1; /* an nn.Parameter itself, no view of one */
    bool shard : 1;     /* a parameter whose forward has a part of it, no leaf, where nothing is recorded */
    uint8_t made : 4;   /* enum view_made */
    val cast;         /* a leaf's half copy in autocast's cache, 0: none */
    val base;         /* views.h: of a view, the tensor that it is of, held; 0: of none, or nobody writes into it where a gradient passes */
    union {
        uint32_t version; /* of a view: the storage's when its grad_fn was made */
        uint32_t n_views; /* of others: how many have them as their base */
    };
};

/* variable.h CreationMeta; MADE_DATA: no view, but what Tensor.data gave, whose writes nobody counts */
enum view_made { MADE_PLAIN, MADE_PARTS, MADE_NO_GRAD, MADE_BY_FUNCTION, MADE_DATA };

struct storage {
    uint64_t bytes;
    uint32_t refs;
    uint32_t block; /* number of its birth; NO_BLOCK: resized to nothing */
};
enum { NO_BLOCK = EVENT_BLOCK };

struct edge {
    uint32_t node;
    uint16_t input; /* which output of that node's forward this is the gradient of */
};

struct region;
struct function;
struct hook;
struct module;
struct slices;

/* Of a node with more results than MAX_OUTPUTS: its input buffer, and how long each is along the dimension that was split. */
struct wide {
    struct wide *next; /* of the free ones */
    uint32_t room;
    val *grad, *zeros; /* zeros: what stands for those that nobody used, while its backward runs */
    int64_t *length;
};

/* Of a node with more inputs than MAX_EDGES: what others have in themselves. `out` is its backward's, `length` of each along what they are joined by. */
struct many {
    struct many *next; /* of the free ones */
    uint32_t room;
    struct edge *edge;
    val *meta, *out;
    int64_t *length;
};

/* Scalars an op's backward needs; what they mean is the op's. */
struct attributes {
    int64_t i[MAX_DIMS];
    int32_t dim, dim2;
    double p;
};

struct node {
    struct edge edge[MAX_EDGES];
    val grad[MAX_OUTPUTS]; /* input buffer: gradients of the forward's outputs */
    val meta[MAX_EDGES];   /* node_meta(): shape and dtype of each differentiable input, a value without storage */
    struct attributes at;
    uint64_t sequence;
    uint32_t module, refs, dependencies;
    uint32_t seen; /* number of the backward call that counted it */
    uint16_t op;
    uint8_t stage, stream; /* the stream that was current when it was made: its backward runs there */
    uint16_t n_edges, n_outputs;
    uint8_t n_saved;
    bool released, pinned;
    bool float8;               /* a product of torchao's linear layer */
    uint8_t grad_dtype;        /* AccumulateGrad: 1 + the dtype its gradient must have, 1 + DTYPE_COUNT for any; 0: the leaf's own */
    struct wide *wide;         /* in place of grad[]; NULL: that has room */
    struct many *many;         /* in place of edge[] and meta[] */
    struct hook *hooks, *own;  /* hooks.h: of the tensors that it made; of itself */
    struct region *region;     /* whose recomputation unpacks the saves */
    union {
        struct region *closure; /* of a reentrant checkpoint: what it calls */
        struct slices *slices;  /* views.h: of a CopySlices, what it runs and where; until it has */
    };
    struct function *function; /* function.h: of an autograd.Function that the caller runs */
    val variable, accumulated; /* AccumulateGrad: the leaf and its .grad. Of others `accumulated` is what ctx has as an attribute */
    val saved[MAX_SAVED];      /* storages kept for backward; bit 31: packed by a checkpoint region, see checkpoint.c */
};

/* A graph of so many nodes outgrows the caches of a processor (2.5 MB). Each one made beyond them is fetched from memory when it is made and by each of
 * backward's walks, which takes the time of four events: deep mixtures take 80 to 110 ns an event where it is not counted, others 40 to 60 (tools/worst). */
enum { NEAR_NODES = 8192, FAR_NODE_EVENTS = 4 };

static inline struct edge *node_edge(struct node *n, int k)
{
    return n->many ? &n->many->edge[k] : &n->edge[k];
}
static inline val *node_meta(struct node *n, int k)
{
    return n->many ? &n->many->meta[k] : &n->meta[k];
}

struct frame {
    uint32_t locals, module, node;
    bool recompute;
    struct module *hooked; /* its hooks see what the frame returns; NULL: nobody does */
};

struct calls_writer;

struct run {
    struct err error;
    struct arena *arena;
    const struct quirks *q;
    struct device device;

    /* switches of the running thread */
    bool grad_enabled, in_backward, stopped, recompute;
    bool wrote; /* something was written in place: views.h */
    bool views_known; /* every view knows what it is of; else those alone that view_is_of() tells */
    bool outgrew; /* it failed for a pool that was too small: wider ones may hold it */
    bool diverged; /* it failed where calls.h asked again: by hand it might not */
    bool counts_evenly; /* how many tokens an expert has was read, and told by their being shared evenly: natives/content.h */
    double expert_skew; /* how many even shares of the tokens the first expert has; 0: 1 */
    bool loads_by_owner; /* what comes to the device while a model is loaded is told as its module's: generate()'s parts of each GPU */
    bool adapters_off; /* peft's disable_adapter(): modules run as their base */
    uint8_t stage, stream;
    int autocast_depth;
    bool autocast;
    enum dtype autocast_dtype;
    uint32_t module;       /* that runs now */
    uint32_t node_running; /* autograd node, 0 in forward */
    struct region *region; /* checkpoint region that packs saves, or keeps them while it recomputes */
    struct region *free_region;
    struct offloading *offload; /* saves go to the host: offload.h; NULL: they stay */
    void (*release)(struct run *r, void *context); /* checkpoint_releases() */
    void (*returns)(struct run *r, void *context); /* checkpoint_returns() */
    struct wide *free_wide;
    struct many *free_many;
    struct slices *free_slices;
    struct storage_write *writes; /* of the first n_writes storages; of others nothing was written in place */
    uint32_t n_writes;
    struct hook *free_hook, *at_end; /* hooks.h; at_end: of the backward that runs */
    uint32_t n_hooks, max_hooks;
    struct hook *hooks;
    val second;        /* a further result of the region function that just returned, a temporary; 0: none */
    uint64_t sequence; /* of the forward thread */

    /* pools, grown never */
    struct value *values;
    struct storage *storages;
    struct node *nodes;
    uint32_t n_values, n_storages, n_nodes, max_values, max_storages, max_nodes;
    uint32_t free_value, free_storage, free_node; /* heads of free lists */
    uint32_t n_taken; /* values that were made, all together */
    val *locals;
    uint32_t n_locals, max_locals;
    uint32_t *ready;
    uint32_t n_ready, max_ready;
    uint32_t backward_calls;
    uint32_t graph; /* number of the backward call that runs, 0: none */
    val *casts; /* leaves whose half copy autocast caches */
    uint32_t n_casts, max_casts;

    /* the tape */
    struct birth *births;
    uint32_t n_births, max_births;        /* max_births: where they end, or are counted next */
    uint32_t room_births, counted_events; /* the end of room; of the tape, counted so far */
    uint32_t far_nodes;                   /* nodes that were made beyond NEAR_NODES and are not counted yet */
    uint32_t *events;
    uint32_t n_events, max_events;
    uint32_t n_marks, max_marks;            /* of them neither birth nor death */
    bool released;                          /* EVENT_RELEASE stands on the tape */
    struct calls_writer *calls;             /* calls.h: what is asked is written down; NULL: it is not */
    struct work *work;                      /* work.h: the log of kernels and messages; NULL: none is kept */
    val workspaces[2];                      /* cuBLAS of the forward and of the autograd thread, where they are kept */
    uint32_t lt_workspaces[2];              /* cuBLASLt's */
    void (*grad_ready)(void *of, val leaf); /* AccumulateGrad's post hook: `leaf` has its gradient; NULL: nobody waits for it */
    void *grad_ready_of;
    bool grad_ready_of_tensors; /* it is Tensor.register_post_accumulate_grad_hook()'s */
    bool selective;          /* checkpoints that begin now keep results of some operators: checkpoint.h */
    bool all_products;       /* of all products, with a bias too */
    bool what_is_read;       /* and those alone that something reads which backward wants */
    bool flash_3;            /* the flash-attn package is the third's */
    bool no_flash;           /* flash's kernel is passed by: what a range asks (recipe.h) */
    bool cudnn_attention;    /* scaled_dot_product_attention takes cuDNN's where it has the shape */
    bool casts_uncached;     /* a compiled graph casts weights where it reads them */
    bool float8;             /* linear layers are torchao's, but for the head */
    const struct module *float8_not;
    bool in_float8;          /* one of them runs */
    bool compiled;           /* by Inductor: what it holds beyond eager is held */
    bool one_graph;          /* and as one graph: all gradients of a backward stand until it ends */
    bool linear_is_function; /* DeepSpeed has replaced F.linear: zero_linear.c */
    uint32_t load_ranks;     /* from_pretrained() counts a rank's share of what is planned (module.planned), of all where load_shares_all */
    bool load_shares_all;
    bool views_keep_weights; /* it lets go of a gathered weight by `param.data = ..`: a view of it holds what was gathered */
    uint16_t op_over;        /* names the births of a composite instead of the op itself */
};

struct run_limits {
    uint32_t values, storages, nodes, births;
    uint32_t marks, hooks; /* host_waits(); hooks.h, at once */
};

/* sdp_utils.cpp check_prefer_cudnn_attention */
static inline bool device_prefers_cudnn(const struct quirks *q, const struct device *d)
{
    return q->sdpa_prefers_cudnn && (d->cc_major == 9 || d->cc_major == 10);
}

MUST_CHECK enum err_code run_init(struct run *r, struct arena *arena, const struct quirks *q, struct device device,
                                  struct run_limits limits, struct err *err);

/* Of a run that has ended: gives back all that it took from the arena but the tape, and what stands above it. */
void run_tape_alone(struct run *r);

void run_fail(struct run *r, enum err_code code, const char *at, const char *detail);
/* What PyTorch raises, in its words: a RuntimeError, which a script may catch. false, always. */
__attribute__((format(printf, 2, 3))) bool run_raise(struct run *r, const char *format, ...);
void run_outgrew(struct run *r, const char *detail); /* one of its limits, which the caller may widen */
bool same_dtype(struct run *r, int n, const val *in); /* for kernels that take one dtype; 0 among `in`: not given. false: the run has failed */
void *run_room(struct run *r, size_t size, size_t n); /* n zeroed, of any alignment, as long as the run; NULL: the run has failed */
bool run_spend(struct run *r, uint64_t events);       /* work that leaves nothing on the tape; false: the run has failed */
bool run_count(struct run *r); /* what the tape has grown by since, in the arena's budget; false: the run has failed */
static inline bool run_dead(const struct run *r)
{
    return r->stopped || r->error.code;
}

/* ---- values */
static inline struct value *value_of(const struct run *r, val v)
{
    return &r->values[v];
}
static inline int64_t numel(const struct run *r, val v)
{
    const struct value *x = &r->values[v];
    int64_t n = 1;

    for (int i = 0; i < x->ndim; i++)
        n *= x->size[i];
    return n;
}
static inline int64_t count_rows(const struct run *r, val v) /* of the last dimension */
{
    const struct value *x = &r->values[v];
    int64_t n = 1;

    for (int i = 0; i + 1 < x->ndim; i++)
        n *= x->size[i];
    return n;
}
static inline int64_t size_of(const struct run *r, val v, int dim)
{
    const struct value *x = &r->values[v];

    dim += dim < 0 ? x->ndim : 0;
    return dim < 0 ? 1 : x->size[dim]; /* None, after the run has failed, has no last dimension */
}
static inline enum dtype dtype_of(const struct run *r, val v)
{
    return (enum dtype)r->values[v].dtype;
}

#define MOST_ELEMENTS (INT64_C(1) << 58)
/* Products of sizes are taken everywhere: 2^58 elements at most. And the sentence about more of them, for ERR_TENSOR_SIZE. */
bool sizes_countable(int ndim, const int64_t *size);
void sizes_too_large(int ndim, const int64_t *size, char *ret, size_t bytes);
val value_new(struct run *r, enum dtype dtype, int ndim, const int64_t *size); /* contiguous, no storage yet, floating */
val value_empty(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size);
val value_alias(struct run *r, val of); /* same storage, sizes and strides; no graph; floating */
val value_again(struct run *r, val of); /* the same with its graph, where it is no leaf */
void value_birth(struct run *r, val v, enum op op, uint64_t bytes);
void value_die(struct run *r, val v); /* nothing refers to it any more */
static inline void value_ref(struct run *r, val v)
{
    if (v)
        r->values[v].refs++;
}
static inline void value_unref(struct run *r, val v)
{
    if (v && !--r->values[v].refs)
        value_die(r, v);
}
static inline val owned(struct run *r, val v) /* a temporary becomes the caller's: value_unref() ends it */
{
    if (v)
        r->values[v].floating = false;
    return v;
}
static inline void consume(struct run *r, val v) /* a temporary dies here, anything else lives on */
{
    if (v && r->values[v].floating) {
        r->values[v].floating = false;
        value_unref(r, v);
    }
}
static inline void value_strides(struct value *x) /* contiguous strides for its sizes */
{
    int64_t step = 1;

    for (int i = x->ndim; i-- > 0;) {
        x->stride[i] = step;
        step *= x->size[i];
    }
    x->contiguous = true;
}
bool dense(const struct value *x); /* non-overlapping and dense */
void mark_block(struct run *r, val v, enum mark mark);

/* A block born and dead inside a kernel. */
uint32_t scratch_take(struct run *r, enum op op, uint64_t bytes, enum mark mark);
void scratch_give(struct run *r, uint32_t storage);
void scratch(struct run *r, enum op op, uint64_t bytes);

/* What is alive of the blocks that were born from birth `from` and event `since` on, before birth `until`, born `times` more: what a stretch that
 * nobody runs again would leave. *ret: the births, which stay until blocks_die(). */
struct blocks {
    uint32_t first, n;
};
void blocks_again(struct run *r, uint32_t from, uint32_t since, uint32_t until, uint32_t times, struct blocks *ret);
void blocks_die(struct run *r, struct blocks b);

void empty_cache(struct run *r);          /* torch.cuda.empty_cache() */
void release_cached(struct run *r);       /* the same, once a run */
void record_stream(struct run *r, val v); /* the current stream uses what `v` holds; nothing where that is its own */

/* The host waits for the GPU: for all it was given (.item(), synchronize()); for an event that was recorded when the tape had
 * `position` = r->n_events events (Event.synchronize()): blocks that died later may still be used. */
void host_waits(struct run *r);
void host_waits_for(struct run *r, uint32_t position);

/* v.untyped_storage().resize_(): what is held dies, or is born; views and what autograd saved see the new block. Nothing where it
 * has that size. */
void storage_resize(struct run *r, val v, enum op op, uint64_t bytes);
void set_data(struct run *r, val v, val from); /* v.data = from: storage, sizes and strides; 0: an empty tensor */

/* ---- Python's frames */
struct frame frame_enter(struct run *r);
val frame_leave(struct run *r, struct frame f, val result); /* locals die in the order they were bound */
val local(struct run *r, val v);
val *slot(struct run *r);                       /* a parameter that is None so far: it dies in its place among the locals */
val bind_slot(struct run *r, val *slot, val v); /* not `bind`: libc has one, and the daemon calls it */
void rebind(struct run *r, val *name, val v);
void drop(struct run *r, val *name); /* del name */
val give(struct run *r, val v);      /* a local as a further result of its frame: call before frame_leave */

/* ---- autograd */
void require_grad(struct run *r, val v);                        /* makes a leaf */
val *grad_of(struct run *r, val leaf);                          /* .grad of a leaf */
void gradient_dtype(struct run *r, val leaf, enum dtype dtype); /* Tensor.grad_dtype; DTYPE_COUNT: None, any */
uint32_t node_new(struct run *r, enum op op, int n_outputs);
void node_die(struct run *r, uint32_t n);
static inline void node_ref(struct run *r, uint32_t n)
{
    if (n)
        r->nodes[n].refs++;
}
static inline void node_unref(struct run *r, uint32_t n)
{
    if (n && !--r->nodes[n].refs && !r->nodes[n].pinned)
        node_die(r, n);
}

enum saves { SAVES_NONE, SAVES_IN0, SAVES_RESULT, SAVES_CROSS, SAVES_OWN };
enum autocast_class { AUTOCAST_KEEP, AUTOCAST_HALF, AUTOCAST_FULL, AUTOCAST_DTYPE };
enum work_class { WORK_NONE, WORK_MOVE, WORK_POINT, WORK_REDUCE, WORK_MATMUL, WORK_ATTENTION };

struct op_row {
    const char *aten, *node, *source;
    uint8_t saves, autocast, work; /* enum saves, autocast_class, work_class */
};
extern const struct op_row op_rows[OP_COUNT];

#endif
