/* What a request asks and the figures do not have, read from the same table that read the request. */
#include "api/answer/estimate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asking {
    struct estimate *e;
    char dotted[96], pointer[POINTER_BYTES];
    enum gap_of of;
};

/* Where it was asked: by a config of another tool, or here. */
static const char *asked_at(const struct asking *a, const void *slot)
{
    const char *origin = origin_of(&a->e->origins, slot);

    return origin ? origin : a->pointer;
}

static void add_gap(struct asking *a, const void *slot, enum gap_of of, const char *value, const char *what)
{
    left_out_gap(&a->e->left_out, of, asked_at(a, slot), "%s%s%.60s is not modelled yet%s%s", a->dotted, value[0] ? " " : "", value,
                 what ? ": " : "", what ? what : "");
}

/* The words of an axis are candidates of their own; elsewhere one word is the whole request's. */
static void ask_words(struct asking *a, const struct member *m, const struct words *w)
{
    size_t n = strlen(a->pointer);

    for (unsigned i = 0; i < w->n; i++) {
        const struct word *word = &m->words[w->at[i]];

        if (word->value != WORD_UNMODELLED || (m->words == framework_words && asks_litgpt(&a->e->rq)))
            continue;
        if (w->n > 1)
            (void)snprintf(a->pointer + n, sizeof a->pointer - n, "/%u", i);
        add_gap(a, w, m->list && m->min ? GAP_OF_CHOICE : a->of, word->name, NULL);
        a->pointer[n] = 0;
    }
}

/* Whether a member without a model says something else than what happens anyway. */
static bool changes_something(const struct member *m, const void *at)
{
    const struct quantity *first = m->kind == KIND_OBJECT ? (const void *)((const char *)at + m->members->at) : at;

    switch (m->kind) {
    case KIND_BOOL:
        return *(const enum tri *)at == (m->neutral && !strcmp(m->neutral, "true") ? TRI_FALSE : TRI_TRUE);
    case KIND_WHOLE:
    case KIND_BYTES:
    case KIND_REAL:
        return first->set && first->real > (m->neutral ? strtod(m->neutral, NULL) : 0);
    case KIND_STRS:
        return ((const struct strs *)at)->n > 0;
    case KIND_OBJECT: /* none of them: per_sequence 0 */
        return members_any_set(m->members, at) && !(m->members->kind == KIND_WHOLE && first->set && !first->whole);
    case KIND_OWN:
    case KIND_JSON:
        return *(const struct json *const *)at != NULL;
    case KIND_STR:
    case KIND_WORDS:
        break;
    }
    return member_is_set(m, at);
}

static void ask_members(struct asking *a, const struct member *members, const void *from);

static void ask_member(struct asking *a, const struct member *m, const void *at)
{
    if (m->later) {
        if (changes_something(m, at))
            add_gap(a, at, a->of, "", m->later);
    } else if (m->kind == KIND_WORDS) {
        ask_words(a, m, at);
    } else if (m->kind == KIND_OBJECT && (strcmp(m->key, "inference") != 0 || asks_inference(&a->e->rq))) {
        a->of = !strcmp(m->key, "lora") ? GAP_OF_ADAPTERS : a->of;
        ask_members(a, m->members, at);
        a->of = GAP_OF_ALL;
    }
}

static void ask_members(struct asking *a, const struct member *members, const void *from)
{
    size_t dotted = strlen(a->dotted), pointer = strlen(a->pointer);

    for (const struct member *m = members; m->key; m++) {
        (void)snprintf(a->dotted + dotted, sizeof a->dotted - dotted, "%s%s", dotted ? "." : "", m->key);
        (void)snprintf(a->pointer + pointer, sizeof a->pointer - pointer, "/%s", m->key);
        ask_member(a, m, (const char *)from + m->at);
        a->dotted[dotted] = a->pointer[pointer] = 0;
    }
}

/* A checkpoint that is quantised already, where the request itself says so. */
static void ask_config(struct asking *a)
{
    const struct json *config = a->e->rq.config;

    if (json_type(json_get(config, "quantization_config")) != JSON_OBJECT || checkpoint_is_read(a->e, config))
        return;
    left_out_gap(&a->e->left_out, GAP_OF_ALL, "/config/quantization_config",
                 "a checkpoint with a quantization_config is not modelled yet (null beside the model's id removes it)");
}

/* Methods that nobody has written yet; those of LLMem have an answer of their own. */
static void ask_methods(struct asking *a)
{
    const struct methods *methods = &a->e->rq.training.methods;

    (void)snprintf(a->dotted, sizeof a->dotted, "training.methods");
    for (unsigned i = 0; i < methods->n; i++) {
        (void)snprintf(a->pointer, sizeof a->pointer, "/training/methods");
        if (methods->n > 1 && !origin_of(&a->e->origins, methods))
            (void)snprintf(a->pointer, sizeof a->pointer, "/training/methods/%u", i);
        if (!method_named_is_modelled(methods->v[i]))
            add_gap(a, methods, GAP_OF_CHOICE, methods->v[i], NULL);
    }
}

/* The dtype that gradients of a method are reduced in when nobody says: DeepSpeed's engine's half, DistributedDataParallel's own. */
static const char *reduced_in(const char *method, const char *precision)
{
    bool half = !strncmp(precision, "bf16", 4);

    if (strstr(method, "zero"))
        return half ? "bf16" : "";
    return strstr(precision, "mixed") || !strcmp(precision, "fp32") ? "fp32" : half ? "bf16" : "";
}

/* FSDP alone reduces in another dtype. */
static void ask_reduction(struct asking *a)
{
    const struct training_request *t = &a->e->rq.training;
    const char *precision = t->precision.n == 1 ? precision_words[t->precision.at[0]].name : "";
    bool other = t->reduce_dtype.n && t->methods.n;

    for (unsigned i = 0; i < t->methods.n; i++)
        other &= !strstr(t->methods.v[i], "fsdp") && !strstr(t->methods.v[i], "hsdp") && strcmp(t->methods.v[i], "single") != 0 &&
                 strcmp(reduced_in(t->methods.v[i], precision), reduce_words[t->reduce_dtype.at[0]].name) != 0;
    (void)snprintf(a->pointer, sizeof a->pointer, "/training/reduce_dtype");
    (void)snprintf(a->dotted, sizeof a->dotted, "training.reduce_dtype");
    if (other)
        add_gap(a, &t->reduce_dtype, GAP_OF_ALL, "", "gradients that DistributedDataParallel or DeepSpeed reduces in a dtype of its own");
}

/* torch/optim sgd.py, adagrad.py, rmsprop.py: decay is added to a copy of the gradients; AdamW's is decoupled, in place. */
static void ask_decay(const struct estimate *e, struct left_out *left_out)
{
    static const char *const places[] = {"training", "training_arguments"};
    const struct words *asked = &e->rq.training.optimizer;
    bool copies = false;

    for (unsigned i = 0; i < asked->n; i++) {
        int optimizer = optimizer_words[asked->at[i]].value;

        copies |= optimizer == OPTIMIZER_SGD || optimizer == OPTIMIZER_ADAGRAD || optimizer == OPTIMIZER_RMSPROP;
    }
    for (size_t i = 0; copies && i < sizeof places / sizeof *places; i++) {
        char pointer[64];
        double decay = 0;

        (void)snprintf(pointer, sizeof pointer, "/%s/weight_decay", places[i]);
        if (json_number(json_get(json_get(e->call->doc, places[i]), "weight_decay"), &decay) && decay > 0)
            left_out_gap(left_out, GAP_OF_ALL, pointer, "weight_decay of an optimizer that adds it to copies of the gradients is not modelled yet");
    }
}

void gaps_find(struct estimate *e)
{
    struct asking a = {.e = e};

    ask_members(&a, estimate_members, &e->rq);
    ask_methods(&a);
    ask_reduction(&a);
    ask_config(&a);
    ask_decay(e, &e->left_out);
}

/* Adapters that nobody asks for leave nothing out. */
static bool applies(const struct estimate *e, const struct gap *g)
{
    const struct words *tuning = &e->rq.training.tuning;
    bool adapts = !tuning->n;

    for (unsigned i = 0; i < tuning->n; i++)
        adapts |= tuning_words[tuning->at[i]].value != TUNING_FULL;
    return g->of != GAP_OF_ADAPTERS || adapts;
}

void gaps_write(struct jsonw *w, const struct estimate *e)
{
    jsonw_array(w, "not_in_figures");
    for (const struct gap *g = e->left_out.gaps; g; g = g->next)
        if (applies(e, g))
            jsonw_str(w, NULL, g->pointer);
    jsonw_end(w);
    jsonw_array(w, "ignored");
    for (const struct ignored *i = e->left_out.ignored; i; i = i->next)
        jsonw_str(w, NULL, i->pointer);
    jsonw_end(w);
}
