#include "torch/function.h"

#include "torch/autograd.h"

#include <string.h>

/* Rows that are named after functions name their nodes on a tape. */
static enum op op_of(const char *node)
{
    for (int i = 1; i < OP_COUNT; i++)
        if (op_rows[i].node[0] == node[0] && !strcmp(op_rows[i].node, node))
            return (enum op)i;
    return OP_FUNCTION;
}

uint32_t function_begin(struct run *r, const char *node, int n, const val *in, struct function *f)
{
    uint32_t i = attach(r, op_of(node), n, in);

    if (i)
        r->nodes[i].function = f;
    for (int k = 0; i && k < n; k++) /* gradients are summed to the shape and cast to the dtype of what they are of */
        meta_of(r, i, k, in[k]);
    return i;
}

void function_saves(struct run *r, uint32_t node, val v, bool result)
{
    if (node && r->nodes[node].n_saved == MAX_SAVED)
        run_fail(r, ERR_LEAVES_LANGUAGE, "", "an autograd.Function saves more tensors than the model of a node holds");
    else if (result)
        save_result(r, node, v);
    else
        save(r, node, v);
}

void function_results(struct run *r, uint32_t node, int n, const val *out)
{
    struct function *f = r->nodes[node].function;

    if (!node || !n || run_dead(r)) { /* forward failed, or a recomputation ended while it saved */
        attach_output(r, node, 0, 0);
        return;
    }
    for (int i = 0; i < n; i++) {
        struct value *x = &r->values[out[i]];

        if (!out[i])
            continue;
        x->made = f->aten ? MADE_PLAIN : x->view ? MADE_BY_FUNCTION : x->made;
        if (n > 1 && !f->bare)
            f->shape[i] = owned(r, value_new(r, (enum dtype)x->dtype, x->ndim, x->size));
        attach_output(r, node, out[i], i);
    }
}

/* materialize_grads: what nobody used gets zeros; which ones, a bit each */
static unsigned materialize(struct back *b, const struct function *f)
{
    unsigned made = 0;

    for (int i = 0; i < b->r->nodes[b->node].n_outputs; i++) {
        const struct value *x = &b->r->values[f->shape[i]];

        if (b->grad[i] || !f->shape[i])
            continue;
        b->grad[i] = owned(b->r, value_empty(b->r, OP_ZEROS, (enum dtype)x->dtype, x->ndim, x->size));
        made |= 1u << i;
    }
    return made;
}

/* ctx.maybe_clear_saved_tensors(), and no gradient is the engine's any more */
static void backward_boxed(struct back *b, const struct function *f)
{
    val grad[MAX_OUTPUTS];

    memcpy(grad, b->grad, sizeof grad);
    memset(b->grad, 0, sizeof b->grad);
    node_gives_saved(b);
    f->backward(b->r, f->of, grad, b->saved, b->out);
}

void back_function(struct back *b)
{
    struct run *r = b->r;
    struct function *f = r->nodes[b->node].function;
    int n = r->nodes[b->node].n_edges;
    unsigned made = materialize(b, f);

    if (f->boxed)
        backward_boxed(b, f);
    else
        f->backward(r, f->of, b->grad, b->saved, b->out);
    for (int i = 0; i < n; i++) {
        val out = b->out[i];

        if (!out)
            continue;
        if (!node_edge(&r->nodes[b->node], i)->node) {
            b->out[i] = 0;
            consume(r, out);
        } else if (r->values[out].floating) {
            r->values[out].floating = false;
        } else {
            value_ref(r, out);
        }
    }
    for (int i = 0; i < MAX_OUTPUTS; i++) { /* where Python took them, they are gone before what is returned is summed or cast */
        if ((f->aten || !r->q->functions_take_gradients) && !(made >> i & 1))
            continue;
        value_unref(r, b->grad[i]);
        b->grad[i] = 0;
    }
}

void function_release(struct run *r, struct function *f)
{
    for (int i = 0; i < MAX_OUTPUTS; i++)
        value_unref(r, f->shape[i]);
    if (f->release)
        f->release(r, f->of);
}

val function_apply(struct run *r, const char *name, struct function *f, val x, bool saves, val (*forward)(struct run *r, void *of, val x))
{
    bool grad_enabled = r->grad_enabled;
    uint32_t node = function_begin(r, name, 1, &x, f);
    val out;

    r->grad_enabled = false;
    out = forward(r, f->of, x);
    r->grad_enabled = grad_enabled;
    if (node && saves)
        function_saves(r, node, x, false);
    if (node)
        function_results(r, node, run_dead(r) ? 0 : 1, &out);
    return out;
}
