/* loop_plain.c - a loop over torch alone. */
#include "train/loop.h"

/* out = model(**batch); out.loss.backward(). `keep_outputs`: `out` lives through backward, else only its loss. */
static void micro_step(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    bool keeps = t->step->r.keep_outputs == TRI_TRUE;
    struct outputs out;
    val loss;

    r->stage = STAGE_FORWARD;
    if (t->model.task && t->model.task->module) { /* what its text holds dies where its function ends */
        loss = owned(r, task_loss(t, &h->inputs));
        r->stage = STAGE_BACKWARD;
        backward_of(t, loss);
        value_unref(r, loss);
        return;
    }
    out = call_model(t, &h->inputs);
    loss = owned(r, out.loss);
    if (!keeps)
        drop_outputs(t, &out);
    r->stage = STAGE_BACKWARD;
    backward_of(t, loss);
    if (keeps)
        drop_outputs(t, &out);
    value_unref(r, loss);
}

/* A batch moved to the device for each micro-step; clip, step, zero_grad. The names of an iteration are deleted with it. */
void plain_step(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    uint32_t n = t->step->r.gradient_accumulation_steps;

    for (uint32_t i = 0; i < n; i++) {
        r->stage = STAGE_BATCH;
        bind_inputs(t, h, make_batch(t));
        if (repeats(i, n))
            continue;
        sync_gradients(t, i);
        micro_step(t, h);
        end_micro_step(t, i);
    }
    trainer_clip(t, h);
    value_unref(r, h->grad_norm);
    h->grad_norm = 0;
    end_step(t);
    batch_unref(r, &h->inputs);
    h->inputs = (struct batch){0};
}
