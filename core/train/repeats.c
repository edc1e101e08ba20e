#include "train/repeats.h"

#include "config/arch.h"
#include "train/play_inside.h"

#include <string.h>

static bool same_birth(const struct birth *a, const struct birth *b)
{
    return a->bytes == b->bytes && a->module == b->module && a->op == b->op && a->node == b->node && a->stage == b->stage &&
           a->forward_stage == b->forward_stage && a->mark == b->mark && a->recompute == b->recompute;
}

static bool same_tape(const struct run *a, const struct run *b)
{
    if (a->n_births != b->n_births || a->n_events != b->n_events || memcmp(a->events, b->events, a->n_events * sizeof *a->events) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_births; i++)
        if (!same_birth(&a->births[i], &b->births[i]))
            return false;
    return true;
}

static bool is_laid_out_as_played(const struct play_question *q, struct arena *scratch)
{
    struct kept_run whole, made;
    struct err err = {0};
    bool laid_out = false;

    if (play_once(q, scratch, &whole, &err))
        return false;
    run_tape_alone(&whole.t->run);
    return !play_deep(q, scratch, &made, &laid_out, &err) && laid_out && same_tape(&whole.t->run, &made.t->run);
}

static bool repeats_with(const struct arch *arch, struct recipe r, enum tri checkpointing, const struct device *device, struct arena *scratch)
{
    struct arch as = *arch;
    struct step step;
    struct err err = {0};

    as.fixed_depth = false;
    r.method = METHOD_SINGLE;
    r.tuning = TUNING_FULL;
    r.quantization = KBIT_NONE;
    r.offload = OFFLOAD_NONE;
    r.micro_batch_size = r.data_parallel = r.tensor_parallel = r.pipeline_parallel = 1;
    r.gradient_checkpointing = checkpointing;
    if (train_resolve(&r, &as, device, scratch, &step, &err))
        return false;
    return is_laid_out_as_played(&(struct play_question){&as, &step, device, LOOK_REPLAY, false, false}, scratch);
}

bool train_repeats(const struct arch *arch, const struct recipe *like, const struct device *device, struct arena *scratch)
{
    unsigned char *mark = scratch->cur;
    bool full = scratch->full, same = repeats_with(arch, *like, TRI_FALSE, device, scratch);

    arena_rewind(scratch, mark);
    if (same && !arch->never_checkpoints) {
        same = repeats_with(arch, *like, TRI_TRUE, device, scratch);
        arena_rewind(scratch, mark);
    }
    scratch->full = full;
    return same;
}
