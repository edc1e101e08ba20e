/* The answer in one or two sentences. Only what was computed is told. */
#include "api/answer/estimate.h"

#include "parallel/nccl.h"

#include <stdio.h>
#include <string.h>

enum { SUMMARY_MAX = 640 };

/* The name that was asked for; of numbers, what they are. */
const char *gpu_in_words(const struct estimate *e)
{
    return e->rq.cluster.gpu.by_numbers ? "GPU of these numbers" : e->rq.cluster.gpu.name;
}

static uint32_t gpus_of(const struct recipe *r)
{
    return r->data_parallel * r->tensor_parallel * r->pipeline_parallel;
}

/* What is trained, where it is not the next token, and what a batch counts then. */
struct stage_said {
    enum task_id stage;
    const char *with, *pairs;
};

static const struct stage_said *stage_of(const struct plan_candidate *c)
{
    static const struct stage_said rows[] = {{TASK_DPO, "DPO with ", " pairs"}, {TASK_REWARD, "a reward model with ", " pairs"}}, plain = {TASK_SFT, "", ""};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].stage == c->step.r.stage)
            return &rows[i];
    return &plain;
}

/* "LoRA with gradient checkpointing and zero3" */
static void say_way(struct buf *out, const struct plan_candidate *c)
{
    bool checkpointed = c->step.r.gradient_checkpointing == TRI_TRUE, alone = c->step.r.method == METHOD_SINGLE;

    buf_str(out, stage_of(c)->with);
    buf_str(out, tuning_in_words(c->choice[AXIS_TUNING]->name));
    if (!alone) {
        buf_str(out, " with ");
        buf_str(out, c->choice[AXIS_METHOD]->name);
    }
    if (checkpointed)
        buf_str(out, alone ? " with gradient checkpointing" : ", gradient checkpointing");
    if (c->step.r.offload != OFFLOAD_NONE) {
        buf_str(out, ", ");
        buf_str(out, c->choice[AXIS_OFFLOAD]->name);
        buf_str(out, " offloaded");
    }
}

static void say_batch(struct buf *out, const struct plan_candidate *c)
{
    buf_str(out, gpus_of(&c->step.r) > 1 ? ", micro-batch " : ", batch ");
    buf_u64(out, c->step.r.micro_batch_size);
    buf_str(out, stage_of(c)->pairs);
    buf_str(out, " of ");
    say_number(out, c->step.r.seq_len_tokens);
    buf_str(out, " tokens");
}

/* Context and NCCL: what a process holds beside its tensors. */
static uint64_t beside(const struct estimate *e, const struct plan_candidate *c)
{
    const struct recipe *r = &c->step.r;

    return e->question.device.context_bytes + nccl_bytes_of(r->data_parallel, r->tensor_parallel, r->pipeline_parallel);
}

/* What nvidia-smi would show, or as near as the basis tells. */
static uint64_t taken(const struct estimate *e, const struct plan_candidate *c)
{
    return c->basis == BASIS_REPLAYED ? c->device_bytes : c->high_bytes + beside(e, c);
}

/* The least that a loser would have to get: its live blocks, where they alone are too many; what the allocator holds of them could be less. */
static uint64_t needed(const struct estimate *e, const struct plan_candidate *c)
{
    bool expandable = c->basis == BASIS_REPLAYED && e->question.expandable_segments;
    uint64_t live = beside(e, c) + (expandable ? c->memory.peak_allocated_expandable_bytes : c->memory.peak_allocated_bytes);

    return live > e->question.capacity_bytes ? live : taken(e, c);
}

static void say_memory(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    bool all = !e->rq.cluster.free_memory_bytes.set, several = gpus_of(&c->step.r) > 1;

    if (recipe_is_a_range(&c->step.r)) {
        say_gib(out, (double)(c->low_bytes + beside(e, c)));
        buf_str(out, " to ");
    }
    say_gib(out, (double)taken(e, c));
    buf_str(out, all ? " of " : " of the ");
    say_gib(out, (double)e->question.capacity_bytes);
    buf_str(out, all ? " GiB on " : " GiB free on ");
    buf_str(out, several ? "each of " : "");
    say_gpus(out, gpus_of(&c->step.r), gpu_in_words(e));
}

static void say_host(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    if (!c->host_bytes_per_node)
        return;
    buf_str(out, ", ");
    say_gib(out, (double)c->host_bytes_per_node);
    buf_str(out, e->question.gpus > e->question.gpus_per_node ? " GiB of host memory a node" : " GiB of host memory");
}

/* What was asked for by an objective and is no figure of the batch. */
static void say_longest(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    if (!c->max_seq_len_tokens)
        return;
    buf_str(out, " The longest sequence that fits is ");
    say_number(out, c->max_seq_len_tokens);
    buf_str(out, " tokens");
    buf_str(out, c->step.r.micro_batch_size == 1 || e->rq.training.micro_batch_size.set ? "." : ", one at a time.");
}

static void say_fit(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    buf_str(out, c->tight ? "Fits tightly: " : "Fits: ");
    say_way(out, c);
    say_batch(out, c);
    buf_str(out, ", ");
    say_memory(out, e, c);
    if (c->time.tokens_per_s > 0) {
        buf_str(out, ", ");
        say_number(out, c->time.tokens_per_s);
        buf_str(out, " tokens/s");
    }
    say_host(out, e, c);
    buf_char(out, '.');
    say_longest(out, e, c);
}

/* The loser that needs the least, one that a launcher starts if there is one. */
static const struct plan_candidate *nearest_miss(const struct estimate *e, bool *ret_alone)
{
    const struct plan_candidate *best = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->answer.n; i++) {
        const struct plan_candidate *c = &e->answer.candidates[i];

        if (!c->modelled)
            continue;
        n++;
        if (!best || (c->launchable && !best->launchable) || (c->launchable == best->launchable && needed(e, c) < needed(e, best)))
            best = c;
    }
    *ret_alone = n == 1;
    return best;
}

static void say_lack(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    uint32_t n = gpus_of(&c->step.r);

    buf_str(out, recipe_is_a_range(&c->step.r) ? ", needs up to " : ", needs ");
    say_gib(out, (double)needed(e, c));
    buf_str(out, n > 1 ? " GiB; each of " : " GiB; ");
    say_gpus(out, n, gpu_in_words(e));
    buf_str(out, " has ");
    say_gib(out, (double)e->question.capacity_bytes);
    buf_str(out, e->rq.cluster.free_memory_bytes.set ? " free" : "");
}

static void say_miss(struct buf *out, const struct estimate *e)
{
    bool alone;
    const struct plan_candidate *c = nearest_miss(e, &alone);
    bool by_host = c->reason.code && !strcmp(c->reason.code, "host-memory");

    buf_str(out, alone || by_host ? "Does not fit: " : "Does not fit: even ");
    say_way(out, c);
    say_batch(out, c);
    if (by_host) {
        buf_str(out, ": ");
        buf_str(out, c->reason.detail);
    } else {
        say_lack(out, e, c);
    }
    buf_char(out, '.');
    say_longest(out, e, e->answer.candidates);
}

static const double HALF_BYTES = 2, BILLION = 1e9;

/* What can be told of a model without a program, or whose program has no step. */
static void say_weights(struct buf *out, const struct estimate *e)
{
    double parameters = (double)e->model.counted_parameters;
    char text[64];

    if (parameters <= 0 || (e->model.has_program && !e->model.arch.inventory_only))
        return;
    (void)snprintf(text, sizeof text, " Its %.1f billion parameters alone are ", parameters / BILLION);
    buf_str(out, text);
    say_gib(out, HALF_BYTES * parameters);
    buf_str(out, " GiB in 16 bits; one ");
    buf_str(out, gpu_in_words(e));
    buf_str(out, " has ");
    say_gib(out, (double)e->question.capacity_bytes);
    buf_char(out, '.');
}

static void say_nothing(struct buf *out, const struct estimate *e)
{
    const struct plan_candidate *c = e->answer.candidates;

    buf_str(out, e->answer.any_modelled ? "Undecided: what was looked at does not fit, and " : e->answer.any_beyond ? "Does not fit: " : "No answer: ");
    buf_str(out, e->answer.any_modelled            ? "what one question may cause did not reach the rest"
                 : e->answer.n && c->reason.detail ? c->reason.detail
                                                   : "nothing was asked that has a model");
    buf_char(out, '.');
    if (!e->answer.any_modelled)
        say_weights(out, e);
    if (!e->answer.any_modelled && e->left_out.gaps)
        buf_str(out, " Left out, the rest can be answered.");
}

/* The first thing that anyone would try, where peft has to be told where. */
static void say_untried(struct buf *out, const struct estimate *e)
{
    for (uint32_t i = 0; !e->answer.any_fits && i < e->answer.n; i++)
        if (reason_is(&e->answer.candidates[i].reason, ERR_NO_TARGETS)) {
            buf_str(out, e->answer.n_untried || e->answer.n_cut
                             ? " LoRA was not tried: peft has no default modules for this type; name lora.target_modules, like all-linear."
                             : " LoRA and QLoRA over all linear layers were tried, as peft has no default modules for this type: neither fits.");
            return;
        }
}

static void say(struct buf *out, const struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (a->any_fits)
        say_fit(out, e, a->candidates);
    else if (a->any_modelled && plan_saw_all(a))
        say_miss(out, e);
    else
        say_nothing(out, e);
    if (!a->n_advice) {
        say_untried(out, e);
        return;
    }
    buf_char(out, ' ');
    advice_say(out, e, a->advice);
}

const char *summary_of(const struct estimate *e)
{
    char block[SUMMARY_MAX];
    struct buf out;

    buf_init_fixed(&out, block, sizeof block);
    say(&out, e);
    return arena_str(e->call->arena, buf_text(&out), strlen(buf_text(&out)));
}
