#include "infer/vllm_inside.h"

#include "models/program.h"

enum {
    BATCHES_IN_FLIGHT = 2, /* asynchronous scheduling: config/vllm.py max_concurrent_batches */
    LOGIT_BYTES_LOW = 6,   /* half, and the copy in fp32 that processing makes */
    LOGIT_BYTES_HIGH = 26, /* beside it values sorted and their places (int64), probabilities, noise: v1/sample/ops/topk_topp_sampler.py */
    PROBE_TOKENS = 8
};

/* EMPIRICAL: read off start-up logs of vLLM, no rule. "non_torch_memory" 0.20 to 0.35 GiB on one GPU (vllm-project/vllm#14447, #10517); "Estimated CUDA graph
 * memory" 0.52 GiB (LMCache/LMCache#3430) and 1.62 GiB (vllm-project/vllm#39559). */
static const struct vllm_range EMPIRICAL_OUTSIDE = {UINT64_C(50) << 20, UINT64_C(400) << 20};
static const struct vllm_range EMPIRICAL_GRAPHS = {UINT64_C(200) << 20, UINT64_C(1700) << 20};

/* --- the profile ------------------------------------------------------------------------------------------------------------------ */
/* Of a container the outputs of what reads the hidden states, merged into one product (qkv, gate and up), and the input of what returns to them. */
static uint64_t held_in(const struct looking *l, const struct module *container, int64_t hidden)
{
    int64_t read = 0, inner = 0;

    for (const struct module *m = container->first; m; m = m->next) {
        int64_t part;

        if (m->kind != MODULE_LINEAR && m->kind != MODULE_CONV1D)
            continue;
        part = (int64_t)vllm_sharers(l, m);
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
        if (vllm_is_expert(p)) {
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

/* States at the ends of a prompt's chunks, of one layer: ssd_chunk_state.py in fp32, fla's chunk_delta_h.py in half. */
static uint64_t chunk_states(const struct looking *l, uint64_t tokens)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < l->n_layers; i++) {
        const struct cache_layer *c = &l->layers[i];
        uint64_t each = (uint64_t)c->state_heads / l->q->tensor_parallel * c->head_elems * (c->states == STATES_MAMBA2 ? 4 : dtype_bytes(l->q->model.dtype));
        uint64_t n = c->chunk_tokens ? (tokens + c->chunk_tokens - 1) / c->chunk_tokens * each : 0;

        most = n > most ? n : most;
    }
    return most;
}

/*
 * A layer: the residual, what goes through it, and a third that its caller still names where nothing is compiled; the widest part beside them. The sampler:
 * logits of a row for each sequence, gathered on every rank, while the hidden states live.
 */
static void take_profile(const struct looking *l, const struct model *m, struct vllm_answer *a)
{
    uint64_t half = dtype_bytes(l->q->model.dtype), tokens = a->batched_tokens, hidden = m->arch->hidden;
    uint64_t logits = (uint64_t)a->max_num_seqs * vllm_up(m->arch->vocab, VLLM_PAD_VOCABULARY), kept = (tokens + a->max_num_seqs) * hidden * half;
    uint64_t compiled = tokens * half * (2 * hidden + l->widest), eager = tokens * half * (3 * hidden + l->widest);
    struct vllm_range layer = {l->q->eager ? eager : compiled, eager + chunk_states(l, tokens)};
    struct vllm_range sampler = {logits * LOGIT_BYTES_LOW + kept, logits * LOGIT_BYTES_HIGH + kept};

    a->profile.low = layer.low > sampler.low ? layer.low : sampler.low;
    a->profile.high = layer.high > sampler.high ? layer.high : sampler.high;
}

/* --- the budget ------------------------------------------------------------------------------------------------------------------- */
static void look(void *of, const struct run *r, struct model *m, struct generation *g)
{
    struct looking *l = of;
    const char *of_class;

    (void)r;
    l->n_layers = generation_layers(g, l->layers, 2 * m->arch->layers);
    l->own = vllm_has_own(m->arch->model_type);
    of_class = l->own || !m->source->config ? NULL : program_of_class(m->source->config);
    l->own |= of_class && vllm_has_own(of_class);
    if (l->q->tensor_parallel > 1 && !l->own && program_split(m, &l->err))
        return;
    vllm_add_weights(l, m);
    l->ret->weights_bytes += vllm_rotary_table(l, m);
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

    if (!divides(q))
        return refuse(err, "tensor_parallel does not divide the heads");
    l.layers = arena_array(arena, struct cache_layer, 2 * (size_t)q->model.arch->layers + 1);
    if (!l.layers)
        return err_set(err, ERR_NOMEM, "", "no room for the answer");
    probe.batch_size = probe.new_tokens = 1;
    probe.prompt_tokens = PROBE_TOKENS;
    probe.packed.leaves_experts = true;
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
    if (vllm_indivisible(&l))
        return refuse(err, vllm_indivisible(&l));
    if (!l.n_layers || !vllm_make_groups(&l, &a))
        return refuse(err, "blocks of a cache with so many kinds of layers are not modelled");
    a.requested_bytes = (uint64_t)((double)q->memory_bytes * q->utilization + 0.999999);
    a.outside = EMPIRICAL_OUTSIDE;
    a.graphs = q->eager ? (struct vllm_range){0, 0} : EMPIRICAL_GRAPHS;
    a.pool.low = left_of(a.requested_bytes, a.weights_bytes + a.profile.high + a.outside.high + a.graphs.high);
    a.pool.high = left_of(a.requested_bytes, a.weights_bytes + a.profile.low + a.outside.low + a.graphs.low);
    a.blocks = (struct vllm_range){a.pool.low / a.bytes_per_block, a.pool.high / a.bytes_per_block};
    *ret = a;
    return ERR_OK;
}
