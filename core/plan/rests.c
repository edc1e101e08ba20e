/* What stands between two steps says of a change that it cannot fit, before anything is played of it. */
#include "plan/planning.h"

#include <string.h>

/* What is left of what models of few layers foretell (explain.c's NEAR), and cuBLAS's workspaces, which other GPUs have others of. Empirical: both are far
 * above what was seen. */
static const double SURELY = 0.97;
enum { WORKSPACES = 128 << 20 };

/* Weights and states do not depend on them. */
static void without_size(const struct recipe *r, struct recipe *ret)
{
    memcpy(ret, r, sizeof *ret); /* gaps are compared too */
    ret->micro_batch_size = ret->seq_len_tokens = ret->rank = 0;
    ret->gradient_checkpointing = ret->checkpoint_reentrant = TRI_UNSET;
    ret->checkpoint_kind = (enum checkpoint_kind)0;
}

/* Logits that live on have a length. */
static bool keeps_outputs(const struct recipe *r)
{
    return r->keep_outputs == TRI_TRUE || r->method == METHOD_PP;
}

bool rests_above(const struct measured *known, const struct recipe *of, const struct probe *other)
{
    uint64_t rests = known->resting_bytes;
    struct recipe a, b;

    without_size(of, &a);
    without_size(&other->step->r, &b);
    return !keeps_outputs(&a) && memcmp(&a, &b, sizeof a) == 0 && SURELY * (double)rests > (double)probe_budget(other) + WORKSPACES;
}
