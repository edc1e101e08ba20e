#include "infer/vllm.h"

#include "models/program.h"

#include <string.h>

enum {
    BLOCK_TOKENS = 16,             /* config/cache.py DEFAULT_BLOCK_SIZE */
    LATENT_BLOCK_TOKENS_CC10 = 64, /* platforms/cuda.py: FLASHINFER_MLA, whose blocks are of 32 or 64 */
    PAD_VOCABULARY = 64,
    BATCHES_IN_FLIGHT = 2, /* asynchronous scheduling: config/vllm.py max_concurrent_batches */
    LOGIT_BYTES_LOW = 6,   /* half, and the copy in fp32 that processing makes */
    LOGIT_BYTES_HIGH = 26, /* beside it values sorted and their places (int64), probabilities, noise: v1/sample/ops/topk_topp_sampler.py */
    PROBE_TOKENS = 8
};

/* EMPIRICAL: read off start-up logs of vLLM, no rule. "non_torch_memory" 0.20 to 0.35 GiB on one GPU (vllm-project/vllm#14447, #10517); "Estimated CUDA graph
 * memory" 0.52 GiB (LMCache/LMCache#3430) and 1.62 GiB (vllm-project/vllm#39559). */
static const struct vllm_range EMPIRICAL_OUTSIDE = {UINT64_C(50) << 20, UINT64_C(400) << 20};
static const struct vllm_range EMPIRICAL_GRAPHS = {UINT64_C(200) << 20, UINT64_C(1700) << 20};

struct looking {
    const struct vllm_question *q;
    struct vllm_answer *ret;
    struct cache_layer *layers;
    uint32_t n_layers;
    uint64_t widest; /* elements of a token that the widest part of a layer holds, beside those as wide as the model */
    struct err err;
};

static uint64_t up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* --- weights ---------------------------------------------------------------------------------------------------------------------- */
static bool is_table(const struct model *m, const struct module *owner)
{
    return owner == m->embeddings || owner == m->tree.head;
}

/* How many ranks share a parameter: heads of keys are copied where there are fewer than ranks (QKVParallelLinear). */
static uint64_t sharers(const struct looking *l, const struct model *m, const struct param *p)
{
    const struct module *owner = p->owner;
    uint32_t tp = l->q->tensor_parallel, kv = m->arch->kv_heads ? m->arch->kv_heads : m->arch->heads;

    if (tp == 1 || (p->ndim == 3 && !p->buffer) || is_table(m, owner))
        return tp;
    if (owner->split == SPLIT_NONE || owner->split == SPLIT_SUM_GRADIENT || (owner->split == SPLIT_ROWS && p == owner->bias))
        return 1;
    if (kv && kv < tp && (!strcmp(owner->name, "k_proj") || !strcmp(owner->name, "v_proj")))
        return kv;
    return tp;
}

static uint64_t bytes_of(const struct looking *l, const struct model *m, const struct param *p)
{
    uint64_t n = (uint64_t)param_numel(p);

    if (is_table(m, p->owner) && p->ndim == 2)
        n = up((uint64_t)p->size[0], (uint64_t)PAD_VOCABULARY * l->q->tensor_parallel) * (uint64_t)p->size[1];
    return n * dtype_bytes(p->dtype) / sharers(l, m, p);
}

/* Marlin keeps neither the order of rows nor zeros of symmetric groups. */
static bool is_given_up(const struct looking *l, const struct param *p)
{
    return !strcmp(p->name, "g_idx") || (!strcmp(p->name, "qzeros") && l->q->model.packed.kind != PACKING_AWQ4);
}

static void add_weights(struct looking *l, const struct model *m)
{
    const struct tree *t = &m->tree;

    for (uint32_t i = 0; i < t->n_modules; i++)
        for (const struct param *p = t->modules[i] ? t->modules[i]->params : NULL; p; p = p->next) {
            uint64_t n = p->stands_for > 0 ? (uint64_t)p->stands_for : p->stands_for < 0 ? 0 : (uint64_t)param_numel(p);

            if (p->tied)
                continue;
            if (!p->buffer)
                l->ret->tensors++;
            l->ret->parameters += p->buffer ? 0 : n;
            if (is_given_up(l, p))
                continue;
            l->ret->weights_bytes += bytes_of(l, m, p);
            if (p->ndim == 3 && !p->buffer)
                l->ret->expert_bytes += bytes_of(l, m, p);
            if (!p->buffer)
                l->ret->active_parameters +=
                    p->ndim == 3 && m->arch->experts ? (double)n * m->arch->experts_used / m->arch->experts : (double)n;
        }
}

/* cos_sin_cache, one for all layers: rotary_embedding/base.py */
static uint64_t rotary_table(const struct looking *l, const struct model *m)
{
    const struct arch *a = m->arch;
    uint64_t width = a->rotary_dim ? a->rotary_dim : l->n_layers && a->rope != ROPE_NONE ? l->layers[0].key_width : 0;

    return width * (a->max_positions ? a->max_positions : l->q->max_model_len) * dtype_bytes(l->q->model.dtype);
}

/* --- the profile ------------------------------------------------------------------------------------------------------------------ */
/* Of a container the outputs of what reads the hidden states, merged into one product (qkv, gate and up), and the input of what returns to them. */
static uint64_t held_in(const struct looking *l, const struct module *container, int64_t hidden)
{
    int64_t read = 0, inner = 0;

    for (const struct module *m = container->first; m; m = m->next) {
        int64_t part;

        if (m->kind != MODULE_LINEAR && m->kind != MODULE_CONV1D)
            continue;
        part = m->split == SPLIT_NONE ? 1 : l->q->tensor_parallel;
        if (m->in == hidden)
            read += m->out / part;
        if (m->out == hidden)
            inner = m->in / part > inner ? m->in / part : inner;
    }
    return inner ? (uint64_t)(read + inner) : 0;
}

/* fused_moe: one workspace for what goes into and comes out of experts, one between */
static uint64_t held_by_experts(const struct looking *l, const struct model *m, const struct module *owner)
{
    int64_t read = 0, inner = 0, tp = l->q->tensor_parallel;

    for (const struct param *p = owner->params; p; p = p->next)
        if (p->ndim == 3 && !p->buffer) {
            int64_t other = p->size[1] == m->arch->hidden ? p->size[2] : p->size[1];

            read = other > read ? other : read;
            inner = inner && inner < other ? inner : other;
        }
    if (!read)
        return 0;
    read = read / tp > m->arch->hidden ? read / tp : m->arch->hidden;
    return (uint64_t)(read + inner / tp) * (m->arch->experts_used ? m->arch->experts_used : 1);
}

static void find_widest(struct looking *l, const struct model *m)
{
    const struct tree *t = &m->tree;

    for (uint32_t i = 1; i < t->n_modules; i++) {
        uint64_t held = held_in(l, t->modules[i], m->arch->hidden), experts = held_by_experts(l, m, t->modules[i]);

        held = held > experts ? held : experts;
        l->widest = held > l->widest ? held : l->widest;
    }
}

/* get_batch_defaults() for `vllm serve`, cut to what the model can hold */
static void take_defaults(const struct vllm_question *q, struct vllm_answer *a)
{
    uint64_t gib = q->memory_bytes >> 30;
    bool large = gib >= 70 && !q->a100;

    a->batched_tokens = gib >= 160 ? 16384 : large ? 8192 : 2048;
    a->max_num_seqs = q->max_num_seqs ? q->max_num_seqs : large ? 1024 : 256;
    if (q->batched_tokens)
        a->batched_tokens = q->batched_tokens;
    else if ((uint64_t)a->max_num_seqs * q->max_model_len < a->batched_tokens)
        a->batched_tokens = a->max_num_seqs * q->max_model_len;
    if (!q->max_num_seqs && a->max_num_seqs > a->batched_tokens)
        a->max_num_seqs = a->batched_tokens;
    a->in_flight_tokens = BATCHES_IN_FLIGHT * a->batched_tokens;
}

/*
 * A layer: the residual, what goes through it, and a third that its caller still names where nothing is compiled; the widest part beside them. The sampler:
 * logits of a row for each sequence, gathered on every rank, while the hidden states live.
 */
static void take_profile(const struct looking *l, const struct model *m, struct vllm_answer *a)
{
    uint64_t half = dtype_bytes(l->q->model.dtype), tokens = a->batched_tokens, hidden = m->arch->hidden;
    uint64_t logits = (uint64_t)a->max_num_seqs * up(m->arch->vocab, PAD_VOCABULARY), kept = (tokens + a->max_num_seqs) * hidden * half;
    struct vllm_range layer = {tokens * half * (2 * hidden + l->widest), tokens * half * (3 * hidden + l->widest)};
    struct vllm_range sampler = {logits * LOGIT_BYTES_LOW + kept, logits * LOGIT_BYTES_HIGH + kept};

    a->profile.low = layer.low > sampler.low ? layer.low : sampler.low;
    a->profile.high = layer.high > sampler.high ? layer.high : sampler.high;
}

/* --- blocks ----------------------------------------------------------------------------------------------------------------------- */
static uint64_t row_bytes(const struct looking *l, const struct cache_layer *c)
{
    uint32_t tp = l->q->tensor_parallel, heads = c->heads > tp ? c->heads / tp : 1;

    return (uint64_t)heads * (c->key_width + c->value_width) * l->q->kv_bytes;
}

static bool is_alike(const struct looking *l, const struct cache_layer *a, const struct cache_layer *b)
{
    return a->window == b->window && row_bytes(l, a) == row_bytes(l, b);
}

/* Layers of one kind are one group; of two kinds groups of equal depth: of the kind with fewer layers, of the one with more where those are nearly as many. */
static bool make_groups(struct looking *l, struct vllm_answer *a)
{
    const struct cache_layer *first = l->layers, *other = NULL;
    uint32_t n = 0, depth, block = first->value_width || l->q->model.device->cc_major < 10 ? BLOCK_TOKENS : LATENT_BLOCK_TOKENS_CC10;
    uint64_t page = row_bytes(l, first) * block, other_page;

    for (uint32_t i = 0; i < l->n_layers; i++) {
        const struct cache_layer *c = &l->layers[i];

        if (c->states || (other && !is_alike(l, c, first) && !is_alike(l, c, other)))
            return false;
        n += is_alike(l, c, first);
        other = other || is_alike(l, c, first) ? other : c;
        a->bytes_per_token += row_bytes(l, c);
    }
    if (!other) {
        a->group[a->n_groups++] = (struct vllm_group){block, first->window, n};
        a->bytes_per_block = page * n;
        return true;
    }
    other_page = row_bytes(l, other) * block;
    depth = n < l->n_layers - n ? n : l->n_layers - n;
    if (2 * (l->n_layers - depth) < 3 * depth)
        depth = l->n_layers - depth;
    for (int of = 0; of < 2; of++) { /* unify_kv_cache_spec_page_size(): the smaller page has as many more tokens */
        uint64_t own = of ? other_page : page, greater = page > other_page ? page : other_page;
        uint32_t layers = of ? l->n_layers - n : n, tokens = greater % own ? block : block * (uint32_t)(greater / own);

        for (uint32_t left = layers; left && a->n_groups < VLLM_MOST_GROUPS; left -= left < depth ? left : depth)
            a->group[a->n_groups++] = (struct vllm_group){tokens, (of ? other : first)->window, depth};
        a->bytes_per_block = greater * depth;
    }
    return a->n_groups < VLLM_MOST_GROUPS;
}

uint64_t vllm_blocks_of(const struct vllm_answer *a, uint64_t tokens)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < a->n_groups; i++) {
        const struct vllm_group *g = &a->group[i];
        uint64_t held = (uint64_t)g->window - 1 + a->in_flight_tokens;

        n += g->window ? ((held < tokens ? held : tokens) + g->block_tokens - 1) / g->block_tokens + 1
                       : (tokens + g->block_tokens - 1) / g->block_tokens;
    }
    return n;
}

uint64_t vllm_longest(const struct vllm_answer *a, uint64_t blocks, uint64_t most)
{
    uint64_t low = 0, high = most + 1;

    while (high - low > 1) {
        uint64_t at = low + (high - low) / 2;

        *(vllm_blocks_of(a, at) <= blocks ? &low : &high) = at;
    }
    return low;
}

/* --- the budget ------------------------------------------------------------------------------------------------------------------- */
static void look(void *of, const struct run *r, struct model *m, struct generation *g)
{
    struct looking *l = of;

    (void)r;
    l->n_layers = generation_layers(g, l->layers, 2 * m->arch->layers);
    if (l->q->tensor_parallel > 1 && program_split(m, &l->err))
        return;
    add_weights(l, m);
    l->ret->weights_bytes += rotary_table(l, m);
    find_widest(l, m);
    take_defaults(l->q, l->ret);
    take_profile(l, m, l->ret);
}

static uint64_t left_of(uint64_t requested, uint64_t taken)
{
    return requested > taken ? requested - taken : 0;
}

static enum err_code refuse(struct err *err, const char *detail)
{
    return err_set(err, ERR_FIELD_CONFLICT, "/inference/engine", "%s", detail);
}

static bool divides(const struct vllm_question *q)
{
    const struct arch *a = q->model.arch;
    uint32_t kv = a->kv_heads ? a->kv_heads : a->heads, tp = q->tensor_parallel;

    return a->heads % tp == 0 && (kv % tp == 0 || tp % kv == 0);
}

enum err_code vllm_budget(const struct vllm_question *q, struct arena *arena, struct vllm_answer *ret, struct err *err)
{
    struct vllm_answer a = {0};
    struct looking l = {.q = q, .ret = &a};
    struct generate_question probe = q->model;
    struct generated made;
    enum err_code rc;

    if (q->model.weights)
        return refuse(err, "bitsandbytes' weights under vLLM are not modelled yet");
    if (!divides(q))
        return refuse(err, "tensor_parallel does not divide the heads");
    l.layers = arena_array(arena, struct cache_layer, 2 * (size_t)q->model.arch->layers + 1);
    if (!l.layers)
        return err_set(err, ERR_NOMEM, "", "no room for the answer");
    probe.batch_size = probe.new_tokens = 1;
    probe.prompt_tokens = PROBE_TOKENS;
    probe.replay = REPLAY_NONE;
    probe.padded = probe.timed = false;
    probe.look = look;
    probe.looks = &l;
    rc = generate(&probe, arena, &made, err);
    if (!rc && l.err.code) {
        *err = l.err;
        rc = l.err.code;
    }
    if (rc)
        return rc;
    if (!l.n_layers || !make_groups(&l, &a))
        return refuse(
            err, "blocks of this cache (states of convolutions or recurrences, or more than two kinds of layers) are not modelled yet");
    a.requested_bytes = (uint64_t)((double)q->memory_bytes * q->utilization + 0.999999);
    a.outside = EMPIRICAL_OUTSIDE;
    a.graphs = EMPIRICAL_GRAPHS;
    a.pool.low = left_of(a.requested_bytes, a.weights_bytes + a.profile.high + a.outside.high + a.graphs.high);
    a.pool.high = left_of(a.requested_bytes, a.weights_bytes + a.profile.low + a.outside.low + a.graphs.low);
    a.blocks = (struct vllm_range){a.pool.low / a.bytes_per_block, a.pool.high / a.bytes_per_block};
    *ret = a;
    return ERR_OK;
}
