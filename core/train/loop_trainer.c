/* loop_trainer.c - Trainer._inner_training_loop, training_step and compute_loss: transformers 4.40 and 5.23. */
#include "torch/autograd.h"
#include "torch/offload.h"
#include "train/loop.h"

/* get_batch_samples: sum((labels[..., 1:] != -100).sum() for each batch); a tensor that is kept, or 0 */
static val count_items(struct trainer *t, const struct batch *b, uint32_t n)
{
    struct run *r = &t->run;
    const struct quirks *q = &t->step->quirks;
    val total = 0, count;

    if (!b->labels || (!t->model.counts_items && (!q->items_counted_for_all || t->plain || (t->model.task && t->model.task->module))))
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        val labels = q->items_of_targets && !(t->model.task && !t->model.task->module) ? slice(r, b[i].labels, -1, 1, size_of(r, b[i].labels, 1)) : b[i].labels;
        val sum = sum_all(r, compare(r, OP_NE, labels, 0)), old = total;

        total = owned(r, old ? add(r, old, sum) : add_scalar(r, sum));
        value_unref(r, old);
    }
    if (q->items_read_back) {
        value_unref(r, total);
        return 0;
    }
    if (!q->items_divided)
        return total;
    count = owned(r, pointwise_op(r, OP_DIV, DTYPE_FP32, total, 0));
    value_unref(r, total);
    return count;
}

/* Since 4.46 the batches of a step are all fetched before its first: the last step's live until these stand. */
static void fetch(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    uint32_t n = t->step->r.gradient_accumulation_steps;
    struct batch *fresh = h->batches + n; /* the upper half */
    val items;

    for (uint32_t i = 0; i < n; i++)
        fresh[i] = make_batch(t);
    items = count_items(t, fresh, n);
    value_unref(r, h->items);
    h->items = items;
    for (uint32_t i = 0; i < h->n_batches; i++)
        batch_unref(r, &h->batches[i]);
    for (uint32_t i = 0; i < n; i++)
        h->batches[i] = fresh[i];
    h->n_batches = n;
}

static struct batch next_batch(struct trainer *t, const struct held *h, uint32_t i)
{
    struct batch next;

    if (!t->step->quirks.trainer_counts_items) {
        t->run.stage = STAGE_BATCH;
        return make_batch(t);
    }
    next = h->batches[i];
    batch_ref(&t->run, &next);
    return next;
}

/* The loss by a number: the old value dies when the new one stands, but where the graph keeps it. */
static val scaled(struct run *r, val loss, val (*by)(struct run *, val))
{
    val result = owned(r, by(r, loss));

    value_unref(r, loss);
    return result;
}

/* Trainer.compute_loss: the outputs die when it returns. */
static val compute_loss(struct trainer *t, const struct batch *b)
{
    struct outputs o;
    val loss;

    if (t->model.task && t->model.task->module)
        return owned(&t->run, task_loss(t, b));
    o = call_model(t, b);
    loss = owned(&t->run, o.loss);

    if (t->method && t->step->quirks.loss_over_ranks && b->labels)
        loss = scaled(&t->run, loss, mul_scalar_in_place);
    drop_outputs(t, &o);
    return loss;
}

/* Accelerator.backward divides by its own count of steps, but before an engine, which does so itself. */
static void accelerator_backward(struct trainer *t, val loss)
{
    struct run *r = &t->run;
    val part;

    if (t->method && t->method->backward) {
        backward_of(t, loss);
        return;
    }
    part = owned(r, div_scalar(r, loss));
    backward_of(t, part);
    value_unref(r, part);
}

/* Trainer.training_step, TRL's with its context around; returns what the loop keeps of the loss. */
static val training_step(struct trainer *t, const struct batch *b)
{
    struct run *r = &t->run;
    val loss, kept;

    r->stage = STAGE_FORWARD;
    if (t->offload)
        offload_enter(r, t->offload);
    loss = compute_loss(t, b);
    if (t->step->quirks.trainer_empties_cache)
        empty_cache(r);
    r->stage = STAGE_BACKWARD;
    if (t->step->quirks.trainer_counts_items && !t->model.counts_items)
        loss = scaled(r, loss, div_scalar);
    accelerator_backward(t, loss);
    r->stage = STAGE_BETWEEN;
    kept = t->step->quirks.trainer_counts_items ? owned(r, detach(r, loss)) : owned(r, pointwise_op(r, OP_DIV, DTYPE_FP32, loss, 0));
    value_unref(r, loss);
    offload_leave(r);
    if (t->step->r.stage == TASK_AX_DPO) /* core/trainers/dpo/trainer.py training_step() */
        empty_cache(r);
    return kept;
}

static void begin(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;

    r->stage = STAGE_BATCH;
    if (!h->total)
        h->total = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 0, NULL));
    if (t->step->quirks.trainer_counts_items)
        fetch(t, h);
}

void trainer_left(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;

    begin(t, h);
    for (uint32_t i = 0; i < t->step->r.gradient_accumulation_steps; i++)
        bind_inputs(t, h, next_batch(t, h, i));
    h->loss_step = owned(r, value_empty(r, OP_DIV, DTYPE_FP32, 0, NULL));
    if (trainer_clips(t))
        h->grad_norm = owned(r, value_empty(r, OP_VECTOR_NORM, DTYPE_FP32, 0, NULL));
}

void trainer_step(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    uint32_t n = t->step->r.gradient_accumulation_steps;

    begin(t, h);
    for (uint32_t i = 0; i < n; i++) {
        val kept;

        bind_inputs(t, h, next_batch(t, h, i));
        if (repeats(i, n))
            continue;
        sync_gradients(t, i);
        kept = training_step(t, &h->inputs);
        value_unref(r, h->loss_step);
        h->loss_step = kept;
        end_micro_step(t, i);
    }
    trainer_clip(t, h);
    end_step(t);
}
