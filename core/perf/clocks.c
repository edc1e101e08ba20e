#include "perf/clocks.h"

/* Kernels and messages of a part. */
struct part {
    uint32_t kernel, kernels_end, message, messages_end;
};

/* When a message waits for no kernel in particular: until its stage is over. A part's messages come stage by stage. */
static uint32_t stage_end(const struct cost *c, const struct message *m, uint32_t kernels_end, struct clocks *t)
{
    uint32_t i = m->kernels_before;

    if (t->stage_end > i && t->stage_begin <= i && t->stage == m->stage)
        return t->stage_end;
    t->stage = m->stage;
    t->stage_begin = i;
    while (i < kernels_end && c->kernels[i].stage == m->stage)
        i++;
    t->stage_end = i;
    return i;
}

/* --------------------------------------------------------------------------------------------------------------- waiting */
static void expect(struct clocks *t, uint32_t before, double end_s, bool host)
{
    uint32_t i = 0;
    struct awaited *w;

    while (i < t->n_waits && t->wait[i].before != before)
        i++;
    if (i == t->n_waits && i < WAITS)
        t->wait[t->n_waits++] = (struct awaited){.before = before};
    w = &t->wait[i < WAITS ? i : WAITS - 1];
    w->before = smaller_u32(w->before, before); /* no room: the last one waits for both, early */
    *(host ? &w->host_s : &w->wire_s) = larger(host ? w->host_s : w->wire_s, end_s);
}

static void wait_until(struct clocks *t, double until, double *of)
{
    *of += larger(0, until - t->gpu_s);
    t->gpu_s = larger(t->gpu_s, until);
}

static void arrive(struct clocks *t, uint32_t before)
{
    for (uint32_t i = 0; i < t->n_waits;) {
        if (t->wait[i].before > before) {
            i++;
            continue;
        }
        wait_until(t, t->wait[i].host_s, &t->waited_host_s);
        wait_until(t, t->wait[i].wire_s, &t->waited_wire_s);
        t->wait[i] = t->wait[--t->n_waits];
    }
}

/* --------------------------------------------------------------------------------------------------------------- sending */
static double *way_of(struct clocks *t, const struct message *m)
{
    uint32_t i = 0;

    if (m->collective == COLLECTIVE_TO_HOST)
        return &t->to_host_s;
    if (m->collective == COLLECTIVE_FROM_HOST)
        return &t->from_host_s;
    while (i < t->n_communicators &&
           (t->communicator[i].group.ranks != m->group.ranks || t->communicator[i].group.stride != m->group.stride))
        i++;
    if (i == t->n_communicators && i < COMMUNICATORS)
        t->communicator[t->n_communicators++] = (struct communicator){.group = m->group};
    return &t->communicator[i < COMMUNICATORS ? i : COMMUNICATORS - 1].free_s;
}

/* When the kernels ended that the host waits for, told while they are played: messages follow each other as their marks do. */
static void mark(const struct cost *c, struct part p, uint32_t kernels, struct clocks *t)
{
    for (; t->marking < p.messages_end && c->messages[t->marking].host_after <= kernels; t->marking++) {
        if (c->messages[t->marking].host_after <= p.kernel) /* none, or of a part before this one */
            continue;
        if (t->n_marked - t->n_passed == MARKS)
            return;
        t->mark_s[t->n_marked++ % MARKS] = t->gpu_s;
    }
}

static void wait_for_mark(const struct message *m, struct part p, struct clocks *t)
{
    if (m->host_after > p.kernel && t->n_passed < t->n_marked)
        t->host_s = larger(t->host_s, t->mark_s[t->n_passed++ % MARKS]);
}

/* torch blocks in the optimizer's call: what the host did before is done, what comes after comes later. */
static void step_on_host(const struct message *m, double takes_s, struct clocks *t)
{
    double begin = larger(larger(t->host_s, t->gpu_s), larger(t->stream_s[m->stream], t->to_host_s));

    t->host_s = begin + takes_s;
    t->stream_s[m->stream] = t->host_s;
    wait_until(t, t->host_s, &t->waited_host_s);
}

static double enqueued_s(const struct rates *r, const struct cost *c, const struct message *m)
{
    return r->constants[m->native ? PERF_BACKWARD_CALL_S : c->engine ? PERF_ENGINE_CALL_S : PERF_MESSAGE_CALL_S];
}

static void send(const struct rates *r, const struct cost *c, const struct message *m, struct part p, struct clocks *t)
{
    double *way, begin, takes_s = message_s(r, m);
    bool host = m->collective == COLLECTIVE_TO_HOST || m->collective == COLLECTIVE_FROM_HOST;

    if (t->apart && m->collective == COLLECTIVE_SEND) {
        t->send_s = larger(t->send_s, takes_s);
        return;
    }
    if (takes_s <= 0) /* alone in its group */
        return;
    wait_for_mark(m, p, t);
    t->host_s += r->host * enqueued_s(r, c, m);
    if (m->collective == COLLECTIVE_HOST_STEP) {
        step_on_host(m, takes_s, t);
        return;
    }
    way = way_of(t, m);
    begin = larger(larger(t->host_s, m->after_compute ? t->gpu_s : 0), larger(t->stream_s[m->stream], *way));
    if (!host) /* what is gathered may come from the host */
        begin = larger(begin, t->from_host_s);
    *way = t->stream_s[m->stream] = begin + takes_s;
    expect(t, m->waited_before == MESSAGE_UNWAITED ? stage_end(c, m, p.kernels_end, t) : m->waited_before, *way, host);
}

/* --------------------------------------------------------------------------------------------------------------- kernels */
static double call_s(const struct rates *r, const struct kernel *k)
{
    bool engine = (k->stage == STAGE_BACKWARD && !k->recompute) || k->stage == STAGE_OPTIMIZER || k->stage == STAGE_CLIP;

    return r->constants[engine ? PERF_BACKWARD_CALL_S : PERF_FORWARD_CALL_S];
}

static void play_kernel(struct rates *r, const struct kernel *k, struct clocks *t)
{
    t->host_s += r->host * (k->calls * call_s(r, k) + k->hooks * r->constants[PERF_HOOK_S]);
    t->gpu_s = larger(t->gpu_s, t->host_s) + kernel_s(r, k);
}

static void play_part(struct rates *r, const struct cost *c, struct part p, struct clocks *t)
{
    t->marking = p.message;
    for (uint32_t i = p.kernel; i < p.kernels_end; i++) {
        double before = t->gpu_s;

        for (; p.message < p.messages_end && c->messages[p.message].kernels_before <= i; p.message++)
            send(r, c, &c->messages[p.message], p, t);
        if (t->n_waits)
            arrive(t, i);
        play_kernel(r, &c->kernels[i], t);
        t->stage_s[cost_stage_of(&c->kernels[i])] += t->gpu_s - before;
        mark(c, p, i + 1, t);
    }
    for (; p.message < p.messages_end; p.message++)
        send(r, c, &c->messages[p.message], p, t);
    arrive(t, MESSAGE_UNWAITED);
}

/* ----------------------------------------------------------------------------------------------------------------- parts */
/* All clocks of a part begin together: the Trainer reads the loss after each micro-step (trainer.py, logging_nan_inf_filter), a loop over torch prints it. */
struct clocks play_micro_step(struct rates *r, const struct cost *c, uint32_t i, bool apart)
{
    bool last = i + 1 == c->n_micro;
    struct part p = {i ? c->micro_begin[i] : 0, last ? c->end_begin : c->micro_begin[i + 1], c->micro_message[i],
                     last ? c->end_message : c->micro_message[i + 1]};
    struct clocks t = {.apart = apart};

    play_part(r, c, p, &t);
    return t;
}

struct clocks play_end(struct rates *r, const struct cost *c)
{
    struct clocks t = {0};

    play_part(r, c, (struct part){c->end_begin, c->n_kernels, c->end_message, c->n_messages}, &t);
    return t;
}
