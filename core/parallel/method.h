/*
 * method.h - the names of the ways to train: what a request asks for, as enums and a table of rows.
 *
 * Purpose   one row a method: its name in api.md, its program (program.h), and for people what it shards and what it replicates. methods.def is the table.
 */
#ifndef PARALLEL_METHOD_H
#define PARALLEL_METHOD_H

#include <stdbool.h>

struct method_program;

enum method {
#define METHOD(id, name, program, sharded, replicated) METHOD_##id,
#include "parallel/methods.def"
#undef METHOD
    METHOD_COUNT
};

enum offload { OFFLOAD_NONE, OFFLOAD_OPTIMIZER, OFFLOAD_OPTIMIZER_PARAMS, OFFLOAD_ACTIVATIONS };

/* fully_shard's units: layers and the rest; embedding, layers, [norm, head]; the same where accelerate's plugin wraps (the tail is not resharded). */
enum fsdp_wrap { FSDP_WRAP_UNSET, FSDP_WRAP_LAYERS, FSDP_WRAP_TITAN, FSDP_WRAP_ACCELERATE };

enum fsdp_prefetch { FSDP_PREFETCH_UNSET, FSDP_PREFETCH_PRE, FSDP_PREFETCH_POST, FSDP_PREFETCH_NONE };

struct method_row {
    const char *name;                     /* as api.md spells it */
    const struct method_program *program; /* NULL: nothing wraps the model */
    const char *sharded, *replicated;     /* for people: half a sentence each */
};
extern const struct method_row method_rows[METHOD_COUNT];

enum method method_named(const char *name); /* METHOD_COUNT: none is called so */

/* What the optimizer works on lies on the host. */
static inline bool offload_of_states(enum offload what)
{
    return what == OFFLOAD_OPTIMIZER || what == OFFLOAD_OPTIMIZER_PARAMS;
}

/* Whether a framework offers it: DeepSpeed (runtime/zero/offload_config.py), FSDP's CPUOffload and CPUOffloadPolicy; TRL's OffloadActivations under all. */
bool method_offloads(enum method m, enum offload what);

/* Of what is offered: whether it is played. */
bool method_plays_offload(enum method m, enum offload what);

/* Whether it has a program. */
static inline bool method_is_modelled(enum method m)
{
    return m == METHOD_SINGLE || method_rows[m].program;
}
static inline bool method_has_tensor_parallel(enum method m)
{
    return m == METHOD_TP || m == METHOD_TP_FSDP2 || m == METHOD_LLMEM_TP || m == METHOD_LLMEM_DPTP;
}
static inline bool method_is_colossal(enum method m) /* Colossal-AI's Gemini: half weights, fp32 masters, an engine of its own */
{
    return m == METHOD_LLMEM_CDP || m == METHOD_LLMEM_ADP || m == METHOD_LLMEM_TP || m == METHOD_LLMEM_DPTP;
}
static inline bool method_is_hybrid(enum method m) /* sharded within a group, copied across groups */
{
    return m == METHOD_HSDP || m == METHOD_HSDP2;
}
static inline bool method_is_zero(enum method m)
{
    return m == METHOD_ZERO0 || m == METHOD_ZERO1 || m == METHOD_ZERO2 || m == METHOD_ZERO3;
}
/* Parameters stay whole: stages 0 to 2. */
static inline bool method_is_zero_whole(enum method m)
{
    return method_is_zero(m) && m != METHOD_ZERO3;
}
/* Each GPU computes with the whole model, in its own tensors. */
static inline bool method_keeps_whole(enum method m)
{
    return m == METHOD_SINGLE || m == METHOD_DDP || method_is_zero_whole(m);
}
static inline bool method_is_fsdp1(enum method m)
{
    return m == METHOD_FSDP || m == METHOD_FSDP_GRAD_OP || m == METHOD_FSDP_NO_SHARD || m == METHOD_HSDP;
}
/* no_sync() leaves the gradients of sharded parameters whole until the last micro-batch: FSDP1 and fully_shard. DeepSpeed's engine partitions each. */
static inline bool method_holds_whole_gradients(enum method m)
{
    return m == METHOD_FSDP || m == METHOD_FSDP_GRAD_OP || m == METHOD_HSDP || m == METHOD_FSDP2 || m == METHOD_FSDP2_NORESHARD || m == METHOD_HSDP2 ||
           m == METHOD_TP_FSDP2;
}
static inline bool method_is_fsdp2(enum method m)
{
    return m == METHOD_FSDP2 || m == METHOD_FSDP2_NORESHARD || m == METHOD_HSDP2 || m == METHOD_TP_FSDP2;
}

#endif
