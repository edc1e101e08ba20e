/* pipeline_chunk.c - one micro-batch on one stage: received, run, sent, and back. */
#include "models/loss.h"
#include "models/program.h"
#include "torch/autograd.h"
#include "train/pipeline.h"

void chunk_bind(struct run *r, val *list, val v) /* takes `v` */
{
    val old = *list;

    *list = v;
    value_unref(r, old);
}

/* The residual stream between layers: the dtype of the embedding's weights, but where the config keeps it in fp32 or autocast has made it so. */
val chunk_receive(struct schedule *s)
{
    const struct recipe *q = &s->t->step->r;
    const struct model *m = &s->t->model;
    int64_t size[3] = {q->micro_batch_size, q->seq_len_tokens, m->arch->hidden};
    val v = owned(s->r, value_empty(s->r, OP_EMPTY, program_wire(m, s->t->autocast), 3, size));

    mark_block(s->r, v, MARK_COMMUNICATION);
    return v;
}

/* get_fwd_recv_ops: the name is bound anew when the buffer stands. */
void chunk_receive_forward(struct schedule *s, uint32_t i)
{
    val v = s->first ? 0 : chunk_receive(s);

    chunk_bind(s->r, &s->forward_receive, chunk_again(s->r, v));
    s->chunks[i].received = v;
}

static val rows_of(struct schedule *s, val whole, uint32_t i)
{
    int64_t b = s->t->step->r.micro_batch_size;

    return slice(s->r, whole, 0, i * b, (i + 1) * b);
}

/* GradientEdge: backward starts at the node, and the tensor may go. */
static val edge_of(struct run *r, val out)
{
    const struct value *x = &r->values[out];
    val e = out && x->node ? value_new(r, (enum dtype)x->dtype, x->ndim, x->size) : 0;

    if (!e)
        return 0;
    r->values[e].floating = false;
    r->values[e].node = r->values[out].node;
    r->values[e].output_nr = r->values[out].output_nr;
    r->values[e].requires_grad = true;
    node_ref(r, r->values[e].node);
    return e;
}

/* _compute_loss: ForCausalLMLoss over the labels of this micro-batch; the caller still names the output. */
void chunk_loss(struct schedule *s, uint32_t i, val output)
{
    struct run *r = s->r;

    val labels;

    if (!s->last)
        return;
    r->stage = STAGE_LOSS;
    labels = owned(r, rows_of(s, s->target, i));
    s->chunks[i].loss = owned(r, causal_lm_loss(r, output, labels, false));
    value_unref(r, labels);
}

/* forward_one_chunk; the output is the caller's `output`, owned */
val chunk_forward(struct schedule *s, uint32_t i)
{
    struct run *r = s->r;
    struct chunk *c = &s->chunks[i];
    val out;

    r->stage = STAGE_FORWARD;
    c->input = s->first ? owned(r, rows_of(s, s->ids, i)) : c->received;
    c->received = 0;
    if (!s->first)
        require_grad(r, c->input);
    out = owned(r, program_stage(r, &s->t->model, c->input));
    c->output = chunk_again(r, out);
    c->edge = s->last ? 0 : edge_of(r, out);
    if (s->outputs)
        s->outputs[i] = chunk_again(r, out);
    return out;
}

/* get_fwd_send_ops */
void chunk_list_send(struct schedule *s, uint32_t i)
{
    chunk_bind(s->r, &s->forward_send, s->last ? 0 : chunk_again(s->r, s->chunks[i].output));
}

/* _wait_and_release_fwd_send */
void chunk_release_send(struct schedule *s, uint32_t i)
{
    if (s->last)
        return;
    chunk_bind(s->r, &s->forward_send, 0);
    chunk_bind(s->r, &s->chunks[i].output, 0);
}

/* ------------------------------------------------------------------------------------------------------------ backward */
/* get_bwd_recv_ops */
val chunk_receive_gradient(struct schedule *s)
{
    val v = s->last ? 0 : chunk_receive(s);

    chunk_bind(s->r, &s->backward_receive, chunk_again(s->r, v));
    return v;
}

/* The loss stays to the end of the step. Its graph does too, but holds nothing any more save the leaf it began with, which the chunk keeps,
 * and what reentrant checkpoints call: ctx.run_function has a layer's keywords as long as the node stands. */
static void let_go(struct run *r, val v)
{
    uint32_t node = v ? r->values[v].node : 0;

    if (!v)
        return;
    r->values[v].node = 0;
    r->values[v].requires_grad = false;
    node_unref(r, node);
}

/* stage_backward: from the loss, or from the output with the gradient that came; the input's gradient is taken off it */
static val backward_from(struct schedule *s, struct chunk *c, val gradient)
{
    struct run *r = s->r;
    val root = s->last ? c->loss : c->edge, one = gradient ? chunk_again(r, gradient) : 0, taken = 0, *g;

    if (s->last)
        one = owned(r, value_empty(r, OP_ONES_LIKE, dtype_of(r, root), 0, NULL));
    if (run_dead(r))
        return 0;
    run_graph(r, 1, &root, &one);
    value_unref(r, one);
    g = s->first ? NULL : grad_of(r, c->input);
    if (g) {
        taken = *g;
        *g = 0;
    }
    return taken;
}

/* backward_one_chunk and get_bwd_send_ops; `gradient` is owned, and ends here */
void chunk_backward(struct schedule *s, uint32_t i, val gradient)
{
    struct run *r = s->r;
    struct chunk *c = &s->chunks[i];
    val sent;

    r->stage = STAGE_BACKWARD;
    sent = backward_from(s, c, gradient);
    value_unref(r, gradient);
    chunk_bind(r, &c->edge, 0);
    if (!s->t->model.reentrant || !s->t->model.checkpointing)
        let_go(r, c->loss);
    if (s->last)
        let_go(r, c->output); /* t.detach_() */
    chunk_bind(r, &c->output, 0);
    if (!s->last)
        chunk_bind(r, &c->input, 0);
    mark_block(r, sent, MARK_COMMUNICATION);
    chunk_bind(r, &s->backward_send, sent);
}
