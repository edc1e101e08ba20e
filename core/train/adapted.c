#include "train/adapted.h"

#include "train/trainer.h"

enum err_code adapted_find(const struct arch *arch, const struct recipe *r, struct arena *arena, struct lora_found *ret, struct err *err)
{
    static const struct device any = {.cc_major = 8, .multiprocessors = 108, .threads_per_multiprocessor = 2048};
    struct lora_options o = {.rank = r->lora.rank ? r->lora.rank : 8, .narrow = r->lora.narrow, .all_linear = r->lora.all_linear, .n_saved = r->lora.n_saved,
                             .saved_names = r->lora.saved, .n_targets = r->lora.n_targets, .targets = r->lora.targets, .pattern = r->lora.pattern,
                             .n_parameters = r->lora.n_parameters, .parameters = r->lora.parameters};
    struct recipe plain = {.max_grad_norm = -1, .tuning = TUNING_FULL, .stack = r->stack, .micro_batch_size = 1};
    struct trainer *t = arena_new(arena, struct trainer);
    struct lora lora = r->lora;
    struct step step;
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    rc = train_resolve(&plain, arch, &any, arena, &step, err);
    if (!rc) {
        o.q = &step.quirks;
        o.experts = lora_experts(&step.quirks, arch->model_type);
        rc = train_targets(arch, &step.r.stack, arena, &lora, err);
        o.targets = lora.targets;
        o.n_targets = lora.n_targets;
        o.pattern = lora.pattern;
        if (rc == ERR_NO_TARGETS)
            rc = ERR_OK; /* said where it is resolved */
    }
    if (!rc)
        rc = trainer_declare(t, arch, &step, arena, err);
    return rc ? rc : lora_find(&t->model.tree, &o, arena, ret, err);
}
