/* load.c - the model on the device, and its parameters in the optimizer's groups. */
#include "parallel/ddp.h"
#include "torch/autograd.h"
#include "train/loop.h"
#include "tuning/lora.h"

#include <string.h>

struct collect {
    struct trainer *t;
    uint32_t n, groups[2];
    bool fill;
};

/* trainer.py get_decay_parameter_names: by name since 5.0, before by layer type and `bias` */
static bool holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static bool decays(const struct trainer *t, const struct module *m, const struct param *p)
{
    char buf[256];
    const char *path = module_path(&t->model.tree, m->number, buf, sizeof buf);
    size_t n = strlen(path);

    if (holds(p->name, "bias") || holds(path, "bias"))
        return false;
    if (m->kind == MODULE_LAYER_NORM)
        return false;
    if (!t->step->quirks.decay_by_name)
        return !(m->kind == MODULE_NORM && t->model.family->norm_registered);
    /* bias, layernorm, rmsnorm, (^|.)norm($|.), _norm($|.) in any case of letters */
    if (holds(path, "layernorm") || holds(path, "rmsnorm") || holds(path, "_norm."))
        return false;
    if ((n >= 5 && !strcmp(path + n - 5, "_norm")) || !strcmp(path, "norm") || (n >= 5 && !strcmp(path + n - 5, ".norm")))
        return false;
    return true;
}

static void collect(void *context, struct module *m, struct param *p)
{
    struct collect *c = context;
    struct trainer *t = c->t;
    int g;

    if (!p->requires_grad || p->tied)
        return;
    if (!c->fill) /* a plain loop hands model.parameters() to the optimizer as they come */
        p->group = t->plain || decays(t, m, p) ? 0 : 1;
    g = p->group;
    if (c->fill) {
        struct run *r = &t->run;

        require_grad(r, p->value);
        pin_leaf(r, p->value);
        t->trainable[c->n] = p->value;
        t->optim.group[g][c->groups[g]] = p->value;
    }
    c->n++;
    c->groups[g]++;
}

static void gather_trainable(struct trainer *t)
{
    struct collect c = {.t = t};
    struct arena *a = t->model.tree.arena;

    params_visit(t->model.tree.root, collect, &c);
    t->n_trainable = c.n;
    t->trainable = arena_array(a, val, c.n + 1);
    for (int g = 0; g < 2; g++) {
        t->optim.n_group[g] = c.groups[g];
        t->optim.group[g] = arena_array(a, val, c.groups[g] + 1);
        t->optim.state[g] = arena_array(a, struct optim_state, c.groups[g] + 1);
        if (!t->optim.group[g] || !t->optim.state[g])
            t->trainable = NULL;
    }
    if (!t->trainable) {
        run_fail(&t->run, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's states");
        return;
    }
    c = (struct collect){.t = t, .fill = true};
    params_visit(t->model.tree.root, collect, &c);
}

/* The model as it stands becomes one of several replicas. */
static void wrap(struct trainer *t)
{
    const struct step *s = t->step;
    uint64_t cap = s->r.ddp_bucket_bytes;
    bool left_out = cap == (uint64_t)DDP_BUCKET_MIB << 20;
    struct ddp_options o = {
        .bucket_bytes = cap,
        .first_bucket_bytes = left_out || s->quirks.ddp_small_first_bucket ? DDP_FIRST_BUCKET_BYTES : cap,
        .find_unused_parameters = s->find_unused_parameters,
        .bucket_view = s->r.gradient_as_bucket_view == TRI_TRUE,
    };

    t->ddp = ddp_new(&t->run, &o, t->n_trainable, t->trainable);
}

void trainer_load(struct trainer *t)
{
    struct run *r = &t->run;
    const struct recipe *s = &t->step->r;

    r->stage = STAGE_INIT;
    materialise(r, &t->model.tree);
    if (s->tuning != TUNING_FULL)
        lora_materialise(r, &t->model.tree, NULL);
    gather_trainable(t);
    if (s->method == METHOD_DDP && !run_dead(r))
        wrap(t);
    if (!t->plain || t->ddp)
        release_cached(r); /* Accelerator.free_memory when train() begins */
    t->steps_begin = r->n_events;
    t->autocast = precision_autocasts(s->precision);
    t->autocast_dtype = precision_scales_loss(s->precision) ? DTYPE_FP16 : DTYPE_BF16; /* fp16 is what needs the scaler */
    t->optim.kind = s->optimizer == OPTIMIZER_SGD                 ? OPTIM_SGD
                    : s->optimizer == OPTIMIZER_ADAMW_TORCH_FUSED ? OPTIM_ADAMW_FUSED
                    : s->optimizer == OPTIMIZER_ADAMW_TORCH_LOOP  ? OPTIM_ADAMW_LOOP
                                                                  : OPTIM_ADAMW_FOREACH;
}
