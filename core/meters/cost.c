#include "meters/cost.h"

#include <string.h>

enum cost_stage cost_stage_of(const struct kernel *k)
{
    static const uint8_t stages[STAGE_COUNT] = {
        [STAGE_FORWARD] = COST_FORWARD, [STAGE_LOSS] = COST_LOSS,           [STAGE_BACKWARD] = COST_BACKWARD,
        [STAGE_CLIP] = COST_CLIP,       [STAGE_OPTIMIZER] = COST_OPTIMIZER, [STAGE_ZERO_GRAD] = COST_OPTIMIZER,
    };

    return k->recompute ? COST_RECOMPUTE : (enum cost_stage)stages[k->stage]; /* all others: COST_BATCH */
}

const char *cost_stage_name(enum cost_stage s)
{
    static const char *const names[COST_STAGES] = {"batch", "forward", "loss", "backward", "recompute", "clip", "optimizer"};

    return names[s];
}

static void add(struct cost_sum *s, const struct kernel *k, uint64_t times)
{
    s->flops += k->flops * times;
    s->product_flops += (k->work >= WORK_MATMUL ? k->flops : 0) * times;
    s->bytes += k->bytes * times;
    s->launches += k->launches * times;
    s->calls += k->calls * times;
}

/* A micro-step begins where forward follows anything but forward and loss. */
static void cut(const struct work *log, struct cost *c)
{
    uint8_t before = STAGE_BATCH;

    c->end_begin = log->n_kernels;
    for (uint32_t i = 0; i < log->n_kernels; i++) {
        uint8_t stage = log->kernels[i].stage;

        if (stage == STAGE_CLIP || stage == STAGE_OPTIMIZER) {
            c->end_begin = i;
            break;
        }
        if (stage == STAGE_FORWARD && before != STAGE_FORWARD && c->n_micro < 2)
            c->micro_begin[c->n_micro++] = i;
        before = stage;
    }
}

/* What is enqueued between the last kernel of a part and the first of the next belongs to the stage that it was enqueued in. */
static bool stands_before(const struct message *m, uint32_t kernel, bool end)
{
    if (m->kernels_before != kernel)
        return m->kernels_before < kernel;
    return end ? m->stage <= STAGE_BETWEEN : m->stage > STAGE_LOSS;
}

static uint32_t first_message(const struct cost *c, uint32_t kernel, uint32_t from, bool end)
{
    while (from < c->n_messages && stands_before(&c->messages[from], kernel, end))
        from++;
    return from;
}

static void cut_messages(struct cost *c)
{
    if (c->n_micro == 2)
        c->micro_message[1] = first_message(c, c->micro_begin[1], 0, false);
    c->end_message = first_message(c, c->end_begin, c->micro_message[1], true);
}

static void sum_up(struct cost *c)
{
    memset(c->sum, 0, sizeof c->sum);
    for (uint32_t i = 0; i < c->n_kernels; i++) {
        bool ends = i >= c->end_begin;
        uint64_t times = ends || i < c->micro_begin[0] ? 1 : cost_times(c, c->n_micro == 2 && i >= c->micro_begin[1]);

        add(&c->sum[cost_stage_of(&c->kernels[i])], &c->kernels[i], times);
    }
}

/* What is sent to set a run up (DDP's ranks agree on new buckets) stands before what a step sends, and is no part of it. */
static void skip_setting_up(struct cost *c)
{
    for (; c->n_messages && c->messages->stage == STAGE_INIT; c->n_messages--)
        c->messages++;
}

void cost_read(const struct work *log, uint32_t accumulation, struct cost *ret)
{
    struct cost c = {
        .kernels = log->kernels,
        .messages = log->messages,
        .n_kernels = log->n_kernels,
        .n_messages = log->n_messages,
        .accumulation = accumulation,
        .data_parallel = 1,
        .ranks_of_model = 1,
    };

    skip_setting_up(&c);
    cut(log, &c);
    cut_messages(&c);
    sum_up(&c);
    *ret = c;
}

/* ---------------------------------------------------------------------------------------------- another micro-batch */
struct line {
    int64_t from, step, at; /* micro-batches: a, b - a, asked - a */
};

static uint64_t on_line(const struct line *l, uint64_t a, uint64_t b)
{
    int64_t y = (int64_t)a + (int64_t)(b - a) / l->step * l->at + (int64_t)(b - a) % l->step * l->at / l->step;

    return y > 0 ? (uint64_t)y : 0;
}

static bool between(const struct line *l, const struct kernel *a, const struct kernel *b, struct kernel *ret)
{
    if (a->op != b->op || a->stage != b->stage || a->recompute != b->recompute || a->dtype != b->dtype || !a->batch != !b->batch ||
        a->unaligned != b->unaligned)
        return false;
    *ret = *a;
    ret->flops = on_line(l, a->flops, b->flops);
    ret->bytes = on_line(l, a->bytes, b->bytes);
    ret->rows = (uint32_t)on_line(l, a->rows, b->rows);
    ret->columns = (uint32_t)on_line(l, a->columns, b->columns);
    ret->inner = (uint32_t)on_line(l, a->inner, b->inner);
    ret->batch = (uint32_t)on_line(l, a->batch, b->batch);
    return true;
}

static bool kernels_between(const struct line *l, const struct cost *a, const struct cost *b, struct kernel *ret)
{
    for (uint32_t i = 0; i < a->n_kernels; i++)
        if (!between(l, &a->kernels[i], &b->kernels[i], &ret[i]))
            return false;
    return true;
}

static bool messages_between(const struct line *l, const struct cost *a, const struct cost *b, struct message *ret)
{
    for (uint32_t i = 0; i < a->n_messages; i++) {
        const struct message *m = &a->messages[i], *n = &b->messages[i];

        if (m->collective != n->collective || m->stage != n->stage || m->stream != n->stream || m->kernels_before != n->kernels_before)
            return false;
        ret[i] = *m;
        ret[i].bytes = on_line(l, m->bytes, n->bytes);
    }
    return true;
}

bool cost_at(const struct cost *a, const struct cost *b, uint32_t micro_batch_size, uint32_t accumulation, struct arena *arena, struct cost *ret)
{
    struct line l = {a->micro_batch_size, (int64_t)b->micro_batch_size - a->micro_batch_size, (int64_t)micro_batch_size - a->micro_batch_size};
    struct cost c = *a;
    struct kernel *kernels;
    struct message *messages;

    if (!l.step || a->n_kernels != b->n_kernels || a->n_messages != b->n_messages || a->n_micro != b->n_micro ||
        a->n_micro != (accumulation > 1 ? 2 : 1))
        return false;
    messages = arena_array_raw(arena, struct message, a->n_messages);
    kernels = arena_array_raw(arena, struct kernel, a->n_kernels);
    if (!kernels || !messages || !kernels_between(&l, a, b, kernels) || !messages_between(&l, a, b, messages))
        return false;
    c.kernels = kernels;
    c.messages = messages;
    c.micro_batch_size = micro_batch_size;
    c.accumulation = accumulation;
    c.model_flops = a->model_flops / a->micro_batch_size * micro_batch_size;
    sum_up(&c);
    *ret = c;
    return true;
}
