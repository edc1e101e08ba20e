#include "meters/cost.h"

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

void cost_read(const struct work *log, uint32_t accumulation, struct cost *ret)
{
    struct cost c = {.kernels = log->kernels, .messages = log->messages, .n_kernels = log->n_kernels, .n_messages = log->n_messages, .accumulation = accumulation};

    cut(log, &c);
    for (uint32_t i = 0; i < c.n_kernels; i++) {
        bool ends = i >= c.end_begin;
        uint64_t times = ends || i < c.micro_begin[0] ? 1 : cost_times(&c, c.n_micro == 2 && i >= c.micro_begin[1]);

        add(&c.sum[cost_stage_of(&c.kernels[i])], &c.kernels[i], times);
    }
    *ret = c;
}
