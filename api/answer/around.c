/* memory.around of the first candidate: what stands around its step. */
#include "api/answer/estimate.h"

#include <string.h>

/* training_args.py: per_device_eval_batch_size 8; a Trainer without compute_metrics keeps the loss alone. */
enum { EVAL_BATCH_SIZE = 8 };

static struct around_question question_of(const struct estimate *e)
{
    const struct training_request *t = &e->rq.training;
    const struct cluster_request *at = &e->rq.cluster;

    return (struct around_question){
        .batch_size = t->eval_batch_size.set ? (uint32_t)t->eval_batch_size.whole : EVAL_BATCH_SIZE,
        .batches = t->eval_batches.set ? (uint32_t)t->eval_batches.whole : 1,
        .accumulation_steps = (uint32_t)t->eval_accumulation_steps.whole,
        .keeps_predictions = t->prediction_loss_only == TRI_FALSE,
        .processes_per_node = at->gpus_per_node.set ? (uint32_t)at->gpus_per_node.whole : 1,
    };
}

static void assume(struct estimate *e, const struct around_question *q)
{
    const struct recipe *r = &e->answer.candidates[0].step.r;

    note_of(&e->assumptions, NOTE_OF_INTERNALS, "memory.around: live blocks of the GPU, evaluation of %u sequences a GPU%s in eval mode%s", q->batch_size,
            e->rq.training.eval_batch_size.set ? "" : " (the Trainer's per_device_eval_batch_size)",
            q->keeps_predictions ? "" : ", the loss alone, as without compute_metrics");
    if (q->keeps_predictions && !e->rq.training.eval_batches.set)
        note(&e->assumptions,
             "prediction_loss_only false: predictions of one evaluation batch are kept; eval_batches says how many there are before "
             "eval_accumulation_steps moves them");
    if (r->method == METHOD_ZERO3)
        note_of(&e->assumptions, NOTE_OF_INTERNALS, "memory.around.saving is with stage3_gather_16bit_weights_on_model_save; without it nothing is gathered");
}

/* The candidate's own figures stand; that these are missing is said. */
static void lack(struct estimate *e, const struct err *why)
{
    if (why->code == ERR_NOMEM)
        note(&e->warnings, "memory.around is not in the answer: it outgrew the memory that one question has");
    else
        note_of(&e->assumptions, NOTE_OF_INTERNALS, "memory.around is not in the answer: %s", why->detail);
}

enum err_code around_take(struct estimate *e, struct arena *scratch)
{
    const struct plan_candidate *c = e->answer.candidates;
    struct around_question q = question_of(e);
    struct budget *budget = scratch->budget;
    unsigned char *mark = scratch->cur;
    enum err_code rc;

    if (!e->answer.n || !c->modelled || !c->fits || e->model.generic)
        return ERR_OK;
    scratch->budget = NULL; /* one run more, however little was left */
    rc = train_around(&e->model.arch, &c->step, &e->question.device, &q, scratch, &e->around, e->call->err);
    scratch->budget = budget;
    arena_rewind(scratch, mark);
    scratch->full = false;
    e->has_around = !rc;
    if (rc) {
        lack(e, e->call->err);
        *e->call->err = (struct err){0};
    } else {
        assume(e, &q);
    }
    return ERR_OK;
}

void around_write(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c)
{
    if (!e->has_around || c != e->answer.candidates)
        return;
    jsonw_object(w, "around");
    jsonw_u64(w, "evaluation", e->around.evaluation_bytes);
    jsonw_u64(w, "saving", e->around.saving_bytes);
    jsonw_u64(w, "resuming", e->around.resuming_bytes);
    if (e->around.loading_host_bytes)
        jsonw_u64(w, "loading_host", e->around.loading_host_bytes);
    jsonw_end(w);
}
