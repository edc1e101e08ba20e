/* inference_inside.h - what inference.c and inference_vllm.c share. */
#ifndef PLAN_INFERENCE_INSIDE_H
#define PLAN_INFERENCE_INSIDE_H

#include "plan/inference.h"

struct inferring {
    const struct inference_question *q;
    struct arena *keep, *scratch;
    struct err *err;
};

struct generate_question inference_generate(const struct inferring *p, const struct inference_candidate *c);
MUST_CHECK enum err_code inference_reason(struct inferring *p, struct inference_candidate *c, const char *code, const char *detail);
enum dtype inference_dtype(const struct inference_candidate *c); /* of what is not quantised */

/* vLLM's start on one GPU, and how many requests its blocks hold at once. */
/* inference_host.c: a candidate whose processors are the host's; false: the reason says why not. */
bool inference_host_offers(struct inferring *p, struct inference_candidate *c, enum err_code *ret);
MUST_CHECK enum err_code inference_host(struct inferring *p, struct inference_candidate *c);

bool inference_vllm_offers(struct inferring *p, struct inference_candidate *c, enum err_code *ret); /* false: the reason says why not */
MUST_CHECK enum err_code inference_vllm(struct inferring *p, struct inference_candidate *c);

/* Of the table of embeddings, of which a token reads a row; 0: it is the head, too. */
uint64_t inference_table(const struct arch *a, enum dtype dtype);

/* Seconds under which nothing can be: bytes at the memory's rate or flops at that of products, whichever is more; 0: not known. */
double inference_bound(const struct perf_system *s, enum dtype dtype, double bytes, double flops);

#endif
