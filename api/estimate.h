/*
 * estimate.h - what POST /estimate's parts hand to each other: read (estimate.c), asked of plan/ (question.c), written (answer.c).
 */
#ifndef API_ESTIMATE_H
#define API_ESTIMATE_H

#include "api/request.h"
#include "api/routes.h"
#include "config/arch.h"
#include "plan/plan.h"
#include "stack/release.h"
#include "train/inventory.h"

struct model_info {
    struct json *owned;        /* a fetched config.json, parsed; the caller frees it */
    const struct json *config;
    const char *id, *source, *model_type;
    bool has_program;
    struct arch arch;
};

struct estimate {
    struct call *call;
    struct estimate_request rq;
    struct notes warnings, assumptions;
    struct model_info model;
    struct stack stack, other; /* complete, as asked; the neighbour for low..high */
    struct plan_question question;
    struct plan_answer answer;
    struct inventory inventory; /* of the first modelled candidate */
};

/* A model's config: fetched, inline, or the one patched by the other. info->owned is set even when it fails. */
MUST_CHECK enum err_code model_read(struct call *c, const char *id, const struct json *config, struct notes *warnings,
                                    struct model_info *info);

/* Versions as asked, completed. */
MUST_CHECK enum err_code stack_read(const struct stack_request *asked, struct stack *ret, struct err *err);

/* Fills e->question from e->rq, e->model and e->stack. */
MUST_CHECK enum err_code question_build(struct estimate *e);

/* Adapters as asked; the dtype stays open. */
void lora_read(const struct lora_request *asked, struct lora *ret);

/* e->rq with every default made explicit. */
void resolve_request(struct estimate *e);

MUST_CHECK enum err_code answer_write(struct estimate *e);

#endif
