/*
 * loop_pipeline.c - torch.distributed.pipelining: Schedule1F1B._step_microbatches and ScheduleGPipe's, one stage, as torch 2.15 has them
 * (schedules.py, stage.py).
 *
 * Messages to the neighbours are not logged: what a stage waits for them is the schedule's, not the stage's (perf).
 * A list of send or receive operations is a Python name that holds its tensor until it is bound anew or cleared: that decides which buffers overlap.
 */
#include "models/blocks.h"
#include "models/stage.h"
#include "torch/autograd.h"
#include "train/loop.h"

/* Of one micro-batch, what the stage keeps until its backward. All owned. */
struct chunk {
    val input;    /* ids, or what was received: until backward; on the last stage the loss's graph ends in it and keeps it with itself */
    val received; /* the receive operation's buffer, until forward takes it */
    val output;   /* until it is sent; on the last stage until backward */
    val edge;     /* its grad_fn alone */
    val loss;     /* to the end of the step: _internal_losses */
};

struct schedule {
    struct trainer *t;
    struct run *r;
    uint32_t n, total; /* micro-batches that are played; that there are */
    uint32_t index, stages;
    bool first, last;
    struct chunk *chunks;
    val *outputs;                                         /* save_forward_output of the last stage; NULL: nobody asks */
    val ids, target;                                      /* of the whole step */
    val forward_receive, forward_send, backward_receive, backward_send; /* lists of operations */
};

static void bind_list(struct run *r, val *list, val v) /* takes `v` */
{
    val old = *list;

    *list = v;
    value_unref(r, old);
}

static val again(struct run *r, val v)
{
    value_ref(r, v);
    return v;
}

/* The residual stream between layers: the dtype of the embedding's weights. */
static val receive(struct schedule *s)
{
    const struct recipe *q = &s->t->step->r;
    const struct model *m = &s->t->model;
    int64_t size[3] = {q->micro_batch_size, q->seq_len_tokens, m->arch->hidden};
    val v = owned(s->r, value_empty(s->r, OP_EMPTY, m->tree.dtype, 3, size));

    mark_block(s->r, v, MARK_COMMUNICATION);
    return v;
}

/* get_fwd_recv_ops: the name is bound anew when the buffer stands. */
static void receive_forward(struct schedule *s, uint32_t i)
{
    val v = s->first ? 0 : receive(s);

    bind_list(s->r, &s->forward_receive, again(s->r, v));
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
static void compute_loss(struct schedule *s, uint32_t i, val output)
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
static val forward(struct schedule *s, uint32_t i)
{
    struct run *r = s->r;
    struct chunk *c = &s->chunks[i];
    val out;

    r->stage = STAGE_FORWARD;
    c->input = s->first ? owned(r, rows_of(s, s->ids, i)) : c->received;
    c->received = 0;
    if (!s->first)
        require_grad(r, c->input);
    out = owned(r, stage_program(s->t->model.arch->family)->forward(r, &s->t->model, c->input));
    c->output = again(r, out);
    c->edge = s->last ? 0 : edge_of(r, out);
    if (s->outputs)
        s->outputs[i] = again(r, out);
    return out;
}

/* get_fwd_send_ops */
static void list_send(struct schedule *s, uint32_t i)
{
    bind_list(s->r, &s->forward_send, s->last ? 0 : again(s->r, s->chunks[i].output));
}

/* _wait_and_release_fwd_send */
static void release_send(struct schedule *s, uint32_t i)
{
    if (s->last)
        return;
    bind_list(s->r, &s->forward_send, 0);
    bind_list(s->r, &s->chunks[i].output, 0);
}

/* ------------------------------------------------------------------------------------------------------------ backward */
/* get_bwd_recv_ops */
static val receive_gradient(struct schedule *s)
{
    val v = s->last ? 0 : receive(s);

    bind_list(s->r, &s->backward_receive, again(s->r, v));
    return v;
}

/* The loss stays to the end of the step. Its graph does too, but holds nothing any more save the leaf it began with, which the chunk keeps. */
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
    val root = s->last ? c->loss : c->edge, one = gradient ? again(r, gradient) : 0, taken = 0, *g;

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
static void backward(struct schedule *s, uint32_t i, val gradient)
{
    struct run *r = s->r;
    struct chunk *c = &s->chunks[i];
    val sent;

    r->stage = STAGE_BACKWARD;
    sent = backward_from(s, c, gradient);
    value_unref(r, gradient);
    bind_list(r, &c->edge, 0);
    let_go(r, c->loss);
    if (s->last)
        let_go(r, c->output); /* t.detach_() */
    bind_list(r, &c->output, 0);
    if (!s->last)
        bind_list(r, &c->input, 0);
    mark_block(r, sent, MARK_COMMUNICATION);
    bind_list(r, &s->backward_send, sent);
}

static val copy_of(struct run *r, val v)
{
    return value_empty(r, OP_MM, dtype_of(r, v), r->values[v].ndim, r->values[v].size);
}

/* ------------------------------------------------------------------------------------------------------------- schedules */
static void one_forward(struct schedule *s, uint32_t i)
{
    val output = forward(s, i);

    compute_loss(s, i, output);
    value_unref(s->r, output);
}

/* The first forwards: each output goes when the next one stands; the last one's is left to the first backward. */
static void warm_up(struct schedule *s, uint32_t n)
{
    for (uint32_t i = 0; i < n && !run_dead(s->r); i++) {
        val output;

        receive_forward(s, i);
        output = forward(s, i);
        if (i)
            release_send(s, i - 1);
        list_send(s, i);
        compute_loss(s, i, output);
        value_unref(s->r, output);
    }
}

static void backward_after_send(struct schedule *s, uint32_t i, uint32_t sent)
{
    val gradient = receive_gradient(s);

    release_send(s, sent);
    bind_list(s->r, &s->backward_receive, 0); /* bwd_recvs.clear() */
    backward(s, i, gradient);
}

/* Of the micro-batches that repeat the one before birth by birth, what stays: losses with what they keep, and outputs where they are kept. */
static void pass_over(struct schedule *s)
{
    for (uint32_t i = s->n; i < s->total && s->last; i++) {
        s->chunks[i].input = s->first ? 0 : receive(s);
        s->chunks[i].loss = owned(s->r, value_empty(s->r, OP_NLL_LOSS, DTYPE_FP32, 0, NULL));
        if (s->outputs)
            s->outputs[i] = owned(s->r, copy_of(s->r, s->outputs[0]));
    }
}

/* Schedule1F1B */
static void one_forward_one_backward(struct schedule *s)
{
    uint32_t forwards = s->stages - s->index, backwards = 0;

    warm_up(s, forwards);
    for (;; forwards++) {
        backward_after_send(s, backwards++, forwards - 1);
        if (forwards == s->n || run_dead(s->r))
            break;
        if (forwards + 1 == s->n) /* so that the last finds all that the others leave */
            pass_over(s);
        receive_forward(s, forwards);
        one_forward(s, forwards);
        list_send(s, forwards);
    }
    while (backwards < s->n && !run_dead(s->r)) {
        val gradient = receive_gradient(s);

        backward(s, backwards++, gradient);
    }
}

/* For the log of a step's kernels: what a micro-batch costs does not depend on its turn. */
static void one_by_one(struct schedule *s)
{
    for (uint32_t i = 0; i < s->n && !run_dead(s->r); i++) {
        receive_forward(s, i);
        one_forward(s, i);
        list_send(s, i);
        backward_after_send(s, i, i);
    }
}

/* --------------------------------------------------------------------------------------------------------------- a step */
static val batch_of(struct schedule *s, bool has)
{
    const struct recipe *q = &s->t->step->r;

    return has ? owned(s->r, empty(s->r, DTYPE_INT64, SHAPE((int64_t)q->micro_batch_size * s->total, q->seq_len_tokens))) : 0;
}

/* What the names of _step_microbatches() hold goes with its frame. */
static void drop_lists(struct schedule *s)
{
    bind_list(s->r, &s->forward_receive, 0);
    bind_list(s->r, &s->forward_send, 0);
    bind_list(s->r, &s->backward_receive, 0);
    bind_list(s->r, &s->backward_send, 0);
}

/* The list of losses is the caller's, and goes when step() returns. */
static void drop_losses(struct schedule *s)
{
    for (uint32_t i = 0; i < s->total; i++) {
        bind_list(s->r, &s->chunks[i].loss, 0);
        bind_list(s->r, &s->chunks[i].input, 0);
    }
}

/* clear_runtime_states: the last step's outputs go when this one begins. */
static void forget_outputs(struct schedule *s)
{
    for (uint32_t i = 0; s->outputs && i < s->total; i++)
        bind_list(s->r, &s->outputs[i], 0);
}

/* _merge_outputs: torch.cat; who called keeps nothing of it */
static void merge_outputs(struct schedule *s)
{
    const struct value *x = s->outputs ? &s->r->values[s->outputs[0]] : NULL;

    if (x && !run_dead(s->r))
        consume(s->r, value_empty(s->r, OP_CAT, (enum dtype)x->dtype, SHAPE(x->size[0] * s->total, x->size[1], x->size[2])));
}

static void run_schedule(struct schedule *s)
{
    if (s->t->autocast)
        autocast_enter(s->r, s->t->autocast_dtype);
    forget_outputs(s);
    if (s->t->log)
        one_by_one(s);
    else
        one_forward_one_backward(s);
    drop_lists(s);
    merge_outputs(s);
    drop_losses(s);
    if (s->t->autocast)
        autocast_leave(s->r);
}

/*
 * Once as many wait as ever will, one goes as one comes, and each round lives and dies as the last: three show what is alive. The caching
 * allocator splits and joins blocks for some rounds more before it repeats itself: as many are played as a tape has room for.
 */
enum { ROUNDS_ALIVE = 3, ROUNDS_LEAST = 16, ROUNDS_MOST = 64, ROUNDS_OF_LAYERS = 360 };

static uint32_t rounds(const struct trainer *t, const struct recipe *q)
{
    uint32_t n = ROUNDS_OF_LAYERS / (t->model.arch->layers / q->pipeline_parallel + 1);

    if (t->live_blocks_only)
        return ROUNDS_ALIVE;
    return n < ROUNDS_LEAST ? ROUNDS_LEAST : n > ROUNDS_MOST ? ROUNDS_MOST : n;
}

uint32_t pipeline_plays(const struct trainer *t, const struct recipe *q)
{
    uint32_t n = q->pipeline_parallel - q->rank + rounds(t, q);

    return n < q->gradient_accumulation_steps ? n : q->gradient_accumulation_steps;
}

static bool make_room(struct schedule *s, struct held *h)
{
    struct arena *a = s->r->arena;
    bool keeps = s->last && s->t->step->r.keep_outputs == TRI_TRUE;

    s->chunks = arena_array(a, struct chunk, s->total);
    if (keeps && !h->outputs)
        h->outputs = arena_array(a, val, s->total);
    s->outputs = h->outputs;
    return s->chunks && (!keeps || h->outputs);
}

/* Schedule.step(), clip_grad_norm_, optimizer.step(), zero_grad(); the batch goes last. Gradients are divided in place. */
void pipeline_step(struct trainer *t, struct held *h)
{
    const struct recipe *q = &t->step->r;
    struct schedule s = {.t = t, .r = &t->run, .n = pipeline_plays(t, q), .total = q->gradient_accumulation_steps, .index = q->rank, .stages = q->pipeline_parallel,
                         .first = !q->rank, .last = q->rank + 1 == q->pipeline_parallel};

    if (!make_room(&s, h)) {
        run_fail(s.r, ERR_NOMEM, "", "the working memory of one request is too small for so many micro-batches");
        return;
    }
    s.r->stage = STAGE_BATCH;
    s.ids = batch_of(&s, s.first);
    s.target = batch_of(&s, s.last);
    run_schedule(&s);
    clip(t, h);
    value_unref(s.r, h->grad_norm);
    h->grad_norm = 0;
    end_step(t);
    value_unref(s.r, s.ids);
    value_unref(s.r, s.target);
}
