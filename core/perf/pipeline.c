/* pipeline.c - the schedule of a pipeline, played slot by slot over the times of its stages. */
#include "perf/kernel.h"

/* What has arrived when: of micro-batch i, from the stage before (forward) and from the one after (backward). */
struct board {
    uint32_t stages, micro_batches;
    const struct stage_time *of;
    enum schedule schedule;
    double *forward_s, *backward_s; /* end of (stage, micro-batch) */
    double *free_s;                 /* of each stage */
    uint32_t *n_forward, *n_backward;
};

static bool make_board(struct arena *arena, struct board *b)
{
    size_t n = (size_t)b->stages * b->micro_batches;

    b->forward_s = arena_array(arena, double, n);
    b->backward_s = arena_array(arena, double, n);
    b->free_s = arena_array(arena, double, b->stages);
    b->n_forward = arena_array(arena, uint32_t, b->stages);
    b->n_backward = arena_array(arena, uint32_t, b->stages);
    return b->forward_s && b->backward_s && b->free_s && b->n_forward && b->n_backward;
}

/* torch.distributed.pipelining schedules.py, Schedule1F1B: stages - stage warm-up forwards, then one backward to each forward; ScheduleGPipe: all forwards. */
static bool turns_back(const struct board *b, uint32_t stage)
{
    uint32_t ahead = b->schedule == SCHEDULE_GPIPE ? b->micro_batches : b->stages - stage, done = b->n_forward[stage];

    return done == b->micro_batches || (done >= ahead && done - b->n_backward[stage] >= ahead);
}

static bool step_forward(struct board *b, uint32_t stage)
{
    uint32_t i = b->n_forward[stage];
    double begin = b->free_s[stage];

    if (stage) {
        if (b->n_forward[stage - 1] <= i)
            return false;
        begin = larger(begin, b->forward_s[(stage - 1) * b->micro_batches + i] + b->of[stage - 1].send_s);
    }
    b->free_s[stage] = b->forward_s[stage * b->micro_batches + i] = begin + b->of[stage].forward_s;
    b->n_forward[stage]++;
    return true;
}

static bool step_back(struct board *b, uint32_t stage)
{
    uint32_t i = b->n_backward[stage];
    double begin = b->free_s[stage];

    if (stage + 1 < b->stages) {
        if (b->n_backward[stage + 1] <= i)
            return false;
        begin = larger(begin, b->backward_s[(stage + 1) * b->micro_batches + i] + b->of[stage].send_s);
    }
    b->free_s[stage] = b->backward_s[stage * b->micro_batches + i] = begin + b->of[stage].backward_s;
    b->n_backward[stage]++;
    return true;
}

static bool advance(struct board *b, uint32_t stage)
{
    bool moved = false;

    while (b->n_backward[stage] < b->micro_batches) {
        if (!(turns_back(b, stage) ? step_back(b, stage) : step_forward(b, stage)))
            break;
        moved = true;
    }
    return moved;
}

/* The stage that ends last decides; what it waited beside its own work is bubble. */
static void read_board(const struct board *b, struct step_time *ret)
{
    uint32_t last = 0;
    double begins, works;
    const struct stage_time *s;

    for (uint32_t i = 1; i < b->stages; i++)
        if (b->free_s[i] + b->of[i].end_s > b->free_s[last] + b->of[last].end_s)
            last = i;
    s = &b->of[last];
    begins = b->free_s[last];
    works = b->micro_batches * (s->forward_s + s->backward_s);
    ret->bubble_s = begins - works;
    ret->communication_exposed_s = b->micro_batches * s->waited_wire_s + s->end_waited_wire_s;
    ret->offload_s = b->micro_batches * s->waited_host_s + s->end_waited_host_s;
    ret->compute_s = works - b->micro_batches * (s->waited_wire_s + s->waited_host_s);
    ret->optimizer_s = s->end_s - s->end_waited_wire_s - s->end_waited_host_s;
}

bool perf_pipeline(const struct stage_time *stages, uint32_t n, enum schedule schedule, uint32_t micro_batches, struct arena *arena,
                   struct step_time *ret)
{
    unsigned char *mark = arena->cur;
    struct board b = {.stages = n, .micro_batches = micro_batches, .of = stages, .schedule = schedule};
    bool ok = make_board(arena, &b);

    *ret = (struct step_time){0};
    for (bool moved = ok; moved;) {
        moved = false;
        for (uint32_t i = 0; i < n; i++)
            moved |= advance(&b, i);
    }
    if (ok)
        read_board(&b, ret);
    arena_rewind(arena, mark);
    return ok;
}
