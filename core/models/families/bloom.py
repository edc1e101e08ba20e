"""bloom: alibi instead of positions, queries, keys and values of one projection, a GeLU with a backward of its own."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import LayerNorm

from transformers.cache_utils import DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import CausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class BloomConfig(PreTrainedConfig):
    model_type = "bloom"
    attribute_map = {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    vocab_size: int = 250880
    hidden_size: int = 64
    n_layer: int = 2
    n_head: int = 8
    layer_norm_epsilon: float = 1e-5
    use_cache: bool = True
    bos_token_id: int | None = 1
    eos_token_id: int | None = 2
    pad_token_id: int | None = None
    apply_residual_connection_post_layernorm: bool = False
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    pretraining_tp: int = 1
    slow_but_exact: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.hidden_size = kwargs.pop("n_embed", None) or self.hidden_size
        super().__post_init__(**kwargs)


def _get_alibi_slopes(heads, device):
    power = 2 ** math.floor(math.log2(heads))
    base = torch.full((), 2 ** (-(2 ** -(math.log2(power) - 3))), device=device, dtype=torch.float32)
    powers = torch.arange(1, 1 + power, device=device, dtype=torch.int32)
    slopes = torch.pow(base, powers)
    if power != heads:
        extra_base = torch.full((), 2 ** (-(2 ** -(math.log2(2 * power) - 3))), device=device, dtype=torch.float32)
        extra_powers = torch.arange(1, 1 + 2 * min(power, heads - power), 2, device=device, dtype=torch.int32)
        slopes = torch.cat([slopes, torch.pow(extra_base, extra_powers)], dim=0)
    return slopes


def build_alibi_tensor(attention_mask, heads, dtype):
    batch, seq = attention_mask.shape
    slopes = _get_alibi_slopes(heads, attention_mask.device)
    positions = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    alibi = slopes[..., None] * positions
    return alibi.reshape(batch * heads, 1, seq).to(dtype)


def dropout_add(x, residual, p, training):
    out = F.dropout(x, p=p, training=training)
    out = residual + out
    return out


def bloom_gelu_forward(x):
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


def bloom_gelu_back(g, x):
    x = x[0]
    tanh_out = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
    slope = 0.5 * x * ((1 - tanh_out * tanh_out) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + tanh_out)
    return slope * g


class GeLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return bloom_gelu_forward(x)

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors
        grad = bloom_gelu_back(grad_output, x)
        return grad


class BloomGelu(nn.Module):
    def forward(self, x):
        return GeLUFunction.apply(x)


class BloomAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.num_heads = config.n_head
        self.head_dim = width // self.num_heads
        self.hidden_dropout = config.hidden_dropout
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.beta = 1.0
        self.layer_idx = layer_idx
        self.query_key_value = nn.Linear(width, 3 * width, bias=True)
        self.dense = nn.Linear(width, width)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def _reshape(self, fused):
        batch, seq, _ = fused.shape
        fused = fused.view(batch, seq, self.num_heads, 3, self.head_dim)
        q = fused[..., 0, :].transpose(1, 2)
        k = fused[..., 1, :].transpose(1, 2)
        v = fused[..., 2, :].transpose(1, 2)
        return q, k, v

    def _merge_heads(self, x):
        rows, seq, _ = x.shape
        batch = rows // self.num_heads
        x = x.view(batch, self.num_heads, seq, self.head_dim)
        x = x.permute(0, 2, 1, 3)
        return x.reshape(batch, seq, self.num_heads * self.head_dim)

    def forward(self, hidden_states, residual, alibi, attention_mask, layer_past=None, use_cache=False):
        batch, q_length, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states)
        q, k, v = self._reshape(fused)
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        q = q.reshape(batch * self.num_heads, -1, self.head_dim)
        k = k.reshape(batch * self.num_heads, -1, self.head_dim).transpose(-1, -2)
        v = v.reshape(batch * self.num_heads, -1, self.head_dim)
        scores = alibi.baddbmm(batch1=q, batch2=k, beta=self.beta, alpha=self.inv_norm_factor)
        weights = scores.view(batch, self.num_heads, q_length, -1)
        if attention_mask is not None:
            weights = weights + attention_mask
        probs = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        probs = self.attention_dropout(probs)
        by_head = probs.view(batch * self.num_heads, q_length, -1)
        context = torch.bmm(by_head, v)
        context = self._merge_heads(context)
        output = self.dense(context)
        output = dropout_add(output, residual, self.hidden_dropout, self.training)
        return output, probs


class BloomMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.dense_h_to_4h = nn.Linear(width, 4 * width)
        self.gelu_impl = BloomGelu()
        self.dense_4h_to_h = nn.Linear(4 * width, width)
        self.hidden_dropout = config.hidden_dropout

    def forward(self, hidden_states, residual):
        hidden_states = self.gelu_impl(self.dense_h_to_4h(hidden_states))
        inner = self.dense_4h_to_h(hidden_states)
        output = dropout_add(inner, residual, self.hidden_dropout, self.training)
        return output


class BloomBlock(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.input_layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.self_attention = BloomAttention(config, layer_idx)
        self.post_attention_layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.mlp = BloomMLP(config)
        self.residual_after_norm = config.apply_residual_connection_post_layernorm

    def forward(self, hidden_states, alibi, attention_mask, layer_past=None, use_cache=False, **kwargs):
        normed = self.input_layernorm(hidden_states)
        residual = normed if self.residual_after_norm else hidden_states
        attended, weights = self.self_attention(normed, residual, layer_past=layer_past, attention_mask=attention_mask, alibi=alibi,
                                                use_cache=use_cache)
        normed = self.post_attention_layernorm(attended)
        residual = normed if self.residual_after_norm else attended
        output = self.mlp(normed, residual)
        return output, weights


class BloomPreTrainedModel(PreTrainedModel):
    config_class = BloomConfig
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["BloomBlock"]


class BloomModel(BloomPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.num_heads = config.n_head
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.word_embeddings_layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.h = nn.ModuleList([BloomBlock(config, i) for i in range(config.num_hidden_layers)])
        self.ln_f = LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.word_embeddings

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, inputs_embeds=None, use_cache=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.word_embeddings(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        batch, seq, _ = inputs_embeds.shape
        hidden_states = self.word_embeddings_layernorm(inputs_embeds)
        if attention_mask is None:
            kv_length = past_key_values.get_mask_sizes(seq, 0)[0] if past_key_values is not None else seq
            slopes = _get_alibi_slopes(self.num_heads, hidden_states.device)
            alibi = slopes[:, None, None] * torch.arange(kv_length, device=hidden_states.device)
            alibi = alibi.repeat(batch, 1, 1).to(hidden_states.dtype)
        else:
            attention_mask = attention_mask.to(hidden_states.device)
            alibi = build_alibi_tensor(attention_mask, self.num_heads, dtype=hidden_states.dtype)
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        for block in self.h:
            outputs = block(hidden_states, layer_past=past_key_values, attention_mask=mask, use_cache=use_cache, alibi=alibi)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class BloomForCausalLM(CausalLM, BloomPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.word_embeddings.weight"}
    decoder = BloomModel


causal_lm = BloomForCausalLM
