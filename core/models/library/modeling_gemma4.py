"""The layers of gemma4: keys that may be values or those of an earlier layer, experts beside the feed-forward; transformers has them in its file."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_decoder import attend
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_moe import Experts
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds, rotate_half
from transformers.models.llama.modeling_llama import LlamaMLP


class Gemma4RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6, with_scale=True):
        super().__init__()
        self.eps, self.with_scale = eps, with_scale
        if with_scale:
            self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        mean_squared = x.pow(2).mean(-1, keepdim=True) + self.eps
        return x * torch.pow(mean_squared, -0.5)

    def forward(self, x):
        y = self._norm(x.float())
        if self.with_scale:
            y = y * self.weight.float()
        return y.type_as(x)


class Gemma4TextRotaryEmbedding(RotaryEmbeddingOfKinds):
    """Heads of full attention have a width of their own, all of it turned."""

    def __init__(self, config):
        super().__init__(config)
        for kind in self.rope_type:
            width = config.head_dim if kind == "sliding_attention" else config.global_head_dim
            inv_freq = torch.arange(0, width, 2, dtype=torch.float) / width
            self.register_buffer(f"{kind}_inv_freq", inv_freq, persistent=False)
            self.register_buffer(f"{kind}_original_inv_freq", inv_freq.clone(), persistent=False)


def turned(x, cos, sin):
    cos = cos.unsqueeze(2)
    sin = sin.unsqueeze(2)
    return (x * cos) + (rotate_half(x) * sin)


class KVSharingDict:
    """No dict, which FSDP2 would hand on as another."""

    def __init__(self):
        self.data = {}

    def __getitem__(self, kind):
        return self.data[kind]

    def __setitem__(self, kind, states):
        self.data[kind] = states


def attend_and_share(self, rows, q, k, v, attention_mask, shared_kv_states, **kwargs):
    """What follows queries, keys and values, which later layers of the kind may use again."""
    if self.sharing == "store":
        shared_kv_states[self.layer_type] = k, v
    output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.config.attention_dropout if self.training else 0.0,
                             scaling=1.0, sliding_window=self.sliding_window, **kwargs)
    output = output.reshape(*rows, -1).contiguous()
    output = self.o_proj(output)
    return output, weights


class Gemma4TextAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.layer_type = config, layer_idx, config.layer_types[layer_idx]
        slides = self.layer_type == "sliding_attention"
        keys_alone = config.attention_k_eq_v and not slides
        self.sliding_window, self.sharing = config.sliding_window if slides else None, config.sharing(layer_idx)
        self.head_dim = config.head_dim if slides else config.global_head_dim
        heads = (config.num_global_key_value_heads if keys_alone else None) or config.num_key_value_heads
        self.num_key_value_groups, self.is_causal = config.num_attention_heads // heads, True
        q, kv, width, bias = config.num_attention_heads * self.head_dim, heads * self.head_dim, config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(width, q, bias=bias)
        self.q_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        if self.sharing != "reuse":
            self.k_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps)
            self.v_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps, with_scale=False)
            self.k_proj = nn.Linear(width, kv, bias=bias)
            self.v_proj = None if keys_alone else nn.Linear(width, kv, bias=bias)
        self.o_proj = nn.Linear(q, width, bias=bias)

    def forward(self, hidden_states, position_embeddings, attention_mask, shared_kv_states, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        cos, sin = position_embeddings
        q = self.q_proj(hidden_states).view(shape)
        q = self.q_norm(q)
        q = turned(q, cos, sin)
        q = q.transpose(1, 2)
        if self.sharing == "reuse":
            k, v = shared_kv_states[self.layer_type]
        else:
            k = self.k_proj(hidden_states).view(shape)
            v = self.v_proj(hidden_states).view(shape) if self.v_proj is not None else k
            k = self.k_norm(k)
            k = turned(k, cos, sin)
            k = k.transpose(1, 2)
            v = self.v_norm(v)
            v = v.transpose(1, 2)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, self.layer_idx)
        return attend_and_share(self, rows, q, k, v, attention_mask, shared_kv_states, **kwargs)


class Gemma4TextMLP(LlamaMLP):
    def __init__(self, config, layer_idx):
        wide = config.use_double_wide_mlp and config.sharing(layer_idx) == "reuse"
        super().__init__(config, config.intermediate_size * (2 if wide else 1))


class Gemma4TextExperts(Experts):
    pass


class Gemma4TextRouter(nn.Module):
    recorded = None

    def __init__(self, config):
        super().__init__()
        self.top_k, self.scalar_root_size = config.top_k_experts, config.hidden_size**-0.5
        self.norm = Gemma4RMSNorm(config.hidden_size, eps=config.rms_norm_eps, with_scale=False)
        self.proj = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.scale = nn.Parameter(torch.ones(config.hidden_size))
        self.per_expert_scale = nn.Parameter(torch.ones(config.num_experts))

    def probabilities(self, scores):
        return nn.functional.softmax(scores, dim=-1, dtype=torch.float32)

    def forward(self, x):
        x = self.norm(x)
        x = x * self.scale * self.scalar_root_size
        scores = self.proj(x)
        probabilities = self.probabilities(scores)
        weights, indices = torch.topk(probabilities, k=self.top_k, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        weights = weights * self.per_expert_scale[indices]
        if self.recorded is not None:
            self.recorded.append(probabilities)
        return probabilities, weights, indices


class Gemma4TextDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        self.self_attn = Gemma4TextAttention(config, layer_idx)
        self.mlp = Gemma4TextMLP(config, layer_idx)
        self.norms(config, "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
        self.register_buffer("layer_scalar", torch.ones(1))
        self.takes_rows, self.has_experts = bool(rows), config.enable_moe_block
        if rows:
            self.act_fn = ACT2FN[config.hidden_activation]
            self.per_layer_input_gate = nn.Linear(width, rows, bias=False)
            self.per_layer_projection = nn.Linear(rows, width, bias=False)
            self.norms(config, "post_per_layer_input_norm")
        if self.has_experts:
            self.router = Gemma4TextRouter(config)
            self.experts = Gemma4TextExperts(config)
            self.norms(config, "post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")

    def norms(self, config, *names):
        for name in names:
            setattr(self, name, Gemma4RMSNorm(config.hidden_size, eps=config.rms_norm_eps))

    def forward(self, hidden_states, per_layer_input=None, shared_kv_states=None, position_embeddings=None, attention_mask=None, position_ids=None,
                past_key_values=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, position_embeddings=position_embeddings, attention_mask=attention_mask,
                                          shared_kv_states=shared_kv_states, position_ids=position_ids, past_key_values=past_key_values, **kwargs)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        if self.has_experts:
            dense = self.post_feedforward_layernorm_1(hidden_states)
            flat = residual.reshape(-1, residual.shape[-1])
            _, weights, indices = self.router(flat)
            sparse = self.pre_feedforward_layernorm_2(flat)
            sparse = self.experts(sparse, indices, weights)
            sparse = sparse.reshape(residual.shape)
            sparse = self.post_feedforward_layernorm_2(sparse)
            hidden_states = dense + sparse
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        if self.takes_rows:
            residual = hidden_states
            hidden_states = self.per_layer_input_gate(hidden_states)
            hidden_states = self.act_fn(hidden_states)
            hidden_states = hidden_states * per_layer_input
            hidden_states = self.per_layer_projection(hidden_states)
            hidden_states = self.post_per_layer_input_norm(hidden_states)
            hidden_states = residual + hidden_states
        hidden_states *= self.layer_scalar
        return hidden_states
