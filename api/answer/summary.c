/* The answer in one or two sentences. Only what was computed is told. */
#include "api/answer/estimate.h"

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

/* "LoRA with gradient checkpointing and zero3" */
static void say_way(struct buf *out, const struct plan_candidate *c)
{
    bool checkpointed = c->step.r.gradient_checkpointing == TRI_TRUE, alone = c->step.r.method == METHOD_SINGLE;

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
    buf_str(out, " of ");
    say_number(out, c->step.r.seq_len_tokens);
    buf_str(out, " tokens");
}

/* What nvidia-smi would show, or as near as the basis tells. */
static uint64_t taken(const struct plan_candidate *c)
{
    return c->basis == BASIS_REPLAYED ? c->device_bytes : c->high_bytes;
}

static void say_memory(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    say_gib(out, (double)taken(c));
    buf_str(out, " of ");
    say_gib(out, (double)e->question.capacity_bytes);
    buf_str(out, gpus_of(&c->step.r) > 1 ? " GiB on each of " : " GiB on ");
    say_gpus(out, gpus_of(&c->step.r), gpu_in_words(e));
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
    if (c->host_bytes_per_node) {
        buf_str(out, ", ");
        say_gib(out, (double)c->host_bytes_per_node);
        buf_str(out, " GiB of each node's host memory");
    }
    buf_char(out, '.');
}

/* Losers are told without a limit: how far off they are. */
static void say_miss(struct buf *out, const struct estimate *e, const struct plan_candidate *c)
{
    buf_str(out, "Does not fit: ");
    say_way(out, c);
    say_batch(out, c);
    if (c->reason.code && !strcmp(c->reason.code, "host-memory")) {
        buf_str(out, ": ");
        buf_str(out, c->reason.detail);
    } else {
        buf_str(out, ", needs ");
        say_memory(out, e, c);
    }
    buf_char(out, '.');
}

static void say_nothing(struct buf *out, const struct estimate *e)
{
    const struct plan_candidate *c = e->answer.candidates;

    buf_str(out, e->answer.any_modelled ? "Undecided: what was looked at does not fit, and " : "No answer: ");
    buf_str(out, e->answer.any_modelled            ? "the work that one question may cause did not reach the rest"
                 : e->answer.n && c->reason.detail ? c->reason.detail
                                                   : "nothing was asked that has a model");
    buf_char(out, '.');
}

static void say_baseline(struct buf *out, const struct estimate *e)
{
    const struct llmem_answer *a = &e->baseline;

    buf_str(out, a->method == LLMEM_OFFLOAD ? "By LLMem's own formulas nothing fits" : "By LLMem's own formulas ");
    if (a->method != LLMEM_OFFLOAD) {
        buf_str(out, llmem_method_name(a->method));
        buf_str(out, " fits with a micro-batch of ");
        buf_u64(out, a->micro_batch_size);
    }
    buf_char(out, '.');
}

static void say(struct buf *out, const struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (e->has_baseline && baseline_only(&e->rq))
        say_baseline(out, e);
    else if (a->any_fits)
        say_fit(out, e, a->candidates);
    else if (a->any_modelled && !a->n_cut && !a->n_outgrown)
        say_miss(out, e, a->candidates);
    else
        say_nothing(out, e);
    if (!a->n_advice)
        return;
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
