/* The lower end of what is only known as a range: what any graph of a compiler has to keep. */
#include "plan/planning.h"

/*
 * torch/_functorch/partitioners.py min_cut_rematerialization_partition (2.4 to 2.15): what is cheap is made again in backward from whatever is smallest.
 * Products and attention are not cheap: of a layer their results are kept, where something that backward wants reads them, and its input. Logits stand once,
 * their gradient written over them (losses.py logits_once). What is fused away in forward and backward nobody knows: their own peaks do not count.
 */
struct least {
    bool layers, logits; /* which of them are let go of; otherwise they are eager's, and do not count */
};

/* Where products are the layers' own, and not another package's function around them. */
static bool tells_products(const struct recipe *r)
{
    return !r->quantization && (method_keeps_whole(r->method) || method_is_fsdp1(r->method) || (method_is_fsdp2(r->method) && r->method != METHOD_TP_FSDP2));
}

/* What a checkpoint keeps by its own word is kept; without one the graph chooses. */
static void take_checkpoints(struct recipe *r)
{
    bool asked = r->gradient_checkpointing == TRI_TRUE;

    if (!asked)
        r->checkpoint_reentrant = TRI_FALSE;
    r->gradient_checkpointing = TRI_TRUE;
    if (!asked)
        r->checkpoint_kind = tells_products(r) ? CHECKPOINT_LEAST_PRODUCTS : CHECKPOINT_WHOLE;
    else if (r->checkpoint_kind == CHECKPOINT_SELECTIVE && !r->float8) /* whose products are not on the list */
        r->checkpoint_kind = CHECKPOINT_LEAST_SELECTIVE;
    else
        r->checkpoint_kind = CHECKPOINT_WHOLE;
}

/* Not compiled: a kernel of a package. */
static bool loss_counts(const struct least *l, enum loss loss)
{
    return l->logits || loss == LOSS_LIGER || loss == LOSS_CUT_CROSS_ENTROPY;
}

static void take_least(const struct measured *m, bool with_loss, uint64_t *ret)
{
    uint64_t least = m->static_bytes > m->resting_bytes ? m->static_bytes : m->resting_bytes;

    for (int i = with_loss ? PHASE_LOSS : PHASE_CLIP; i <= PHASE_BETWEEN; i++)
        if (i != PHASE_BACKWARD && m->phase_peaks_bytes[i] > least)
            least = m->phase_peaks_bytes[i];
    *ret = least;
}

static enum err_code walk_least(struct planning *p, const struct plan_candidate *c, const struct least *l, uint64_t *ret)
{
    struct step step = c->step;
    struct probe probe = probe_on(p, &step);
    struct measured m = {0};
    enum err_code rc;

    step.r.compile = false;
    step.r.least = true;
    if (l->layers)
        take_checkpoints(&step.r);
    if (l->logits)
        step.r.loss = LOSS_LOGITS_ONCE;
    rc = probe_fold(&probe, step.r.micro_batch_size, true, &m);
    if (!rc)
        take_least(&m, loss_counts(l, step.r.loss), ret);
    return rc;
}

/* Float8 layers alone keep what others keep (torchao 0.18.0 float8_linear.py saves input and weight as they came): their casts come on top. */
static bool adds_casts_alone(const struct step *s)
{
    return !s->r.compile && !s->autocast && s->r.checkpoint_kind != CHECKPOINT_SELECTIVE;
}

static enum err_code walk_without_casts(struct planning *p, const struct plan_candidate *c, uint64_t *ret)
{
    struct step step = c->step;
    struct probe probe = probe_on(p, &step);
    struct measured m = {0};
    enum err_code rc;

    step.r.float8 = FLOAT8_NONE;
    rc = probe_fold(&probe, step.r.micro_batch_size, true, &m);
    *ret = m.walk_peak_bytes;
    return rc;
}

enum err_code widen_to_least(struct planning *p, struct plan_candidate *c)
{
    bool layers = !p->q->arch->never_checkpoints, logits = c->step.r.loss == LOSS_HF && c->step.r.stage == TASK_SFT;
    const struct least ways[] = {{layers, logits}, {layers, false}, {false, false}};
    uint64_t least = 0;
    enum err_code rc = ERR_FIELD_CONFLICT;

    if (adds_casts_alone(&c->step))
        rc = walk_without_casts(p, c, &least);
    for (unsigned i = 0; rc && i < sizeof ways / sizeof *ways; i++) {
        rc = walk_least(p, c, &ways[i], &least);
        if (rc && rc != ERR_FIELD_CONFLICT && rc != ERR_SCRIPT_RAISED && rc != ERR_LEAVES_LANGUAGE && rc != ERR_ARCH_UNKNOWN)
            return rc;
    }
    if (!rc && least < c->low_bytes)
        c->low_bytes = least;
    return ERR_OK;
}
