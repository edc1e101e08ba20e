/*
 * function.h - torch.autograd.Function: a node whose backward is the caller's.
 *
 * Purpose   forward has run without a graph; what it saves, its results and the function that computes gradients are tied to a node, in the order of
 *           THPFunction_apply: node, forward, saved tensors, results.
 * Owner     the caller keeps `struct function` until release(); the node ends with it.
 * Source    torch/csrc/autograd/python_function.cpp of 2.15: PyNode::apply, process_outputs, _save_variables.
 */
#ifndef TORCH_FUNCTION_H
#define TORCH_FUNCTION_H

#include "torch/run.h"

struct function {
    /* `grad` of each result, zeros where nobody used it; `saved` as saved. ret: of each input, a temporary or a value that lives on; 0: None */
    void (*backward)(struct run *r, void *of, const val *grad, const val *saved, val *ret);
    void (*release)(struct run *r, void *of); /* NULL: nothing is held */
    void *of;
    bool aten;              /* an operator of ATen, written as one: the engine keeps its gradients until what it returned is summed and cast */
    bool boxed;             /* AOTAutograd's: backward owns what it is given, gradients and saved ones alike (runtime_wrappers.py, boxed calls) */
    bool saves_result;      /* nothing but what it returned: in place it saves what it wrote */
    bool bare;              /* set_materialize_grads(False): 0 where nobody used it */
    val shape[MAX_OUTPUTS]; /* function_results(): of results beside others, values without storage */
};

/* The node named `node` ("GeLUFunctionBackward") before forward runs; 0: no gradient is wanted. */
uint32_t function_begin(struct run *r, const char *node, int n, const val *in, struct function *f);
/* When it has run: what it saved, and what it returned (0: None, or what has no gradient); nothing: it failed. */
void function_saves(struct run *r, uint32_t node, val v, bool result);
void function_results(struct run *r, uint32_t node, int n, const val *out);

/* apply() of one input and one result: forward(of, x) runs without a graph. f is the caller's, as its node wants it; saves: x is saved for backward. */
val function_apply(struct run *r, const char *node, struct function *f, val x, bool saves, val (*forward)(struct run *r, void *of, val x));

void function_release(struct run *r, struct function *f); /* used by autograd.c */

#endif
