/* blocks.c - norms, rotary, activations, losses, layers. Attention and masks: attention.c, masks.c. */
#include "models/blocks.h"

#include "torch/checkpoint.h"

#include <string.h>

/* --------------------------------------------------------------------------------------------------------------- norms */
/* LlamaRMSNorm.forward */
static val rms_norm_forward(struct run *r, struct module *m, val x)
{
    struct frame f = frame_enter(r);
    val hidden = local(r, x), variance, scale;
    enum dtype dtype;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    dtype = dtype_of(r, x);
    rebind(r, &hidden, to_dtype(r, hidden, DTYPE_FP32));
    variance = local(r, mean_last(r, pow_scalar(r, hidden, 2)));
    scale = rsqrt(r, add_scalar(r, variance));
    rebind(r, &hidden, mul(r, hidden, scale));
    return frame_leave(r, f, mul(r, m->weight->value, to_dtype(r, hidden, dtype)));
}

struct module *rms_norm(struct tree *t, struct module *parent, const char *name, int64_t width)
{
    struct module *m = container(t, parent, name);

    if (t->error.code)
        return m;
    m->kind = MODULE_NORM;
    m->forward = rms_norm_forward;
    m->weight = param_add(t, m, "weight", SHAPE(width));
    return m;
}

/* --------------------------------------------------------------------------------------------------------- activations */
/* activations.py NewGELUActivation: 0.5 * x * (1.0 + tanh(sqrt(2/pi) * (x + 0.044715 * pow(x, 3.0)))) */
static val gelu_new(struct run *r, val x)
{
    struct frame f = frame_enter(r);
    val half, inner;

    (void)local(r, x);
    half = local(r, mul_scalar(r, x));
    inner = mul_scalar(r, pow_scalar(r, x, 3));
    inner = mul_scalar(r, add(r, x, inner));
    inner = add_scalar(r, tanh_op(r, inner));
    inner = mul(r, half, inner);
    return frame_leave(r, f, inner);
}

/* 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))) */
static val gelu_fast(struct run *r, val x)
{
    struct frame f = frame_enter(r);
    val half, wide, inner;

    (void)local(r, x);
    half = local(r, mul_scalar(r, x));
    wide = local(r, mul_scalar(r, x));
    inner = add_scalar(r, mul(r, mul_scalar(r, x), x));
    inner = mul(r, wide, inner);
    inner = add_scalar(r, tanh_op(r, inner));
    inner = mul(r, half, inner);
    return frame_leave(r, f, inner);
}

static val activation_forward(struct run *r, struct module *m, val x)
{
    switch ((enum activation)m->variant) {
    case ACT_SILU:
        return silu(r, x);
    case ACT_RELU:
        return relu(r, x);
    case ACT_GELU_NEW:
        return gelu_new(r, x);
    case ACT_GELU_FAST:
        return gelu_fast(r, x);
    case ACT_BLOOM_GELU:
        return gelu_function(r, x);
    case ACT_GELU:
    case ACT_GELU_PYTORCH_TANH:
        return gelu(r, x);
    default:
        run_fail(r, ERR_FIELD_VALUE, "/config/hidden_act", "this activation has no program here yet");
        return 0;
    }
}

struct module *activation_module(struct tree *t, struct module *parent, const char *name, enum activation act)
{
    struct module *m = container(t, parent, name);

    if (t->error.code)
        return m;
    m->kind = MODULE_ACTIVATION;
    m->forward = activation_forward;
    m->variant = (int)act;
    return m;
}

/* -------------------------------------------------------------------------------------------------------------- rotary */
/* freqs = ids[..., None].float() * inv_freq */
static val rotary_product(struct run *r, val ids, val inv_freq)
{
    val positions = to_dtype(r, unsqueeze(r, ids, -1), DTYPE_FP32);

    inv_freq = to_dtype(r, inv_freq, DTYPE_FP32); /* a wrapper may have cast the buffer */
    return mul(r, positions, inv_freq);
}

/* freqs = (inv_freq[None, :, None].float().expand(..) @ ids[:, None, :].float()).transpose(1, 2), outside autocast */
static val rotary_matmul(struct run *r, val ids, val inv_freq)
{
    val wide = to_dtype(r, unsqueeze(r, unsqueeze(r, inv_freq, 0), -1), DTYPE_FP32), positions;

    wide = local(r, expand(r, wide, SHAPE(1, size_of(r, inv_freq, 0), 1)));
    positions = local(r, to_dtype(r, unsqueeze(r, ids, 1), DTYPE_FP32));
    return transpose(r, matmul(r, wide, positions), 1, 2);
}

/* emb = cat((freqs, freqs)); cos = emb.cos() * attention_scaling; .. */
struct two rotary_tables(struct run *r, const struct model *m, struct module *rotary, val ids, enum dtype dtype, val inv_freq)
{
    struct frame f = module_enter(r, rotary);
    bool grad_enabled = r->grad_enabled, autocast = r->autocast, scales = m->q->rope_once, at_once = m->q->rope_scales_at_once;
    val freqs, emb, cos, sin;
    struct two out;

    r->grad_enabled = r->autocast = false;
    freqs = local(r, m->q->rope_by_product ? rotary_product(r, ids, inv_freq) : rotary_matmul(r, ids, inv_freq));
    emb = local(r, cat(r, 2, (val[]){freqs, freqs}, -1));
    cos = local(r, scales && at_once ? mul_scalar(r, cos_op(r, emb)) : cos_op(r, emb));
    sin = local(r, scales && at_once ? mul_scalar(r, sin_op(r, emb)) : sin_op(r, emb));
    if (scales && !at_once) {
        rebind(r, &cos, mul_scalar(r, cos));
        rebind(r, &sin, mul_scalar(r, sin));
    }
    out.a = give(r, to_dtype(r, cos, dtype));
    out.b = give(r, to_dtype(r, sin, dtype));
    r->autocast = autocast;
    r->grad_enabled = grad_enabled;
    (void)frame_leave(r, f, 0);
    return out;
}

/* cat((-x2, x1), dim=-1) */
val rotate_half(struct run *r, val x)
{
    struct frame f = frame_enter(r);
    int64_t d;
    val x1, x2;

    (void)local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    d = size_of(r, x, -1);
    x1 = local(r, slice(r, x, -1, 0, d / 2));
    x2 = local(r, slice(r, x, -1, d / 2, d));
    return frame_leave(r, f, cat(r, 2, (val[]){neg(r, x2), x1}, -1));
}

struct two apply_rotary_at(struct run *r, val q, val k, val cos, val sin, val ids)
{
    struct frame f = frame_enter(r);
    struct two out = {0};
    val c, s, embed[2], in[2];

    in[0] = q;
    in[1] = k;
    if (run_dead(r))
        return out;
    c = local(r, unsqueeze(r, ids ? index_rows(r, cos, ids) : cos, 1));
    s = local(r, unsqueeze(r, ids ? index_rows(r, sin, ids) : sin, 1));
    for (int i = 0; i < 2; i++) {
        val straight = mul(r, in[i], c), turned = mul(r, rotate_half(r, in[i]), s);

        embed[i] = local(r, add(r, straight, turned));
    }
    out.a = give(r, embed[0]);
    out.b = give(r, embed[1]);
    (void)frame_leave(r, f, 0);
    return out;
}

struct two apply_rotary(struct run *r, val q, val k, val cos, val sin)
{
    return apply_rotary_at(r, q, k, cos, sin, 0);
}

/* -------------------------------------------------------------------------------------------------------------- losses */
val causal_lm_loss(struct run *r, val logits, val labels, bool by_items)
{
    struct frame f = frame_enter(r);
    val upcast, padded, shift, loss;
    int64_t rows, seq, vocab;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    rows = size_of(r, labels, 0);
    seq = size_of(r, labels, 1);
    vocab = size_of(r, logits, -1);
    upcast = local(r, to_dtype(r, logits, DTYPE_FP32));
    padded = local(r, factory(r, OP_CONSTANT_PAD, DTYPE_INT64, SHAPE(rows, seq + 1)));
    shift = local(r, contiguous(r, slice(r, padded, -1, 1, seq + 1)));
    rebind(r, &upcast, view(r, upcast, SHAPE(-1, vocab)));
    rebind(r, &shift, view(r, shift, SHAPE(-1)));
    loss = local(r, cross_entropy(r, upcast, shift));
    if (by_items)
        rebind(r, &loss, div_scalar(r, loss));
    return frame_leave(r, f, loss);
}

val shifted_loss(struct run *r, const struct model *m, val logits, val labels)
{
    int64_t seq, vocab;
    val shift_logits, shift_labels;

    if (run_dead(r))
        return 0;
    seq = size_of(r, labels, 1);
    vocab = size_of(r, logits, -1);
    /* locals of the caller's forward: they die with its frame */
    shift_logits = slice(r, logits, -2, 0, seq - 1);
    if (m->q->full_slices_are_nodes)
        shift_logits = slice(r, shift_logits, -1, 0, vocab);
    shift_logits = local(r, contiguous(r, shift_logits));
    shift_labels = local(r, contiguous(r, slice(r, labels, -1, 1, seq)));
    rebind(r, &shift_logits, view(r, shift_logits, SHAPE(-1, vocab)));
    rebind(r, &shift_labels, view(r, shift_labels, SHAPE(-1)));
    return cross_entropy(r, shift_logits, shift_labels);
}

/* ForCausalLMLoss until labels were padded: `logits` is bound anew here, and the caller's own lives on */
static val cut_lm_loss(struct run *r, const struct model *m, val logits, val labels)
{
    struct frame f = frame_enter(r);
    val upcast = local(r, to_dtype(r, logits, DTYPE_FP32)), loss = local(r, shifted_loss(r, m, upcast, labels));

    if (m->counts_items)
        rebind(r, &loss, div_scalar(r, loss));
    return frame_leave(r, f, loss);
}

val lm_loss(struct run *r, const struct model *m, val *logits, val labels)
{
    if (m->q->loss_pads_labels)
        return causal_lm_loss(r, *logits, labels, m->counts_items);
    if (m->q->loss_by_function)
        return cut_lm_loss(r, m, *logits, labels);
    rebind(r, logits, to_dtype(r, *logits, DTYPE_FP32));
    return shifted_loss(r, m, *logits, labels);
}

val last_states(struct run *r, const struct model *m, val hidden)
{
    if (!m->q->last_states_are_cut || !m->q->full_slices_are_nodes)
        return hidden;
    for (int dim = 0; dim < 3; dim++)
        hidden = slice(r, hidden, dim, 0, size_of(r, hidden, dim));
    return hidden;
}

/* -------------------------------------------------------------------------------------------------------- cache, layers */
/* DynamicSlidingWindowLayer moves its window to the device; gpt_neo's local layers are not of that class */
static bool slides(const struct model *m, uint32_t layer)
{
    return m->q->cache_keeps_window && m->arch->family != FAMILY_GPT_NEO && m->arch->layer_kinds[layer] == LAYER_SLIDING;
}

void cache_update(struct run *r, struct model *m, uint32_t layer, val *key, val *value)
{
    val *in[2] = {key, value}, *kept = &m->cache[CACHE_ROWS * layer], copy[2] = {0};

    if (!m->use_cache || run_dead(r))
        return;
    if (slides(m, layer)) {
        kept[CACHE_WINDOW] = value_empty(r, OP_TO_COPY, DTYPE_INT64, 0, NULL);
        r->values[kept[CACHE_WINDOW]].floating = false;
    }
    for (int i = 0; i < 2 && m->q->cache_copies; i++) /* self.keys = torch.cat([self.keys, key_states], dim=-2) */
        copy[i] = local(r, cat_to_empty(r, *in[i], dtype_of(r, *key), -2));
    for (int i = 0; i < 2 && !run_dead(r); i++) {
        if (copy[i])
            rebind(r, in[i], copy[i]);
        if (in[i])
            value_ref(r, kept[i] = *in[i]);
    }
}

val decoder_layer(struct run *r, struct model *m, struct module *self, val (*run)(struct run *, void *, const val *), void *context,
                  int n_args, const val *args, int n_closed, const val *closed)
{
    struct frame f, arguments;
    val given[REGION_ARGS], out;

    if (m->checkpointing && (!m->checkpoint_keywords || (!m->q->checkpoints_forward_alone && !m->layers_wrapped)))
        return checkpoint(r, m->reentrant, self, run, context, n_args, args, n_closed, closed);
    memcpy(given, args, (size_t)n_args * sizeof *given);
    arguments = frame_enter(r);
    for (int i = 0; i < n_args; i++)
        (void)hold(r, args[i]);
    f = module_enter_with(r, self, &given[0]);
    out = m->checkpointing ? checkpoint(r, m->reentrant, NULL, run, context, n_args, given, n_closed, closed)
                           : run(r, context, given);
    return frame_leave(r, arguments, frame_leave(r, f, out));
}
