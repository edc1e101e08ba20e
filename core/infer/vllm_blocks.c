/* vllm_blocks.c - layers in groups that share blocks, and what a request holds of them. See vllm.h. */
#include "infer/vllm_inside.h"

enum {
    BLOCK_TOKENS = 16,             /* config/cache.py DEFAULT_BLOCK_SIZE; FlashAttention's are multiples of it */
    LATENT_BLOCK_TOKENS_CC10 = 64, /* platforms/cuda.py: FLASHINFER_MLA, whose blocks are of 32 or 64 */
    LATENT_BESIDE_STATES = 128,    /* platforms/interface.py _align_hybrid_block_size() */
    DELTA_ALIGNMENT = 64,          /* v1/attention/backends/gdn_attn.py FLASHINFER_GDN_CHECKPOINT_ALIGNMENT */
    MOST_KINDS = 8
};

/* Layers whose blocks are alike. */
struct kind {
    const struct cache_layer *of;
    bool states;
    uint64_t page; /* bytes of a layer's block */
    uint32_t tokens, layers, held;
};

static uint64_t row_bytes(const struct looking *l, const struct cache_layer *c)
{
    uint32_t tp = l->q->tensor_parallel, heads = c->heads > tp ? c->heads / tp : 1;

    return (uint64_t)heads * (c->key_width + c->value_width) * l->q->kv_bytes;
}

/* mamba_utils.py MambaStateShapeCalculator: groups of Mamba 2 that ranks do not divide are copied. */
static uint64_t state_bytes(const struct looking *l, const struct cache_layer *c)
{
    uint64_t tp = l->q->tensor_parallel, half = dtype_bytes(l->q->model.dtype);
    uint64_t extra = c->groups < tp && c->groups % tp ? (tp - c->groups) * c->group_channels : 0;

    return (c->conv_channels + extra) / tp * c->conv_columns * half + (uint64_t)c->state_heads / tp * c->head_elems * (c->states_in_full ? 4 : half);
}

const char *vllm_indivisible(const struct looking *l)
{
    uint32_t tp = l->q->tensor_parallel;

    for (uint32_t i = 0; i < l->n_layers; i++)
        if (l->layers[i].states && (l->layers[i].state_heads % tp || l->layers[i].conv_channels % tp))
            return "tensor_parallel does not divide the heads of the states";
    return NULL;
}

/* The kernels that leave a state in the middle of a prompt: mamba_mixer2.py; qwen_gdn_linear_attn.py where FlashInfer has them. */
static bool leaves_checkpoints(const struct looking *l, const struct cache_layer *c)
{
    return c->states == STATES_MAMBA2 || (c->states == STATES_DELTA && l->q->model.device->cc_major >= 9);
}

static bool is_alike(const struct looking *l, const struct kind *k, const struct cache_layer *c, bool states)
{
    if (k->states != states)
        return false;
    return states ? k->page == state_bytes(l, c) : k->of->window == c->window && row_bytes(l, k->of) == row_bytes(l, c);
}

static bool add_kind(const struct looking *l, struct kind *kinds, uint32_t *n, const struct cache_layer *c, bool states)
{
    struct kind *k = kinds;

    while (k < kinds + *n && !is_alike(l, k, c, states))
        k++;
    if (k == kinds + MOST_KINDS)
        return false;
    if (k == kinds + *n) {
        bool latent = !states && !c->value_width;

        *k = (struct kind){.of = c, .states = states, .tokens = latent && l->q->model.device->cc_major >= 10 ? LATENT_BLOCK_TOKENS_CC10 : BLOCK_TOKENS};
        k->page = states ? state_bytes(l, c) : row_bytes(l, c) * k->tokens;
        ++*n;
    }
    k->layers++;
    return true;
}

static const struct kind *first_with(const struct kind *kinds, uint32_t n, bool states)
{
    for (uint32_t i = 0; i < n; i++)
        if (kinds[i].states == states)
            return &kinds[i];
    return NULL;
}

static uint32_t common(uint32_t a, uint32_t b)
{
    uint32_t n = a;

    while (n % b)
        n += a;
    return n;
}

/* _align_hybrid_block_size(): a block of keys is at least as large as a layer's states, which are padded to it. */
static void align(const struct looking *l, struct kind *kinds, uint32_t n)
{
    const struct kind *keys = first_with(kinds, n, false), *states = first_with(kinds, n, true);
    uint64_t largest = 0, of_token;
    uint32_t step;

    if (!states)
        return;
    for (uint32_t i = 0; i < n; i++) {
        if (!kinds[i].states)
            continue;
        kinds[i].held = !keys ? 1 : leaves_checkpoints(l, kinds[i].of) ? 3 : 2; /* MambaSpec.max_memory_usage_bytes(): "align" where prefixes are cached */
        largest = kinds[i].page > largest ? kinds[i].page : largest;
    }
    if (!keys)
        return;
    of_token = row_bytes(l, keys->of);
    step = keys->of->value_width ? keys->tokens : LATENT_BESIDE_STATES;
    if (states->of->states == STATES_DELTA && leaves_checkpoints(l, states->of))
        step = common(step, DELTA_ALIGNMENT);
    step *= (uint32_t)((largest + step * of_token - 1) / (step * of_token));
    for (uint32_t i = 0; i < n; i++)
        if (!kinds[i].states) {
            kinds[i].tokens = step;
            kinds[i].page = row_bytes(l, kinds[i].of) * step;
        }
}

/* unify_kv_cache_spec_page_size(): the smaller page has as many more tokens, or is padded. */
static uint64_t unify(struct kind *kinds, uint32_t n)
{
    uint64_t greatest = 0;

    for (uint32_t i = 0; i < n; i++)
        greatest = kinds[i].page > greatest ? kinds[i].page : greatest;
    for (uint32_t i = 0; i < n; i++)
        if (!kinds[i].states && greatest % kinds[i].page == 0)
            kinds[i].tokens *= (uint32_t)(greatest / kinds[i].page);
    return greatest;
}

/* _get_kv_cache_groups_uniform_page_size(): groups of equal depth, that of the kind with fewest layers, or with most where those are nearly as many. */
static uint32_t depth_of(const struct kind *kinds, uint32_t n)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < n; i++) {
        least = kinds[i].layers < least ? kinds[i].layers : least;
        most = kinds[i].layers > most ? kinds[i].layers : most;
    }
    return 2 * most < 3 * least ? most : least;
}

bool vllm_make_groups(struct looking *l, struct vllm_answer *a)
{
    struct kind kinds[MOST_KINDS];
    uint32_t n = 0, depth;
    uint64_t page;

    for (uint32_t i = 0; i < l->n_layers; i++) {
        const struct cache_layer *c = &l->layers[i];

        if ((c->states && !add_kind(l, kinds, &n, c, true)) || (c->key_width && !add_kind(l, kinds, &n, c, false)))
            return false;
        a->bytes_per_token += c->key_width ? row_bytes(l, c) : 0;
        a->state_bytes += c->states ? state_bytes(l, c) : 0;
    }
    align(l, kinds, n);
    page = unify(kinds, n);
    depth = depth_of(kinds, n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t left = kinds[i].layers; left && a->n_groups < VLLM_MOST_GROUPS; left -= left < depth ? left : depth)
            a->group[a->n_groups++] = (struct vllm_group){kinds[i].tokens, kinds[i].states ? 0 : kinds[i].of->window, depth, kinds[i].held};
    a->bytes_per_block = page * depth;
    return n && a->n_groups < VLLM_MOST_GROUPS;
}

uint64_t vllm_blocks_of(const struct vllm_answer *a, uint64_t tokens)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < a->n_groups; i++) {
        const struct vllm_group *g = &a->group[i];
        uint64_t held = (uint64_t)g->window - 1 + a->in_flight_tokens;

        if (g->state_blocks)
            n += g->state_blocks;
        else
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
