/*
 * offload.h - TRL's OffloadActivations: what autograd saves goes to the host in forward and comes back in backward.
 *
 * Purpose   saved_tensors_hooks around a training step. A saved tensor of 1,024 bytes or more that is no parameter is copied to the host on a stream of
 *           its own; the last five saves stay on the device until later ones push them out. In backward it comes back on that stream, and lives until the
 *           next node that brings one back has run. A tensor that begins where one of those five does, or one that was found so
 *           before, stays where it is.
 * Not modelled: pinned host memory as its allocator rounds it; fp8 tensors.
 * Source    trl 1.16.0 models/activation_offloading.py.
 * Units     bytes.
 */
#ifndef TORCH_OFFLOAD_H
#define TORCH_OFFLOAD_H

#include "torch/run.h"

struct offloading;

/*
 * NULL: no room, and the run has failed. `saves`: tensors that are saved at a time, at most. `by_place`: the model stood where it trains when
 * the context was made, and views of parameters are known by their storages; else parameters alone are known, and a weight that a linear saves
 * (a view: .t()) goes to the host like all else.
 */
struct offloading *offload_new(struct run *r, uint32_t saves, bool by_place);

/* with OffloadActivations(): .. of one training step. Beside bitsandbytes, which peft imports, it begins by releasing the cache. */
void offload_enter(struct run *r, struct offloading *o);
void offload_leave(struct run *r);

/* NoOpManager around the head. */
void offload_pause(struct run *r, bool paused);

/* Used by autograd.c and checkpoint.c: whether saves are offloaded now; a handle for one. */
bool offload_packs(const struct run *r);
uint32_t offload_pack(struct run *r, val v);
val offload_unpack(struct run *r, uint32_t handle); /* the caller owns it; 0: it was unpacked before */
void offload_ran(struct run *r);                    /* a node has: its post hooks */

uint64_t offload_host_bytes(const struct offloading *o); /* the most at a time */

#endif
