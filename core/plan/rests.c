/* What stands between two steps says of a change that it cannot fit, before anything is played of it. */
#include "plan/planning.h"

#include <string.h>

/* What is left of what models of few layers foretell (explain.c's NEAR), and cuBLAS's workspaces, which other GPUs have others of. Empirical: both are far
 * above what was seen. */
static const double SURELY = 0.97;
enum { WORKSPACES = 128 << 20 };

static bool holds_fp32(const struct recipe *r)
{
    return precision_is_mixed(r->precision) || r->precision == PRECISION_FP32 || r->upcast;
}

/* Weights and states do not depend on them. */
static void without_size(const struct recipe *r, struct recipe *ret)
{
    memcpy(ret, r, sizeof *ret); /* gaps are compared too */
    ret->micro_batch_size = ret->seq_len_tokens = ret->rank = 0;
    ret->gradient_checkpointing = ret->checkpoint_reentrant = ret->find_unused_parameters = TRI_UNSET;
    ret->checkpoint_kind = (enum checkpoint_kind)0;
}

/* How many GPUs share what one has alone, weights, states and all: each has no less than its share of the same bytes, and ZeRO's copies beside them. */
static uint32_t shares(const struct recipe *alone, const struct recipe *other)
{
    enum method m = other->method;
    bool shards = m == METHOD_FSDP || m == METHOD_FSDP2 || m == METHOD_ZERO3;

    return alone->method == METHOD_SINGLE && alone->tuning == TUNING_FULL && shards ? other->data_parallel : 1;
}

/* Of one GPU's recipe what the others' has beside. */
static void as_shared(const struct recipe *other, struct recipe *alone)
{
    alone->method = other->method;
    alone->data_parallel = other->data_parallel;
    alone->shard_group = other->shard_group;
    memcpy(&alone->fsdp, &other->fsdp, sizeof alone->fsdp);
    memcpy(&alone->zero, &other->zero, sizeof alone->zero);
}

/* Logits that live on have a length. */
static bool keeps_outputs(const struct recipe *r)
{
    return r->keep_outputs == TRI_TRUE || r->method == METHOD_PP;
}

bool rests_above(const struct measured *known, const struct recipe *of, const struct probe *other)
{
    uint32_t shared = shares(of, &other->step->r);
    uint64_t rests = known->resting_bytes / shared;
    struct recipe a, b;

    without_size(of, &a);
    without_size(&other->step->r, &b);
    if (shared > 1)
        as_shared(&b, &a);
    if (holds_fp32(&b) || !holds_fp32(&a)) { /* whose weights take no less */
        a.precision = b.precision;
        a.upcast = b.upcast;
    }
    return !keeps_outputs(&a) && memcmp(&a, &b, sizeof a) == 0 && SURELY * (double)rests > (double)probe_budget(other) + WORKSPACES;
}
