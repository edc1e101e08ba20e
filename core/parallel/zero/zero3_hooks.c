/* zero3_hooks.c - parameter_offload.py: hooks of every module; engine.py: the engine's forward and backward. */
#include "parallel/zero/inside3.h"
#include "torch/autograd.h"
#include "torch/ops.h"

/* _run_after_backward_function: the gradient of the module's input has come. */
static void after_backward(struct run *r, void *of)
{
    struct zero3_module *m = of;

    (void)r;
    if (!--m->grads_remaining)
        zero3_release(m->z, m, false);
}

/* register_full_backward_hook: the gradient of the leaf's input has come */
static void whole_is_through(struct run *r, void *of)
{
    struct zero3_module *m = of;

    (void)r;
    zero3_reduce_whole(m->z, m);
}

/* _run_before_backward_function */
static void before_backward(struct run *r, void *of)
{
    struct zero3_module *m = of;

    (void)r;
    zero3_trace_module(m->z, m->number);
    zero3_fetch(m->z, m, false);
}

/* _pre_forward_module_hook, then _post_backward_module_hook on the argument */
static val pre(struct run *r, struct module *module, void *of, val x)
{
    struct zero3_module *m = of;

    if (module == m->z->root && r->q->zero3_resets_before_forward)
        zero3_trace_reset(m->z);
    for (uint32_t i = 0; i < m->z->n_wrappers && module == m->z->root; i++) {
        zero3_trace_module(m->z, m->z->n_modules + i);
        zero3_fetch(m->z, &m->z->modules[m->z->n_modules + i], true);
    }
    zero3_trace_module(m->z, m->number);
    zero3_fetch(m->z, m, true);
    m->grads_remaining = wants_grad(r, x);
    x = hook_backward(r, x, after_backward, m);
    return m->whole ? hook_backward(r, x, whole_is_through, m) : x;
}

/* _post_forward_module_hook, then _pre_backward_module_hook on the result */
static val post(struct run *r, struct module *module, void *of, val result)
{
    struct zero3_module *m = of;

    if (module == m->z->embeddings && m->z->o->inputs_want_grad && result) /* an older hook */
        require_grad(r, result);
    zero3_release(m->z, m, true);
    return result ? hook_backward(r, result, before_backward, m) : 0;
}

/* By the forward of another module, which runs: peft's layer (lora_A's dtype), a mixer (its convolution), the model (its head, for a fused loss). */
static void read(struct run *r, struct module *module, void *of)
{
    struct zero3_module *m = of;

    (void)module;
    if (!r->in_backward)
        zero3_read(m->z, m, &m->z->modules[r->module ? r->module : m->z->root->number]);
}

/* _register_deepspeed_module: every module that is not below a leaf */
void zero3_hook(struct zero3 *z, struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++)
        if (module_is_below(t->modules[i], t->root) && (!z->modules[i].whole || z->modules[i].whole == t->modules[i]))
            module_hook(t, &t->modules[i]->hooks, (struct module_hook){pre, post, &z->modules[i], NULL, read});
}

/* The root's outputs are no single value to its frame: its hook sees them here. */
void zero3_post_forward(void *of, uint32_t n, val *outputs)
{
    struct zero3 *z = of;
    struct run *r = z->r;

    for (uint32_t i = 0; i < n && (i < 2 || !r->q->cache_in_tuple); i++)
        if (outputs[i]) {
            r->values[outputs[i]].floating = true;
            outputs[i] = hook_backward(r, outputs[i], before_backward, &z->modules[z->root->number]);
            for (uint32_t k = z->n_wrappers; k-- > 0;)
                outputs[i] = hook_backward(r, outputs[i], before_backward, &z->modules[z->n_modules + k]);
            (void)owned(r, outputs[i]);
        }
}

static void nothing(void *of)
{
    (void)of;
}

/* What follows the graph: 0.14 starts the trace anew here, 0.19 lets go of what no hook released. */
static void epilogue(void *of)
{
    struct zero3 *z = of;

    if (!z->r->q->zero3_resets_before_forward)
        zero3_trace_reset(z);
    zero3_reduce_rest(z);
    if (z->r->q->zero3_owns_recomputed)
        zero3_release_leftovers(z);
}

void zero3_backward(void *of, val loss)
{
    struct zero3 *z = of;

    zero_backward(&z->engine, loss, &(struct zero_stage){.prologue = nothing, .epilogue = epilogue, .of = z});
}
