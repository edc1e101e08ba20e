#include "torch/work.h"

#include "torch/run.h"

void work_message(struct run *r, enum collective c, uint64_t bytes)
{
    struct work *w = r->work;

    if (!w)
        return;
    if (w->n_messages == w->max_messages) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the messages of a step");
        return;
    }
    w->messages[w->n_messages++] = (struct message){.bytes = bytes, .kernels_before = w->n_kernels, .collective = (uint8_t)c, .stage = r->stage};
}
