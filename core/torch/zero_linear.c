/*
 * zero_linear.c - LinearFunctionForZeroStage3: what F.linear is after DeepSpeed has replaced it, an autograd.Function that saves the
 * Parameter itself and not a view of it, so that a gathered weight can die before backward. deepspeed runtime/zero/linear.py
 */
#include "torch/autograd.h"
#include "torch/ops.h"

/* forward: under no_grad; then setup_context saves its arguments */
val linear_function(struct run *r, val x, val weight, val bias)
{
    struct frame f = frame_enter(r);
    const val in[3] = {x, weight, bias};
    bool grad_enabled = r->grad_enabled;
    uint32_t node = attach(r, OP_LINEAR_FUNCTION, 3, in);
    val out;

    (void)local(r, x);
    r->grad_enabled = false;
    if (bias && !run_dead(r) && r->values[x].ndim == 2)
        out = addmm(r, bias, x, t_op(r, weight));
    else /* output += bias: in place */
        out = matmul(r, x, t_op(r, weight));
    out = local(r, out);
    r->grad_enabled = grad_enabled;
    for (int i = 0; i < 3; i++)
        save(r, node, in[i]);
    attach_output(r, node, run_dead(r) ? 0 : out, 0);
    return frame_leave(r, f, out);
}

static void put_gradient(struct back *b, int edge, val v)
{
    if (v)
        b->out[edge] = owned(b->r, v);
}

static val rows_of(struct run *r, val v)
{
    return r->values[v].ndim > 2 ? reshape(r, v, SHAPE(-1, size_of(r, v, -1))) : v;
}

/* grad_output.matmul(weight); grad_output.reshape(-1, n).t().matmul(input.reshape(-1, k)); grad_output.sum(..) */
void back_linear_function(struct back *b)
{
    struct run *r = b->r;
    const struct edge *edge = r->nodes[b->node].edge;
    bool wants[3] = {edge[0].node != 0, edge[1].node != 0, edge[2].node != 0};
    val grad = b->grad[0], input = b->saved[0], weight = b->saved[1], bias = b->saved[2];

    if (run_dead(r))
        return;
    if (wants[0])
        put_gradient(b, 0, matmul(r, grad, weight));
    if (wants[1] && !run_dead(r)) {
        val rows = t_op(r, rows_of(r, grad));

        put_gradient(b, 1, matmul(r, rows, rows_of(r, input)));
    }
    if (wants[2] && !run_dead(r))
        put_gradient(b, 2, sum_to(r, grad, bias));
}
