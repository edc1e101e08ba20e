/* optim_inside.h - what the optimizers share, and the table of them. Included by core/torch/optim*.c only. */
#ifndef TORCH_OPTIM_INSIDE_H
#define TORCH_OPTIM_INSIDE_H

#include "torch/autograd.h"
#include "torch/optim.h"
#include "torch/work.h"

enum { CHUNK = 65536 }; /* MultiTensorApply.cuh kChunkSize */

/* What an optimizer is, a row each: optim.c. */
struct optim_row {
    void (*init)(struct run *r, struct optim *o, struct optim_state *s, val leaf); /* the states of one parameter; NULL: it has none */
    void (*step)(struct run *r, struct optim *o);                                  /* all groups, as its step() goes */
    bool stands_at_start;                                                          /* states are made by __init__ */
};
extern const struct optim_row optim_rows[OPTIM_KINDS];

static inline bool optim_has_grad(const struct run *r, val leaf)
{
    val *g = grad_of((struct run *)(uintptr_t)r, leaf);

    return g && *g;
}

val optim_like(struct run *r, enum op op, val of);       /* empty_like with preserve_format; owned */
val optim_state_like(struct run *r, enum op op, val of); /* the same, a state */
/* One kernel over the gradients of `leaves` in the log. */
void optim_launch_over(struct run *r, enum op op, unsigned accesses, uint32_t n, const val *leaves);
int optim_dtypes_of(const struct run *r, uint32_t n, const val *leaves, enum dtype ret[DTYPE_COUNT]);

void optim_torch_init(struct run *r, struct optim *o, struct optim_state *s, val leaf);
void optim_torch_step(struct run *r, struct optim *o);
void optim_torch_group(struct run *r, struct optim *o, int g); /* of AdamW alone */
void optim_bnb_init(struct run *r, struct optim *o, struct optim_state *s, val leaf);
void optim_bnb_step(struct run *r, struct optim *o);
void optim_ao_init(struct run *r, struct optim *o, struct optim_state *s, val leaf);
void optim_ao_step(struct run *r, struct optim *o);
void optim_muon_init(struct run *r, struct optim *o, struct optim_state *s, val leaf);
void optim_muon_step(struct run *r, struct optim *o);
void optim_adafactor_init(struct run *r, struct optim *o, struct optim_state *s, val leaf);
void optim_adafactor_step(struct run *r, struct optim *o);

#endif
