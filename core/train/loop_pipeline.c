/*
 * loop_pipeline.c - torch.distributed.pipelining: Schedule1F1B._step_microbatches of one stage, and the step around it (schedules.py).
 *
 * Messages to the neighbours are not logged: what a stage waits for them is the schedule's, not the stage's (perf).
 */
#include "torch/autograd.h"
#include "train/pipeline.h"

static val copy_of(struct run *r, val v)
{
    return value_empty(r, OP_MM, dtype_of(r, v), r->values[v].ndim, r->values[v].size);
}

/* ------------------------------------------------------------------------------------------------------------- schedules */
static void one_forward(struct schedule *s, uint32_t i)
{
    val output = chunk_forward(s, i);

    chunk_loss(s, i, output);
    value_unref(s->r, output);
}

/* Where only live blocks count. Of more forwards than these those between are not run: each would leave what the second left when the third stood. */
enum { WARM_ALIVE = 4 };

static uint32_t forwards_between(const struct schedule *s)
{
    uint32_t n = s->stages - s->index;

    return s->t->live_blocks_only && s->t->step->r.use_cache != TRI_TRUE && n > WARM_ALIVE ? n - WARM_ALIVE : 0;
}

static void note_second(struct schedule *s, uint32_t i)
{
    if (i == 1) {
        s->second_birth = s->r->n_births;
        s->second_event = s->r->n_events;
    } else if (i == 2) {
        s->third_birth = s->r->n_births;
    } else if (i + 1 == WARM_ALIVE) {
        blocks_again(s->r, s->second_birth, s->second_event, s->third_birth, forwards_between(s), &s->between);
    }
}

/* The first forwards: each output goes when the next one stands; the last one's is left to the first backward. */
static void warm_up(struct schedule *s, uint32_t n)
{
    for (uint32_t i = 0; i < n && !run_dead(s->r); i++) {
        val output;

        note_second(s, i);
        chunk_receive_forward(s, i);
        output = chunk_forward(s, i);
        if (i)
            chunk_release_send(s, i - 1);
        chunk_list_send(s, i);
        chunk_loss(s, i, output);
        value_unref(s->r, output);
    }
}

static void backward_after_send(struct schedule *s, uint32_t i, uint32_t sent)
{
    val gradient = chunk_receive_gradient(s);

    chunk_release_send(s, sent);
    chunk_bind(s->r, &s->backward_receive, 0); /* bwd_recvs.clear() */
    chunk_backward(s, i, gradient);
}

/* Of the micro-batches that repeat the one before birth by birth, what stays: losses with what they keep, and outputs where they are kept. */
static void pass_over(struct schedule *s)
{
    for (uint32_t i = s->n; i < s->total && s->last; i++) {
        s->chunks[i].input = s->first ? 0 : chunk_receive(s);
        s->chunks[i].loss = owned(s->r, value_empty(s->r, OP_NLL_LOSS, DTYPE_FP32, 0, NULL));
        if (s->outputs)
            s->outputs[i] = owned(s->r, copy_of(s->r, s->outputs[0]));
    }
}

/* Schedule1F1B */
static void one_forward_one_backward(struct schedule *s)
{
    uint32_t between = forwards_between(s), forwards = s->stages - s->index - between, backwards = 0;

    s->n -= between;

    warm_up(s, forwards);
    for (;; forwards++) {
        backward_after_send(s, backwards++, forwards - 1);
        if (forwards == s->n || run_dead(s->r))
            break;
        if (forwards + 1 == s->n) /* so that the last finds all that the others leave */
            pass_over(s);
        chunk_receive_forward(s, forwards);
        one_forward(s, forwards);
        chunk_list_send(s, forwards);
    }
    while (backwards < s->n && !run_dead(s->r)) {
        val gradient;

        if (backwards + 1 == WARM_ALIVE)
            blocks_die(s->r, s->between);
        gradient = chunk_receive_gradient(s);

        chunk_backward(s, backwards++, gradient);
    }
}

/* For the log of a step's kernels: what a micro-batch costs does not depend on its turn. */
static void one_by_one(struct schedule *s)
{
    for (uint32_t i = 0; i < s->n && !run_dead(s->r); i++) {
        chunk_receive_forward(s, i);
        one_forward(s, i);
        chunk_list_send(s, i);
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
    chunk_bind(s->r, &s->forward_receive, 0);
    chunk_bind(s->r, &s->forward_send, 0);
    chunk_bind(s->r, &s->backward_receive, 0);
    chunk_bind(s->r, &s->backward_send, 0);
}

/* The list of losses is the caller's, and goes when step() returns. */
static void drop_losses(struct schedule *s)
{
    for (uint32_t i = 0; i < s->total; i++) {
        chunk_bind(s->r, &s->chunks[i].loss, 0);
        chunk_bind(s->r, &s->chunks[i].input, 0);
    }
}

/* clear_runtime_states: the last step's outputs go when this one begins. */
static void forget_outputs(struct schedule *s)
{
    for (uint32_t i = 0; s->outputs && i < s->total; i++)
        chunk_bind(s->r, &s->outputs[i], 0);
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
    if (s->t->costs_alone)
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
 * Once as many wait as ever will, one goes as one comes, and each round lives and dies as the last: one shows what is alive. The caching
 * allocator splits and joins blocks for some rounds more before it repeats itself: as many are played as a tape has room for.
 */
enum { ROUNDS_ALIVE = 1, ROUNDS_WITH_CACHE = 3, ROUNDS_LEAST = 16, ROUNDS_MOST = 64, ROUNDS_OF_LAYERS = 360 };

static uint32_t rounds(const struct trainer *t, const struct recipe *q)
{
    uint32_t n = ROUNDS_OF_LAYERS / (t->model.arch->layers / q->pipeline_parallel + 1);

    if (t->live_blocks_only) /* a cache is bound anew in each, layer by layer */
        return q->use_cache == TRI_TRUE ? ROUNDS_WITH_CACHE : ROUNDS_ALIVE;
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
    struct schedule s = {
        .t = t,
        .r = &t->run,
        .n = pipeline_plays(t, q),
        .total = q->gradient_accumulation_steps,
        .index = q->rank,
        .stages = q->pipeline_parallel,
        .first = !q->rank,
        .last = q->rank + 1 == q->pipeline_parallel,
    };

    if (!make_room(&s, h)) {
        run_fail(s.r, ERR_NOMEM, "", "the working memory of one request is too small for so many micro-batches");
        return;
    }
    s.r->stage = STAGE_BATCH;
    s.ids = batch_of(&s, s.first);
    s.target = batch_of(&s, s.last);
    run_schedule(&s);
    trainer_clip(t, h);
    value_unref(s.r, h->grad_norm);
    h->grad_norm = 0;
    end_step(t);
    value_unref(s.r, s.ids);
    value_unref(s.r, s.target);
}
