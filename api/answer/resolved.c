/* The request with nothing left open: what `resolved` of the answer shows. */
#include "api/answer/estimate.h"

#include "models/generation.h"

#include <string.h>

static void whole(struct quantity *q, uint64_t value)
{
    if (!q->set)
        *q = (struct quantity){.set = true, .whole = value, .real = (double)value};
}

static void flag(enum tri *t, enum tri value)
{
    if (*t == TRI_UNSET)
        *t = value == TRI_UNSET ? TRI_FALSE : value;
}

/* Adds the word that means `value`. */
static void word_add(struct words *w, const struct word *vocabulary, int value)
{
    for (uint8_t i = 0; vocabulary[i].name; i++)
        if (vocabulary[i].value == value) {
            for (unsigned j = 0; j < w->n; j++)
                if (w->at[j] == i)
                    return;
            if (w->n < WORDS_MAX)
                w->at[w->n++] = i;
            return;
        }
}

static void word(struct words *w, const struct word *vocabulary, int value)
{
    if (!w->n)
        word_add(w, vocabulary, value);
}

static void text(const char **s, struct arena *a, release r)
{
    struct release_text t = release_text(r);

    if (!*s && r)
        *s = arena_str(a, t.text, strlen(t.text));
}

static void resolve_stack(struct estimate *e)
{
    struct stack_request *s = &e->rq.stack;
    struct arena *a = e->call->arena;

    word(&s->framework, framework_words, FRAMEWORK_TRANSFORMERS);
    text(&s->torch, a, e->stack.torch);
    text(&s->transformers, a, e->stack.transformers);
    text(&s->peft, a, e->stack.peft);
    text(&s->accelerate, a, e->stack.accelerate);
    text(&s->bitsandbytes, a, e->stack.bitsandbytes);
    text(&s->deepspeed, a, e->stack.deepspeed);
    text(&s->flash_attn, a, e->stack.flash_attn);
    text(&s->liger, a, e->stack.liger);
    text(&s->causal_conv1d, a, e->stack.causal_conv1d);
    text(&s->mamba_ssm, a, e->stack.mamba_ssm);
    text(&s->fla, a, e->stack.fla);
}

static void resolve_lora(struct lora_request *l, const struct lora *lora)
{
    whole(&l->rank, lora->rank);
    whole(&l->dropout, 0);
    word(&l->dtype, lora_dtype_words, (int)lora->dtype);
    word(&l->bias, lora_bias_words, LORA_BIAS_NONE);
    if (l->target_modules.set || (!lora->n_targets && !lora->pattern))
        return;
    l->target_modules.set = true;
    if (lora->pattern) {
        l->target_modules.is_string = true;
        l->target_modules.v[l->target_modules.n++] = lora->pattern_text;
    }
    for (uint32_t i = 0; i < lora->n_targets && i < STRS_MAX; i++)
        l->target_modules.v[l->target_modules.n++] = lora->targets[i];
}

static void resolve_methods(struct methods *m, const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const char *name = a->candidates[i].choice[AXIS_METHOD]->name;
        bool known = m->n == METHODS_MAX;

        for (unsigned k = 0; k < m->n; k++)
            known |= !strcmp(m->v[k], name);
        if (!known)
            m->v[m->n++] = name;
    }
}

/* What the candidates tried, each once. */
static void resolve_axes(struct training_request *t, const struct plan_answer *a)
{
    struct words tuning = {0}, checkpointing = {0};

    for (uint32_t i = 0; i < a->n; i++) {
        const struct plan_candidate *c = &a->candidates[i];

        if (!c->modelled)
            continue;
        word_add(&tuning, tuning_words, (int)c->step.r.tuning);
        word_add(&checkpointing, checkpointing_words, c->step.r.checkpoint_kind ? (int)c->step.r.checkpoint_kind : (int)c->step.r.gradient_checkpointing);
    }
    if (!t->tuning.n)
        t->tuning = tuning;
    if (!t->gradient_checkpointing.n)
        t->gradient_checkpointing = checkpointing;
    if (!t->methods.n)
        resolve_methods(&t->methods, a);
}

static void resolve_ddp(struct training_request *t, const struct recipe *r)
{
    whole(&t->buckets.ddp_bytes, r->ddp_bucket_bytes);
    flag(&t->find_unused_parameters, r->find_unused_parameters);
    flag(&t->gradient_as_bucket_view, r->gradient_as_bucket_view);
    flag(&t->sync_each_batch, r->sync_each_batch);
}

static void resolve_zero(struct estimate_request *rq, const struct recipe *r)
{
    struct training_request *t = &rq->training;
    const struct zero_recipe *z = &r->zero;

    whole(&t->buckets.reduce_elems, z->reduce_elems);
    whole(&t->buckets.allgather_elems, z->allgather_elems);
    flag(&t->overlap_comm, z->overlap_comm);
    flag(&t->sync_each_batch, r->sync_each_batch);
    if (r->method != METHOD_ZERO3) {
        flag(&t->buckets.round_robin, z->round_robin);
        return;
    }
    whole(&t->buckets.prefetch_elems, z->prefetch_elems);
    whole(&t->buckets.max_live_elems, z->max_live_elems);
    whole(&t->buckets.reuse_elems, z->reuse_elems);
    whole(&t->buckets.sub_group_elems, z->sub_group_elems);
    whole(&t->buckets.persistence_elems, z->persistence_elems);
    flag(&rq->stack.zero_init, z->zero_init);
}

static void resolve_fsdp(struct training_request *t, const struct recipe *r)
{
    const struct fsdp_recipe *f = &r->fsdp;

    if (method_is_fsdp2(r->method))
        word(&t->fsdp.wrap, wrap_words, (int)f->wrap);
    flag(&t->fsdp.forward_prefetch, f->forward_prefetch);
    flag(&t->fsdp.autocast, f->autocast);
    flag(&t->fsdp.cpu_ram_efficient_loading, f->cpu_ram_efficient_loading);
    flag(&t->sync_each_batch, r->sync_each_batch);
    word(&t->reduce_dtype, reduce_words, (int)f->reduce_dtype);
    if (method_is_hybrid(r->method))
        whole(&t->shard_group, r->shard_group);
    if (!method_is_fsdp1(r->method))
        return;
    word(&t->fsdp.backward_prefetch, prefetch_words, (int)f->backward_prefetch);
    flag(&t->fsdp.use_orig_params, f->use_orig_params);
    flag(&t->fsdp.limit_all_gathers, f->limit_all_gathers);
}

/* What only the first candidate's method reads. */
static void resolve_method(struct estimate_request *rq, const struct recipe *r)
{
    struct training_request *t = &rq->training;

    if (r->method == METHOD_DDP)
        resolve_ddp(t, r);
    if (method_is_zero(r->method))
        resolve_zero(rq, r);
    if (method_is_fsdp1(r->method) || method_is_fsdp2(r->method))
        resolve_fsdp(t, r);
    if (method_has_tensor_parallel(r->method))
        whole(&t->tensor_parallel, r->tensor_parallel);
    if (r->method == METHOD_PP)
        whole(&t->pipeline_parallel, r->pipeline_parallel);
    word(&t->offload, offload_words, (int)r->offload);
}

static void resolve_step(struct estimate *e, const struct plan_candidate *c)
{
    struct training_request *t = &e->rq.training;
    const struct recipe *r = &c->step.r;

    whole(&t->seq_len, r->seq_len_tokens);
    whole(&t->micro_batch_size, r->micro_batch_size);
    whole(&t->gradient_accumulation_steps, r->gradient_accumulation_steps);
    whole(&t->global_batch_size, c->global_batch_size);
    resolve_method(&e->rq, r);
    whole(&t->max_grad_norm, 0);
    t->max_grad_norm.real = r->max_grad_norm;
    word(&t->precision, precision_words, (int)r->precision);
    word(&t->optimizer, optimizer_words, (int)r->optimizer);
    word(&t->attention, attention_words, (int)r->attention);
    flag(&t->checkpoint_reentrant, r->checkpoint_reentrant);
    if (r->cudnn_attention != TRI_UNSET)
        flag(&t->cudnn_attention, r->cudnn_attention);
    flag(&t->attention_mask, r->attention_mask);
    flag(&t->use_cache, r->use_cache);
    flag(&t->keep_outputs, r->keep_outputs);
    if (r->tuning != TUNING_FULL)
        resolve_lora(&t->lora, &r->lora);
}

static void resolve_words(struct estimate_request *rq)
{
    struct training_request *t = &rq->training;
    bool int8 = t->quantization.n && !strcmp(quantization_words[t->quantization.at[0]].name, "int8");

    word(&rq->workload, workload_words, 0);
    word(&rq->objective, objective_words, OBJECTIVE_FASTEST);
    word(&t->quantization, quantization_words, 0);
    if (!t->prepare_kbit.n)
        t->prepare_kbit = (struct words){.n = 1, .at = {int8 ? 1 : 0}};
    word(&t->float8, float8_words, 0);
    word(&t->loss, loss_words, 0);
    flag(&t->compile, TRI_FALSE);
    flag(&t->optimizer_in_backward, TRI_FALSE);
    flag(&t->padded, TRI_FALSE);
    flag(&t->packing, TRI_FALSE);
    flag(&t->quantize_experts, TRI_FALSE);
    word(&t->stage, stage_words, 0);
    word(&t->trainer, trainer_words, TRAINER_TRL);
}

void resolve_request(struct estimate *e)
{
    const struct plan_answer *a = &e->answer;
    struct estimate_request *rq = &e->rq;

    whole(&rq->cluster.gpus_per_node, 1);
    whole(&rq->cluster.nodes, 1);
    whole(&rq->margin, 0);
    flag(&rq->allocator.expandable_segments, TRI_FALSE);
    resolve_stack(e);
    resolve_words(rq);
    resolve_axes(&rq->training, a);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled) {
            resolve_step(e, &a->candidates[i]);
            break;
        }
    word(&rq->training.offload, offload_words, OFFLOAD_NONE);
}

void resolve_inference(struct estimate *e, enum attention attention)
{
    struct estimate_request *rq = &e->rq;
    struct inference_request *i = &rq->inference;

    whole(&rq->cluster.gpus_per_node, 1);
    whole(&rq->cluster.nodes, 1);
    whole(&rq->margin, 0);
    flag(&rq->allocator.expandable_segments, TRI_FALSE);
    resolve_stack(e);
    word(&rq->workload, workload_words, WORKLOAD_INFERENCE);
    word(&i->kv_cache, kv_cache_words, 0);
    word(&i->cache, cache_words, CACHE_DYNAMIC);
    word(&i->engine, engine_words, 0);
    whole(&i->tensor_parallel, 1);
    flag(&rq->training.padded, TRI_FALSE);
    if (attention != ATTENTION_UNSET)
        word(&rq->training.attention, attention_words, (int)attention);
}
