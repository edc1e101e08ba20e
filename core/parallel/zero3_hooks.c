/* zero3_hooks.c - parameter_offload.py: hooks of every module; engine.py: the engine's forward and backward. */
#include "parallel/zero3.h"
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
    zero3_trace_module(m->z, m->number);
    zero3_fetch(m->z, m, true);
    m->grads_remaining = wants_grad(r, x);
    return hook_backward(r, x, after_backward, m);
}

/* _post_forward_module_hook, then _pre_backward_module_hook on the result */
static val post(struct run *r, struct module *module, void *of, val result)
{
    struct zero3_module *m = of;

    (void)module;
    zero3_release(m->z, m, true);
    return result ? hook_backward(r, result, before_backward, m) : 0;
}

/* _register_deepspeed_module: every module */
void zero3_hook(struct zero3 *z, struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++)
        module_hook(t, &t->modules[i]->hooks, (struct module_hook){pre, post, &z->modules[i], NULL});
}

/* The root's outputs are no single value to its frame: its hook sees them here. */
void zero3_post_forward(void *of, uint32_t n, val *outputs)
{
    struct zero3 *z = of;
    struct run *r = z->r;

    for (uint32_t i = 0; i < n && i < 2; i++)
        if (outputs[i]) {
            r->values[outputs[i]].floating = true;
            outputs[i] = owned(r, hook_backward(r, outputs[i], before_backward, &z->modules[z->root->number]));
        }
}

static val by_number(struct run *r, val loss, val (*f)(struct run *, val))
{
    return owned(r, f(r, loss));
}

static void run_backward(struct run *r, val loss)
{
    val one = owned(r, value_empty(r, OP_ONES_LIKE, dtype_of(r, loss), 0, NULL));

    run_graph(r, 1, &loss, &one);
    value_unref(r, one);
}

/* engine.backward: the loss is divided by the accumulation steps, then scaled; 0.14 keeps a mean of it until the step. */
static val keep_mean(struct zero3 *z, val loss)
{
    struct run *r = z->r;
    val mean = owned(r, value_empty(r, OP_MEAN, dtype_of(r, loss), 0, NULL)), sum = mean;

    if (z->losses) {
        sum = owned(r, value_empty(r, OP_ADD, dtype_of(r, loss), 0, NULL));
        value_unref(r, mean);
    }
    value_unref(r, z->losses);
    return sum;
}

void zero3_backward(void *of, val loss)
{
    struct zero3 *z = of;
    struct run *r = z->r;
    bool divides = r->q->zero_always_divides_loss || z->o->gradient_accumulation_steps > 1;
    val part = 0, scaled;

    if (run_dead(r))
        return;
    if (divides)
        part = by_number(r, loss, div_scalar);
    if (!r->q->zero_always_divides_loss)
        z->losses = keep_mean(z, part ? part : loss);
    scaled = by_number(r, part ? part : loss, mul_scalar);
    run_backward(r, scaled);
    if (!r->q->zero3_resets_before_forward) {
        value_unref(r, scaled);
        scaled = 0;
        zero3_trace_reset(z);
    }
    zero3_reduce_rest(z);
    if (r->q->zero3_owns_recomputed)
        zero3_release_leftovers(z);
    value_unref(r, scaled);
    value_unref(r, part);
}
