/* inference.h - shared by the files that answer workload inference: inference.c asks, inference_write.c and inference_say.c tell. */
#ifndef API_ANSWER_INFERENCE_H
#define API_ANSWER_INFERENCE_H

#include "api/answer/estimate.h"
#include "plan/inference.h"

enum { INFERENCE_FORMS = 3 }; /* of the weights, that one answer compares */

struct inferring {
    struct estimate *e;
    struct inference_question q;
    struct inference_weights weights[INFERENCE_FORMS];
    struct inference_answer answer;
};

void inference_write(struct jsonw *w, struct inferring *i);
void inference_say(struct buf *out, const struct inferring *i); /* the summary */
void inference_assume(struct inferring *i);
const char *inference_method(const struct inferring *i, const struct inference_candidate *c);

#endif
