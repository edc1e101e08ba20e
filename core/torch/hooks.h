/*
 * hooks.h - what PyTorch lets a wrapper hang on a run: gradients that have come, modules that are called, the end of a backward.
 *
 * Purpose   distributed methods are hooks: they gather parameters before a module runs, release them after, reduce gradients when they have come.
 *           Nobody here knows which method it serves.
 * Order     as PyTorch runs them: a tensor's hooks when its gradient is complete, before the node that made it; a node's own hook when it runs;
 *           a callback at the end of the backward during which it was queued.
 * Source    torch/csrc/autograd/engine.cpp (call_tensor_pre_hooks, queue_callback, GraphTask::exec_post_processing), torch/nn/modules/module.py
 *           _call_impl.
 * Owner     the run; `of` is the caller's and outlives it.
 */
#ifndef TORCH_HOOKS_H
#define TORCH_HOOKS_H

#include "torch/run.h"

struct hook {
    void (*run)(struct run *r, void *of);
    void *of;
    struct hook *next;
};
typedef void (*hook_function)(struct run *r, void *of);

/* Tensor.register_hook(): in the order of registration. Nothing where `v` wants no gradient. */
void hook_gradient(struct run *r, val v, hook_function f, void *of);

/* An autograd.Function that returns its argument: a tensor of its own over the same storage. `f` runs when its node does, before it hands the gradient on;
 * where `v` wants no gradient or none are made, `v` itself comes back. */
val hook_backward(struct run *r, val v, hook_function f, void *of);

/* Variable._execution_engine.queue_callback() */
void hook_backward_end(struct run *r, hook_function f, void *of);

/* ---- modules: forward pre-hooks and forward hooks, in the order in which they were added. They run where __call__ does: outside of a checkpoint of
 * forward alone (transformers 5), inside one of the whole call. */
struct module_hook {
    /* `x`: the first argument, 0 where it is no float tensor; returns it, or a temporary that takes its place. NULL: none */
    val (*pre)(struct run *r, struct module *m, void *of, val x);
    val (*post)(struct run *r, struct module *m, void *of, val result);
    void *of;
    struct module_hook *next;
    void (*read)(struct run *r, struct module *m, void *of); /* its parameters are looked at and it is not called: module_read(). NULL: none */
};

/* Used by autograd.c and run.c. */
void hooks_run(struct run *r, struct hook *list);
void hooks_release(struct run *r, struct hook *list);
struct hook *backward_begins(struct run *r);                /* returns what backward_ends() takes */
void backward_ends(struct run *r, struct hook *outer);
val module_returns(struct run *r, struct module *m, val result);

#endif
