"""kimi_linear: deepseek_v3 whose attention does not rotate, a delta rule that forgets by channel (KDA) in the other layers."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.masking_utils import masks_of_kinds
from transformers.modeling_conv import apply_mask_to_padding_states, convolve, state_of
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3Config, DeepseekV3DecoderLayer, DeepseekV3ForCausalLM
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Model
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextDecoderLayer


class KimiLinearConfig(DeepseekV3Config):
    model_type = "kimi_linear"
    attribute_map = DeepseekV3Config.attribute_map | {
        "model_max_length": "max_position_embeddings", "moe_renormalize": "norm_topk_prob", "num_expert_group": "n_group",
        "num_experts_per_token": "num_experts_per_tok", "num_shared_experts": "n_shared_experts"}
    vocab_size: int = 163840
    hidden_size: int = 2304
    intermediate_size: int = 9216
    moe_intermediate_size: int = 1024
    num_hidden_layers: int = 27
    num_attention_heads: int = 32
    num_key_value_heads: int | None = 32
    routed_scaling_factor: float = 2.446
    q_lora_rank: int | None = None
    n_group: int = 1
    topk_group: int | None = 1
    max_position_embeddings: int = 1048576
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 163839
    first_k_dense_replace: int | None = 1
    mlp_layer_types: list | None = None
    layer_types: list | None = None
    linear_attn_config: dict | None = None
    linear_head_dim: int = 128
    linear_num_heads: int = 32
    linear_conv_kernel_dim: int = 4

    def __post_init__(self, **kwargs):
        given, layers = self.linear_attn_config or {}, self.num_hidden_layers
        self.linear_head_dim = given.get("head_dim", self.linear_head_dim)
        self.linear_num_heads = given.get("num_heads", self.linear_num_heads)
        self.linear_conv_kernel_dim = given.get("short_conv_kernel_size", self.linear_conv_kernel_dim)
        if self.layer_types is None:
            attend = [i for i in range(1, layers) if i % 4 == 0]
            if "full_attn_layers" in given and "kda_layers" in given:
                attend = [i - 1 for i in given["full_attn_layers"]]  # counted from one
            self.layer_types = ["full_attention" if i in attend else "linear_attention" for i in range(layers)]
        if self.mlp_layer_types is None:
            self.mlp_layer_types = ["dense" if i < self.first_k_dense_replace else "sparse" for i in range(layers)]
        super().__post_init__(**kwargs)


def l2norm(x, dim=-1, eps=1e-6):
    norm = torch.sqrt((x * x).sum(dim=dim, keepdim=True) + eps)
    return x / norm


def recurrent_kimi_delta_attention(query, key, value, g, beta, initial_state):
    """Token by token, from a state."""
    dtype = query.dtype
    query, key, value, g, beta = [x.to(torch.float32) for x in (query, key, value, g, beta)]
    query = l2norm(query)
    key = l2norm(key)
    batch, length, heads, _ = key.shape
    query = query * (1 / (query.shape[-1] ** 0.5))
    out = torch.zeros(batch, length, heads, value.shape[-1], dtype=value.dtype, device=value.device)
    state = initial_state.to(value)
    for i in range(length):
        q_i = query[:, i]
        k_i = key[:, i]
        v_i = value[:, i]
        g_i = g[:, i][..., None].exp()
        b_i = beta[:, i][..., None]
        state = state * g_i
        kv_mem = (state * k_i[..., None]).sum(dim=-2)
        delta = (v_i - kv_mem) * b_i
        state = state + k_i.unsqueeze(-1) * delta.unsqueeze(-2)
        out[:, i] = (state * q_i.unsqueeze(-1)).sum(dim=-2)
    return out.to(dtype), state


def chunk_kimi_delta_attention(query, key, value, g, beta, initial_state, output_final_state, chunk_size=64):
    """gated_delta_rule whose decay has the width of a head, so that what decays between two places of a chunk has it too."""
    dtype = query.dtype
    query, key, value, beta, g = [x.transpose(1, 2).contiguous().to(torch.float32) for x in (query, key, value, beta, g)]
    query = l2norm(query)
    key = l2norm(key)
    batch, heads, length, k_width = key.shape
    v_width = value.shape[-1]
    pad = (chunk_size - length % chunk_size) % chunk_size
    query = F.pad(query, (0, 0, 0, pad)) * (1 / (query.shape[-1] ** 0.5))
    key = F.pad(key, (0, 0, 0, pad))
    value = F.pad(value, (0, 0, 0, pad))
    g = F.pad(g, (0, 0, 0, pad))
    beta = F.pad(beta, (0, pad))
    v_beta = value * beta.unsqueeze(-1)
    k_beta = key * beta.unsqueeze(-1)
    query, key, value, g, k_beta, v_beta = [x.reshape(x.shape[0], x.shape[1], -1, chunk_size, x.shape[-1]) for x in (query, key, value, g, k_beta, v_beta)]
    beta = beta.reshape(beta.shape[0], beta.shape[1], -1, chunk_size)
    g = g.cumsum(dim=-2)
    mask = torch.triu(torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device), diagonal=0)
    later = torch.triu(torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device), diagonal=1)
    decay = (g.unsqueeze(-2) - g.unsqueeze(-3)).masked_fill(later[..., None], float("-inf")).exp().float()
    attn = -(k_beta.unsqueeze(-2) * key.unsqueeze(-3) * decay).sum(dim=-1).masked_fill(mask, 0)
    for i in range(1, chunk_size):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)
    attn = attn + torch.eye(chunk_size, dtype=attn.dtype, device=attn.device)
    value = attn @ v_beta
    k_cumdecay = attn @ (k_beta * g.exp())
    if initial_state is None:
        state = torch.zeros(batch, heads, k_width, v_width, dtype=value.dtype, device=value.device)
    else:
        state = initial_state.to(value)
    out = torch.zeros_like(value)
    mask = torch.triu(torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device), diagonal=1)
    for i in range((length + pad) // chunk_size):
        q_i = query[:, :, i]
        k_i = key[:, :, i]
        v_i = value[:, :, i]
        g_i = g[:, :, i]
        inter = (q_i * g_i.exp()) @ state
        intra = (q_i.unsqueeze(-2) * k_i.unsqueeze(-3) * decay[:, :, i]).sum(dim=-1).masked_fill(mask, 0)
        v_prime = k_cumdecay[:, :, i] @ state
        v_new = v_i - v_prime
        out[:, :, i] = inter + intra @ v_new
        state = state * g_i[:, :, -1].exp().unsqueeze(-1) + (k_i * (g_i[:, :, -1:] - g_i).exp()).transpose(-1, -2) @ v_new
    if not output_final_state:
        state = None
    out = out.reshape(out.shape[0], out.shape[1], -1, out.shape[-1])
    out = out[:, :, :length]
    out = out.transpose(1, 2).contiguous().to(dtype)
    return out, state


class KimiLinearRMSNormGated(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states, gate):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        hidden_states = self.weight.to(torch.float32) * hidden_states
        hidden_states = hidden_states * ACT2FN["sigmoid"](gate.to(torch.float32))
        return hidden_states.to(dtype)


class KimiLinearForgetGate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim, heads = config.linear_head_dim, config.linear_num_heads
        self.f_a_proj = nn.Linear(config.hidden_size, self.head_dim, bias=False)
        self.f_b_proj = nn.Linear(self.head_dim, self.head_dim * heads, bias=False)
        self.dt_bias = nn.Parameter(torch.empty(self.head_dim * heads))
        self.A_log = nn.Parameter(torch.empty(1, 1, heads, 1))

    def forward(self, hidden_states):
        shape = (*hidden_states.shape[:2], -1, self.head_dim)
        forget_gate = self.f_b_proj(self.f_a_proj(hidden_states))
        g = (forget_gate.float() + self.dt_bias.float().view(1, 1, -1)).view(shape)
        A_log = self.A_log.float()
        rate = torch.exp(A_log)
        softplus = torch.where(g > 20.0, g, torch.log(1.0 + torch.exp(g)))
        return -rate * softplus


class KimiLinearDeltaAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.activation, self.conv_kernel_size = layer_idx, config.hidden_act, config.linear_conv_kernel_dim
        self.head_dim, width = config.linear_head_dim, config.hidden_size
        self.inner = self.head_dim * config.linear_num_heads
        for name in "qkv":
            setattr(self, f"{name}_proj", nn.Linear(width, self.inner, bias=False))
        self.conv1d = nn.Conv1d(self.inner * 3, self.inner * 3, bias=False, kernel_size=self.conv_kernel_size, groups=self.inner * 3,
                                padding=self.conv_kernel_size - 1)
        self.forget_gate = KimiLinearForgetGate(config)
        self.b_proj = nn.Linear(width, config.linear_num_heads, bias=False)
        self.g_a_proj = nn.Linear(width, self.head_dim, bias=False)
        self.g_b_proj = nn.Linear(self.head_dim, self.inner, bias=False)
        self.o_norm = KimiLinearRMSNormGated(self.head_dim, eps=config.rms_norm_eps)
        self.o_proj = nn.Linear(self.inner, width, bias=False)

    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        batch, length = hidden_states.shape[:2]
        shape = (batch, length, -1, self.head_dim)
        mixed = torch.cat([self.q_proj(hidden_states), self.k_proj(hidden_states), self.v_proj(hidden_states)], dim=-1).transpose(1, 2)
        conv_state, recurrent_state = state_of(self, cache_params)
        mixed = convolve(self, mixed, conv_state, cache_params, cut=True)
        query, key, value = torch.split(mixed.transpose(1, 2), [self.inner] * 3, dim=-1)
        query = query.view(shape)
        key = key.view(shape)
        value = value.view(shape)
        g = self.forget_gate(hidden_states)
        beta = torch.sigmoid(self.b_proj(hidden_states))
        if recurrent_state is not None and length == 1:
            out, state = recurrent_kimi_delta_attention(query, key, value, g, beta, recurrent_state)
        else:
            out, state = chunk_kimi_delta_attention(query, key, value, g, beta, recurrent_state, cache_params is not None)
        if cache_params is not None:
            cache_params.update_recurrent_state(state.to(torch.float32), self.layer_idx)
        gate = self.g_b_proj(self.g_a_proj(hidden_states)).view(shape)
        output = self.o_norm(out, gate).reshape(batch, length, -1)
        output = self.o_proj(output)
        return output


class KimiLinearAttention(DeepseekV3Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = self.head_dim**-0.5

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, position_embeddings=None, **kwargs):
        batch, length = hidden_states.shape[:-1]
        queries = self.queries(hidden_states)
        query = queries.view((batch, length, -1, self.head_dim)).transpose(1, 2)
        compressed = self.kv_a_proj_with_mqa(hidden_states)
        latent, k_rot = torch.split(compressed, [self.config.kv_lora_rank, self.rope_dim], dim=-1)
        latent = self.kv_a_layernorm(latent)
        latent = latent.view(batch, 1, length, self.config.kv_lora_rank)
        k_rot = k_rot.view(batch, 1, length, self.rope_dim)
        if past_key_values is not None:
            latent, k_rot = past_key_values.update(latent, k_rot, self.layer_idx)
        key, value = self.expand_kv(latent, k_rot)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.eager)
        output, weights = attend(self, query, key, value, attention_mask, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(batch, length, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class KimiLinearDecoderLayer(DeepseekV3DecoderLayer):
    forward = Qwen3NextDecoderLayer.forward

    @staticmethod
    def attention(config, layer_idx):
        return (KimiLinearAttention if config.layer_types[layer_idx] == "full_attention" else KimiLinearDeltaAttention)(config, layer_idx)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.block_type = config.layer_types[layer_idx]

    def make_mlp(self, config, layer_idx):
        return self.sparse(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)

    @property
    def linear_attn(self):
        return self.self_attn


class KimiLinearModel(DeepseekV3Model):
    layer, masks = KimiLinearDecoderLayer, masks_of_kinds

    def finish(self, config):
        self.norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)

    def tables(self, hidden_states, position_ids):
        return [None] * len(self.layers)


class KimiLinearForCausalLM(DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = KimiLinearConfig, KimiLinearModel, ["KimiLinearDecoderLayer"]
    _tied_weights_keys = {}


causal_lm = KimiLinearForCausalLM
