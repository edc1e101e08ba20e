#include "train/timing.h"

#include "base/budget.h"
#include "train/inventory.h"
#include "train/loop.h"
#include "train/play.h"

/* A layer's kernels in forward, backward and recomputation, for each micro-step; what stands outside; messages: a bucket each. */
enum {
    KERNELS_OF_LAYER = 640,
    KERNELS_OF_EXPERT = 64, /* that is a module of its own */
    KERNELS_BESIDE = 4096,
    MESSAGES_OF_LAYER = 256,
    MESSAGES_OF_EXPERT = 96, /* FSDP1 makes a unit of each adapter, and offload copies each there and back */
    MESSAGES_BESIDE = 256,
    ORDERS_OF_LAYER = 512,
    ORDERS_OF_EXPERT = 48,
    ORDERS_BESIDE = 1024
};

static double model_flops(const struct trainer *t, const struct arch *a, const struct recipe *r)
{
    const struct parameter_count n = t->whole;
    double trained = (double)n.trainable, frozen = (double)(n.parameters - n.trainable);
    const struct batch_shape shape = train_batch_shape(r);
    double idle = a->experts > a->experts_used ? 1 - (double)a->experts_used / a->experts : 0; /* experts that a token does not take */
    double tokens = (double)r->micro_batch_size * r->seq_len_tokens * task_sequences(&tasks[r->stage]);
    double seen = shape.sequences ? tokens / shape.sequences : r->seq_len_tokens;

    trained -= idle * (double)n.trained_experts;
    frozen -= idle * (double)(n.experts - n.trained_experts);
    return tokens * (6 * trained + 4 * frozen + 12.0 * a->layers * a->heads * a->head_dim * seen);
}

static enum err_code room_for(const struct arch *arch, const struct step *step, uint32_t micro_steps, bool orders, unsigned wider, struct arena *arena,
                              struct work *log, struct err *err)
{
    uint32_t experts = step->quirks.experts_in_turn ? arch->experts : 0, turns = train_turns(arch, step) * 3 / 2;
    struct work_limits l = {(KERNELS_BESIDE + arch->layers * (KERNELS_OF_LAYER + experts * KERNELS_OF_EXPERT + turns)) * micro_steps,
                            MESSAGES_BESIDE + arch->layers * (MESSAGES_OF_LAYER + experts * MESSAGES_OF_EXPERT),
                            orders ? (ORDERS_BESIDE + arch->layers * (ORDERS_OF_LAYER + experts * ORDERS_OF_EXPERT)) * micro_steps : 0};

    l.kernels <<= wider;
    if (!work_init(log, arena, l))
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for the kernels of a step");
    return ERR_OK;
}

enum err_code timing_log(const struct arch *arch, const struct step *step, bool costs_alone, unsigned wider, struct arena *arena,
                          struct work **ret, struct err *err)
{
    uint32_t n = step->r.gradient_accumulation_steps, micro_steps = costs_alone || n < MICRO_STEPS ? n : MICRO_STEPS;
    struct work *log = arena_new(arena, struct work);
    enum err_code rc = log ? room_for(arch, step, micro_steps, !costs_alone, wider, arena, log, err)
                           : err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");

    if (!rc)
        *ret = log;
    return rc;
}

/* The first, which finds no gradients, and one for all others. */
static uint32_t micro_steps_of(const struct step *step)
{
    return step->r.gradient_accumulation_steps > 1 ? 2 : 1;
}

bool timing_is_foretold(const struct step *step)
{
    return step->r.method != METHOD_DDP && step->r.method != METHOD_PP && step->r.gradient_accumulation_steps == 1;
}

void timing_read(const struct trainer *t, const struct arch *arch, const struct step *step, struct cost *ret)
{
    struct recipe r = step->r;
    struct cost c;

    r.gradient_accumulation_steps = micro_steps_of(step);
    cost_read(t->log, step->r.gradient_accumulation_steps, &c);
    c.micro_batch_size = r.micro_batch_size;
    c.seq_len_tokens = r.seq_len_tokens * task_sequences(&tasks[r.stage]);
    c.flash = step->flash;
    c.engine = method_is_zero(r.method);
    c.data_parallel = r.data_parallel;
    c.ranks_of_model = r.tensor_parallel * r.pipeline_parallel;
    c.model_flops = model_flops(t, arch, &r);
    *ret = c;
}

enum err_code train_cost(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                         struct cost *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct step s = *step;
    struct play_question q = {arch, &s, device, LOOK_COSTS, false, false};
    const struct work *log;
    struct taped run;
    enum err_code rc;

    s.r.gradient_accumulation_steps = micro_steps_of(step);
    rc = train_play(&q, arena, &run, err);
    log = rc ? NULL : run.t->log;
    if (!rc)
        rc = budget_take(arena->budget, (uint64_t)log->n_kernels + log->n_messages, err);
    if (rc) {
        arena_rewind(arena, mark);
        return rc;
    }
    timing_read(run.t, arch, step, ret);
    arena_rewind(arena, (unsigned char *)(log->kernels + log->n_kernels)); /* the log stands before the run */
    return ERR_OK;
}
