/* vllm_weights.c - weights of a rank as vLLM's classes share them. See vllm.h. */
#include "infer/vllm_inside.h"

#include "base/name.h"

#include <string.h>

enum { FP8_BLOCK = 128, MX_BLOCK = 32 };

#define OWN(type)
#define GAVE_UP(type, last) {type, last},
static const struct {
    const char *type, *last;
} gave_up[] = {
#include "infer/vllm_models.def"
};
#undef OWN
#undef GAVE_UP

bool vllm_has_own(const char *model_type)
{
#define OWN(type) type ";"
#define GAVE_UP(type, last)
    static const char own[] =
#include "infer/vllm_models.def"
        "";
#undef OWN
#undef GAVE_UP

    return name_in_list(model_type, own);
}

const char *vllm_gave_up(const char *model_type)
{
    for (size_t i = 0; i < sizeof gave_up / sizeof *gave_up; i++)
        if (!strcmp(model_type, gave_up[i].type))
            return gave_up[i].last;
    return NULL;
}

static bool is_table(const struct model *m, const struct module *owner)
{
    return owner == m->embeddings || owner == m->tree.head;
}

bool vllm_is_expert(const struct param *p)
{
    return p->ndim == 3 && !p->buffer && p->size[1] > 1 && p->size[2] > 1;
}

/* ReplicatedLinear and GateLinear of its models: routers, the first half of latent projections, what stands around a narrow embedding. */
static bool is_replicated(const struct module *m)
{
    static const char names[] = "gate;router;shared_expert_gate;q_a_proj;kv_a_proj_with_mqa;per_layer_input_gate;per_layer_projection;project_in;project_out;"
                                "fc1_latent_proj;fc2_latent_proj";

    return name_in_list(m->name, names) || (m->parent && m->parent->name && !strcmp(m->parent->name, "router"));
}

/* RowParallelLinear, whose bias each rank has whole. */
static bool is_row(const struct module *m)
{
    return name_in_list(m->name, "o_proj;out_proj;c_proj;dense;dense_4h_to_h;down_proj;fc2;fc_out;output_linear;proj;w2");
}

static uint32_t kv_heads(const struct model *m)
{
    return m->arch->kv_heads ? m->arch->kv_heads : m->arch->heads;
}

uint32_t vllm_sharers(const struct looking *l, const struct module *m)
{
    bool shared = l->own ? !is_replicated(m) : m->split != SPLIT_NONE && m->split != SPLIT_SUM_GRADIENT;

    return shared ? l->q->tensor_parallel : 1;
}

/* Scans and short convolutions: mamba_mixer.py, mamba_mixer2.py, short_conv.py, gdn/qwen_gdn_linear_attn.py */
static bool is_of_scan(const struct param *p)
{
    return !strcmp(p->owner->name, "conv1d") || !strcmp(p->owner->name, "conv") || !strcmp(p->name, "A_log") || !strcmp(p->name, "D") ||
           !strcmp(p->name, "dt_bias");
}

/* How many ranks share a parameter: heads of keys are copied where there are fewer than ranks (QKVParallelLinear). */
static uint64_t sharers(const struct looking *l, const struct model *m, const struct param *p)
{
    const struct module *owner = p->owner;
    uint32_t tp = l->q->tensor_parallel, kv = kv_heads(m);

    if (tp == 1 || vllm_is_expert(p) || is_table(m, owner) || (l->own && is_of_scan(p)))
        return tp;
    if (l->own && owner->kind != MODULE_LINEAR && owner->kind != MODULE_CONV1D)
        return 1;
    if (vllm_sharers(l, owner) == 1 || (p == owner->bias && (l->own ? is_row(owner) : owner->split == SPLIT_ROWS)))
        return 1;
    if (kv && kv < tp && (!strcmp(owner->name, "k_proj") || !strcmp(owner->name, "v_proj")))
        return kv;
    return tp;
}

/* Queries, keys and values in one, with fewer heads of keys than ranks: rows of a rank; 0: it is none. */
static uint64_t rows_of_merged(const struct looking *l, const struct model *m, const struct param *p)
{
    uint32_t tp = l->q->tensor_parallel, kv = kv_heads(m), heads = m->arch->heads, width = m->arch->head_dim;

    if (!l->own || kv >= tp || !heads || p != p->owner->weight || (uint64_t)p->owner->out != (uint64_t)(heads + 2 * kv) * width)
        return 0;
    return (uint64_t)(heads / tp + 2) * width;
}

/* fused_moe/oracle/mxfp4.py: kernels round both widths up. Hopper's, triton_kernels, lay values in tiles of 64 bytes x 256 columns, scales in 4 x 256. */
static uint64_t mxfp4_bytes(const struct device *d, uint64_t columns, uint64_t along)
{
    if (d->cc_major != 9)
        return columns * along / 2 + columns * along / MX_BLOCK;
    return vllm_up(columns, 256) * (vllm_up(along / 2, 64) + vllm_up(along / MX_BLOCK, 4));
}

/* Experts of a rank: of each the width between is shared, in whole blocks. */
static uint64_t expert_bytes(const struct looking *l, const struct model *m, const struct param *p)
{
    const struct device *d = l->q->model.device;
    uint64_t hidden = m->arch->hidden, tp = l->q->tensor_parallel, n = (uint64_t)p->size[0];
    uint64_t parts = strstr(p->name, "gate_up") ? 2 : 1, other = (uint64_t)(p->size[1] == (int64_t)hidden ? p->size[2] : p->size[1]) / parts / tp;
    uint64_t each = parts * other * hidden, group = l->q->model.packed.group;

    switch (l->q->model.packed.kind) {
    case PACKING_FP8:
        return n * (each + 4 * parts * ((other + FP8_BLOCK - 1) / FP8_BLOCK) * ((hidden + FP8_BLOCK - 1) / FP8_BLOCK));
    case PACKING_GPTQ4:
        return n * (each / 2 + 2 * each / (group ? group : hidden));
    case PACKING_GPTQ8:
        return n * (each + 2 * each / (group ? group : hidden));
    case PACKING_AWQ4:
        return n * (each / 2 + 5 * (each / (group ? group : hidden)) / 2);
    case PACKING_MXFP4:
        other = vllm_up(other, d->cc_major == 9 ? 64 : 128);
        hidden = d->cc_major == 9 ? hidden : vllm_up(hidden, 256);
        return n * (parts == 2 ? mxfp4_bytes(d, parts * other, hidden) : mxfp4_bytes(d, hidden, other));
    case PACKING_NONE:
        break;
    }
    return n * each * dtype_bytes(p->dtype);
}

static uint64_t bytes_of(const struct looking *l, const struct model *m, const struct param *p)
{
    uint64_t n = (uint64_t)param_numel(p), rows = rows_of_merged(l, m, p);

    if (vllm_is_expert(p))
        return expert_bytes(l, m, p);
    if (is_table(m, p->owner) && p->ndim == 2)
        n = vllm_up((uint64_t)p->size[0], (uint64_t)VLLM_PAD_VOCABULARY * l->q->tensor_parallel) * (uint64_t)p->size[1];
    if (rows)
        return n / (uint64_t)p->owner->out * rows * dtype_bytes(p->dtype);
    return n * dtype_bytes(p->dtype) / sharers(l, m, p);
}

/* Marlin keeps neither the order of rows nor zeros of symmetric groups. */
static bool is_given_up(const struct looking *l, const struct param *p)
{
    return !strcmp(p->name, "g_idx") || (!strcmp(p->name, "qzeros") && l->q->model.packed.kind != PACKING_AWQ4);
}

void vllm_add_weights(struct looking *l, const struct model *m)
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
            if (vllm_is_expert(p))
                l->ret->expert_bytes += bytes_of(l, m, p);
            if (!p->buffer)
                l->ret->active_parameters += vllm_is_expert(p) && m->arch->experts ? (double)n * m->arch->experts_used / m->arch->experts : (double)n;
        }
}

/* cos_sin_cache, one for all layers: rotary_embedding/base.py */
uint64_t vllm_rotary_table(const struct looking *l, const struct model *m)
{
    const struct arch *a = m->arch;
    uint64_t width = a->rotary_dim;

    for (uint32_t i = 0; i < l->n_layers && !width && a->rope != ROPE_NONE; i++)
        width = l->layers[i].key_width;
    return width * (a->max_positions ? a->max_positions : l->q->max_model_len) * dtype_bytes(l->q->model.dtype);
}
