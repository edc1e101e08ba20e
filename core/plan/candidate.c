/* One candidate: its recipe, resolved; its micro-batch and its time as models of few layers foretell them. */
#include "base/budget.h"
#include "llmem/llmem.h"
#include "parallel/gap.h"
#include "plan/longest.h"
#include "plan/pace.h"
#include "plan/planning.h"

#include <stdio.h>
#include <string.h>

/* The GPUs that the degrees leave are data-parallel ranks. */
static void take_degrees(const struct plan_question *q, const struct plan_choice *method, struct recipe *r)
{
    uint32_t node = q->gpus_per_node ? q->gpus_per_node : q->gpus;

    r->pipeline_parallel = r->method == METHOD_PP ? (r->pipeline_parallel ? r->pipeline_parallel : q->gpus) : 1;
    if (!method_has_tensor_parallel(r->method))
        r->tensor_parallel = 1;
    else if (q->method_degrees && q->method_degrees[method - q->axes[AXIS_METHOD].choices])
        r->tensor_parallel = q->method_degrees[method - q->axes[AXIS_METHOD].choices];
    else if (r->method == METHOD_LLMEM_TP)
        r->tensor_parallel = q->gpus;
    else if (r->method == METHOD_LLMEM_DPTP)
        r->tensor_parallel = r->tensor_parallel ? r->tensor_parallel : LLMEM_DEFAULT_TENSOR_PARALLEL;
    else if (!r->tensor_parallel)
        r->tensor_parallel = node < q->gpus ? node : q->gpus;
    r->data_parallel = r->method == METHOD_SINGLE ? 1 : q->gpus / (r->tensor_parallel * r->pipeline_parallel);
    if (!method_is_hybrid(r->method))
        r->shard_group = 0;
    else if (!r->shard_group)
        r->shard_group = node < r->data_parallel ? node : r->data_parallel;
    r->hosts = r->method == METHOD_FSDP2 && r->optimizer == OPTIMIZER_MUON && node < r->data_parallel;
}

struct recipe recipe_of(const struct plan_question *q, const struct plan_candidate *c)
{
    struct recipe r = q->recipe;

    r.method = (enum method)c->choice[AXIS_METHOD]->value;
    r.tuning = (enum tuning)c->choice[AXIS_TUNING]->value;
    r.offload = (enum offload)c->choice[AXIS_OFFLOAD]->value;
    r.precision = (enum precision)c->choice[AXIS_PRECISION]->value;
    r.optimizer = (enum optimizer)c->choice[AXIS_OPTIMIZER]->value;
    r.attention = (enum attention)c->choice[AXIS_ATTENTION]->value;
    r.loss = (enum loss)c->choice[AXIS_LOSS]->value;
    r.gradient_checkpointing = (enum tri)c->choice[AXIS_CHECKPOINTING]->value;
    if (c->choice[AXIS_CHECKPOINTING]->value > TRI_TRUE) {
        r.gradient_checkpointing = TRI_TRUE;
        r.checkpoint_kind = (enum checkpoint_kind)c->choice[AXIS_CHECKPOINTING]->value;
    }
    if (r.tuning != TUNING_QLORA)
        r.quantization = KBIT_NONE;
    else if (!r.quantization)
        r.quantization = KBIT_NF4;
    if (c->sync_each_batch)
        r.sync_each_batch = TRI_TRUE;
    take_degrees(q, c->choice[AXIS_METHOD], &r);
    return r;
}

/* --- what cannot be ------------------------------------------------------------------------------------------------------------- */

static enum err_code set_aside(struct planning *p, struct plan_candidate *c, const char *code)
{
    c->modelled = false;
    c->reason = (struct plan_reason){.code = code, .detail = arena_str(p->keep, p->err->detail, strlen(p->err->detail))};
    if (p->err->file[0]) {
        c->reason.file = arena_str(p->keep, p->err->file, strlen(p->err->file));
        c->reason.construct = arena_str(p->keep, p->err->construct, strlen(p->err->construct));
        c->reason.line = p->err->line;
    }
    return c->reason.detail ? ERR_OK : no_room(p);
}

/* Copies of a whole group beside each other. */
static bool leaves_copies(const struct recipe *r)
{
    return r->data_parallel > 1 && (r->method == METHOD_TP || r->method == METHOD_PP);
}

/* A slug, and its sentence in p->err, where these GPUs and degrees do not go together; NULL. */
static const char *layout_gap(struct planning *p, const struct recipe *r)
{
    const struct recipe *asked = &p->q->recipe;
    uint32_t ranks = r->tensor_parallel * r->pipeline_parallel, gpus = p->q->gpus;
    bool stray_tp = asked->tensor_parallel > 1 && !method_has_tensor_parallel(r->method) && !method_is_colossal(r->method); /* llmem_dptp's degree */
    bool stray_pp = asked->pipeline_parallel > 1 && r->method != METHOD_PP;
    const char *name = method_rows[r->method].name, *slug = "indivisible",
               *other = r->method == METHOD_TP ? "; tp+fsdp2 shards across them" : "";

    if (asked->tensor_parallel > gpus || asked->pipeline_parallel > gpus || ranks > gpus)
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training", "these degrees need more than %u GPU%s", gpus, gpus == 1 ? "" : "s"),
            slug = "needs-gpus";
    else if (stray_tp || stray_pp)
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training", "%s has no %s degree: %s+%s would be another method", name,
                      stray_tp ? "tensor-parallel" : "pipeline", stray_tp ? "tp" : "pp", name),
            slug = "not-offered";
    else if (r->method == METHOD_LLMEM_DPTP && (ranks == 1 || ranks == gpus))
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training", "%s needs a tensor-parallel degree between 1 and all of %u GPUs", name, gpus);
    else if (r->method != METHOD_SINGLE && gpus % ranks)
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training", "%u GPUs are not whole groups of %u", gpus, ranks);
    else if (r->shard_group && r->data_parallel % r->shard_group)
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training/shard_group", "%u ranks are not whole shard groups of %u", r->data_parallel,
                      r->shard_group);
    else if (leaves_copies(r))
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training", "%s over %u of %u GPUs leaves copies beside it, which is not modelled%s",
                      name, ranks, gpus, other),
            slug = "not-modelled";
    else
        return NULL;
    return slug;
}

/* A slug where no framework keeps on the host what the method keeps on the GPU; NULL. */
static const char *offload_gap(struct planning *p, const struct recipe *r)
{
    if (r->offload == OFFLOAD_NONE || (method_offloads(r->method, r->offload) && method_plays_offload(r->method, r->offload)))
        return NULL;
    if (method_offloads(r->method, r->offload)) {
        (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training/offload",
                      "offload of activations under %s is not modelled yet: single, ddp, zero1 to zero3, fsdp or fsdp2",
                      method_rows[r->method].name);
        return "not-modelled";
    }
    (void)err_set(p->err, ERR_FIELD_CONFLICT, "/training/offload", "%s has no offload of this kind", method_rows[r->method].name);
    return "not-offered";
}

/* global = micro x accumulation x replicas, for some whole number of what was left out. */
static bool shares_evenly(const struct plan_question *q, const struct step *s)
{
    uint64_t n = q->recipe.micro_batch_size, steps = q->recipe.gradient_accumulation_steps, dp = s->r.data_parallel,
             global = q->global_batch_size;
    uint64_t at_once = dp * (n ? n : 1) * (steps ? steps : 1);

    return !global || (n && steps ? at_once == global : global % at_once == 0);
}

/* --- foreseen ------------------------------------------------------------------------------------------------------------------- */

/* The largest; of an asked micro-batch that is foreseen to fit nobody wants to know. */
static enum err_code foresee_most(struct planning *p, const struct plan_candidate *c, const struct probe *probe, uint32_t asked, uint32_t *ret)
{
    struct foreseen_like *like = &p->like[probe->step->r.gradient_checkpointing == TRI_TRUE];
    bool fits = false;
    enum err_code rc = asked && !p->q->largest ? probe_foresee_fits(probe, asked, &fits) : ERR_OK;

    *ret = asked;
    if (rc || fits)
        return rc;
    if (!rests_above(&c->memory, &c->step.r, probe))
        return probe_foresee_largest(probe, like, ret);
    *like = (struct foreseen_like){0};
    *ret = 0;
    return ERR_OK;
}

/* Its largest micro-batch, the one it is answered with, and its time. */
static enum err_code foresee_all(struct planning *p, struct plan_candidate *c, uint32_t *ret_n)
{
    struct probe probe = probe_on_candidate(p, c);
    uint32_t n = p->q->recipe.micro_batch_size;
    enum err_code rc = foresee_most(p, c, &probe, n, &c->max_micro_batch_size);

    if (!rc)
        rc = n ? pace_foresee(&probe, n, &c->time) : pace_foresee_fastest(&probe, c->max_micro_batch_size, &n, &c->time);
    if (!rc && p->q->objective == OBJECTIVE_LONGEST_SEQUENCE)
        rc = longest_foreseen(&probe, p->q->recipe.micro_batch_size ? n : 1, &c->max_seq_len_tokens);
    *ret_n = n;
    return rc;
}

enum err_code candidate_foretell_asked(struct planning *p, struct plan_candidate *c)
{
    uint32_t n;

    return foresee_all(p, c, &n);
}

static enum err_code foresee(struct planning *p, struct plan_candidate *c)
{
    uint32_t n = c->max_micro_batch_size = p->q->recipe.micro_batch_size;
    enum err_code rc;

    p->measured++;
    rc = budget_status(p->scratch->budget, p->err);
    if (!rc && !p->plays_all)
        rc = foresee_all(p, c, &n);
    if (rc)
        return rc;
    candidate_take(p, c, n);
    c->fits = n <= c->max_micro_batch_size;
    c->launchable = !p->q->launches || p->q->launches(&c->step);
    c->modelled = true;
    return ERR_OK;
}

void candidate_take(struct planning *p, struct plan_candidate *c, uint32_t n)
{
    struct probe probe = probe_on(p, &c->step);

    c->step = probe_step(&probe, n);
    c->global_batch_size = n * c->step.r.gradient_accumulation_steps * c->step.r.data_parallel;
}

/* Colossal-AI cuts inputs of products, whatever heads they make: dist_spec_mgr.py divide(). */
static bool widths_gap(const struct arch *a, uint32_t tp, struct err *err)
{
    if (a->hidden % tp == 0 && a->ffn % tp == 0 && a->embed_dim % tp == 0)
        return false;
    (void)err_set(err, ERR_FIELD_CONFLICT, "/training/tensor_parallel", "%u GPUs do not divide the widths %u, %u and %u", tp, a->hidden, a->ffn, a->embed_dim);
    return true;
}

/* What the degrees do not divide, in a sentence of err. */
static bool gap_of(const struct plan_question *q, const struct recipe *r, struct err *err)
{
    const struct arch *a = q->arch;
    struct parallel_shape s = {q->gpus, r->tensor_parallel, r->pipeline_parallel, a->whole_heads ? 0 : a->heads, a->whole_heads ? 0 : a->kv_heads, a->layers};

    return method_is_colossal(r->method) ? widths_gap(a, r->tensor_parallel, err) : parallel_gap(&s, err) != ERR_OK;
}

/* Until one stands foretelling may take all there is, then its share. */
static enum err_code foresee_within(struct planning *p, struct plan_candidate *c)
{
    struct budget *b = p->scratch->budget;
    uint64_t limit = b ? b->limit_events : 0;
    enum err_code rc;

    if (b && p->answer->any_modelled)
        b->limit_events = p->foretell_until;
    rc = foresee(p, c);
    if (b)
        b->limit_events = limit;
    return rc;
}

/* LoRA without targets is an error only of who asked for LoRA. What contradicts itself in one combination of several is set aside; that
 * all do is found at the end. */
enum err_code candidate_resolve(struct planning *p, struct plan_candidate *c)
{
    struct recipe r = recipe_of(p->q, c);
    struct err *err = p->err;
    const char *gap = layout_gap(p, &r);
    enum err_code rc;

    c->modelled = true; /* until something sets it aside */
    if (!gap)
        gap = offload_gap(p, &r);
    if (gap)
        return set_aside(p, c, gap);
    rc = train_resolve(&r, p->q->arch, &p->q->device, p->keep, &c->step, err);
    if (rc == ERR_NO_TARGETS && !p->q->axes[AXIS_TUNING].asked)
        return set_aside(p, c, err_slug(rc));
    if (rc == ERR_FIELD_CONFLICT) {
        p->conflicts++;
        return set_aside(p, c, "not-offered");
    }
    if (rc)
        return rc;
    if (gap_of(p->q, &r, err))
        return set_aside(p, c, "indivisible");
    if (!shares_evenly(p->q, &c->step)) {
        (void)err_set(err, ERR_FIELD_CONFLICT, "/training/global_batch_size",
                      "%u sequences cannot be shared by %u replicas in whole micro-batches", p->q->global_batch_size,
                      c->step.r.data_parallel);
        return set_aside(p, c, "batch-conflict");
    }
    return ERR_OK;
}

enum err_code candidate_foresee(struct planning *p, struct plan_candidate *c)
{
    c->modelled = false;
    return candidate_stands(p, c, foresee_within(p, c));
}

/* Behind why a candidate was cut short: layers that loop over a sequence may have been asked without being meant. */
static void tell_loops(struct planning *p)
{
    const struct arch *a = p->q->arch;
    size_t n = strlen(p->err->detail);

    if (a && a->turn_tokens && a->loop_package && n < sizeof p->err->detail)
        (void)snprintf(p->err->detail + n, sizeof p->err->detail - n, "; without %s layers loop over the sequence: name stack.%s where it is installed",
                       a->loop_package, a->loop_package);
}

/* The work that one question may cause ended here or before. */
static enum err_code cut_off(struct planning *p, struct plan_candidate *c)
{
    (void)err_set(p->err, ERR_BUDGET, "", "the %llu events of work that one question is granted do not reach as far as this candidate",
                  (unsigned long long)p->work_events);
    tell_loops(p);
    p->answer->n_cut++;
    arena_rewind(p->scratch, p->begin);
    return set_aside(p, c, "budget");
}

enum err_code candidate_tried(struct planning *p, enum err_code rc)
{
    arena_rewind(p->scratch, p->begin);
    p->scratch->full = false;
    if (rc == ERR_CANCELLED || (rc == ERR_NOMEM && p->keep->full))
        return rc;
    p->answer->n_untried += rc == ERR_NOMEM || rc == ERR_BUDGET;
    return ERR_OK;
}

enum err_code candidate_stands(struct planning *p, struct plan_candidate *c, enum err_code rc)
{
    if (rc == ERR_FIELD_CONFLICT || rc == ERR_ARCH_UNKNOWN) /* measure.h: an option or a family that the model cannot run */
        return set_aside(p, c, "not-modelled");
    if (rc == ERR_LEAVES_LANGUAGE || rc == ERR_SCRIPT_RAISED) /* another option may take another way through the same files */
        return set_aside(p, c, err_slug(rc));
    if (rc == ERR_TENSOR_SIZE) {
        p->answer->any_beyond = true;
        return set_aside(p, c, "does-not-fit");
    }
    if (rc == ERR_BUDGET)
        return cut_off(p, c);
    if (rc != ERR_NOMEM)
        return rc;
    arena_rewind(p->scratch, p->begin);
    p->scratch->full = false; /* for the next one */
    p->answer->n_outgrown++;
    (void)err_set(p->err, rc, "", "a run of %s over %u GPU%s does not fit into the working memory that a question has",
                  method_rows[c->step.r.method].name, p->q->gpus, p->q->gpus == 1 ? "" : "s");
    tell_loops(p);
    return set_aside(p, c, "budget");
}
