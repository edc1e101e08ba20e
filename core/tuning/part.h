/* part.h - which part of a model is trained: what freeze.h does. */
#ifndef TUNING_PART_H
#define TUNING_PART_H

#include "tuning/pattern.h"

struct freeze {
    uint32_t n, n_trained;
    const char *const *names, *const *trained;
    const struct pattern *pattern; /* of what is trained; NULL: none */
    const char *pattern_text;
    double share;
};

static inline bool freeze_asked(const struct freeze *f)
{
    return f->n || f->n_trained || f->pattern || f->share > 0;
}

#endif
