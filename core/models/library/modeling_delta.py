"""The gated delta rule of qwen3_next as the PyTorch code of modelling files has it, which runs where fla is not installed; transformers has no such file."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_conv import apply_mask_to_padding_states, convolve, state_of


def l2norm(x, dim=-1, eps=1e-6):
    inv_norm = torch.rsqrt((x * x).sum(dim=dim, keepdim=True) + eps)
    return x * inv_norm


def in_full(query, key, value, beta, decay):
    """Heads first, in fp32; queries and keys for each head of values, of length one."""
    groups = value.shape[2] // key.shape[2]
    if groups != 1:
        query = query.repeat_interleave(groups, dim=2)
        key = key.repeat_interleave(groups, dim=2)
    query, key, value, beta, decay = [
        x.transpose(1, 2).to(torch.float32, memory_format=torch.contiguous_format) for x in (query, key, value, beta, decay)]
    query = l2norm(query)
    key = l2norm(key)
    return query, key, value, beta, decay


def chunk_gated_delta_rule(query, key, value, g, beta, initial_state, output_final_state, chunk_size=64):
    dtype = query.dtype
    batch_size, sequence_length, num_k_heads, k_head_dim = key.shape
    num_v_heads, v_head_dim = value.shape[-2:]
    query, key, value, beta, decay = in_full(query, key, value, beta, g)
    query = query * query.shape[-1] ** -0.5
    pad_size = (chunk_size - sequence_length % chunk_size) % chunk_size
    query, key, value = (F.pad(x, (0, 0, 0, pad_size)) for x in (query, key, value))
    beta, decay = (F.pad(x, (0, pad_size)) for x in (beta, decay))
    v_beta = value * beta.unsqueeze(-1)
    k_beta = key * beta.unsqueeze(-1)
    query, key, k_beta, v_beta = [x.reshape(x.shape[0], x.shape[1], -1, chunk_size, x.shape[-1]) for x in (query, key, k_beta, v_beta)]
    decay = decay.reshape(decay.shape[0], decay.shape[1], -1, chunk_size)
    later = torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device).triu(1)
    cum_decay = decay.cumsum(dim=3)
    # within chunks
    pairwise = cum_decay.unsqueeze(4) - cum_decay.unsqueeze(3)
    pairwise = pairwise.masked_fill(later, float("-inf"))
    pairwise = pairwise.exp()
    system = (k_beta @ key.transpose(-1, -2)) * pairwise
    intra_chunk = (query @ key.transpose(-1, -2)) * pairwise
    decayed_k_beta = k_beta * cum_decay.exp().unsqueeze(-1)
    new_values = torch.linalg.solve_triangular(system, v_beta, upper=False, unitriangular=True)
    k_cumdecay = torch.linalg.solve_triangular(system, decayed_k_beta, upper=False, unitriangular=True)
    if initial_state is None:
        state = torch.zeros((batch_size, num_v_heads, k_head_dim, v_head_dim), dtype=new_values.dtype, device=new_values.device)
    else:
        state = initial_state.to(new_values)
    out = torch.zeros_like(new_values)
    query = query * cum_decay.exp().unsqueeze(-1)
    key = key * (cum_decay[..., -1:] - cum_decay).exp().unsqueeze(-1)
    chunk_decay = cum_decay[..., -1].exp()[..., None, None]
    # from chunk to chunk
    for i in range((sequence_length + pad_size) // chunk_size):
        v_new = new_values[:, :, i] - k_cumdecay[:, :, i] @ state
        inter_chunk = query[:, :, i] @ state
        out[:, :, i] = inter_chunk + intra_chunk[:, :, i] @ v_new
        state = state * chunk_decay[:, :, i] + key[:, :, i].transpose(-1, -2) @ v_new
    state = None if not output_final_state else state
    out = out.reshape((batch_size, num_v_heads, -1, v_head_dim))
    out = out[:, :, :sequence_length]
    out = out.transpose(1, 2).to(dtype, memory_format=torch.contiguous_format)
    return out, state


def recurrent_gated_delta_rule(query, key, value, g, beta, initial_state):
    """Token by token, from a state."""
    dtype, length = query.dtype, key.shape[1]
    query, key, value, beta, decay = in_full(query, key, value, beta, g)
    query = query / (query.shape[-1] ** 0.5)
    state = initial_state.to(value)
    out = torch.zeros_like(value)
    for i in range(length):
        q_t, k_t, v_t = query[:, :, i], key[:, :, i], value[:, :, i]
        decay_t = decay[:, :, i].exp()[..., None, None]
        state = state * decay_t
        beta_t = beta[:, :, i].unsqueeze(-1)
        kv_mem = (state * k_t.unsqueeze(-1)).sum(dim=-2)
        delta = (v_t - kv_mem) * beta_t
        state = state + k_t.unsqueeze(-1) * delta.unsqueeze(-2)
        out[:, :, i] = (state * q_t.unsqueeze(-1)).sum(dim=-2)
    out = out.transpose(1, 2).contiguous().to(dtype)
    return out, state


class RMSNormThenGate(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states, gate):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        hidden_states = self.weight * hidden_states.to(dtype)
        hidden_states = hidden_states * ACT2FN["silu"](gate.to(torch.float32))
        return hidden_states.to(dtype)


class GatedDeltaNet(nn.Module):
    """project() says what goes into the convolution, its gate, and the two that rule how much is written and forgotten."""

    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.activation, self.conv_kernel_size = layer_idx, config.hidden_act, config.linear_conv_kernel_dim
        self.num_v_heads, self.num_k_heads = config.linear_num_value_heads, config.linear_num_key_heads
        self.head_k_dim, self.head_v_dim = config.linear_key_head_dim, config.linear_value_head_dim
        self.key_dim, self.value_dim = self.head_k_dim * self.num_k_heads, self.head_v_dim * self.num_v_heads
        self.conv_dim = self.key_dim * 2 + self.value_dim
        self.conv1d = nn.Conv1d(self.conv_dim, self.conv_dim, bias=False, kernel_size=self.conv_kernel_size, groups=self.conv_dim,
                                padding=self.conv_kernel_size - 1)
        self.make_projections(config)
        self.dt_bias = nn.Parameter(torch.ones(self.num_v_heads))
        self.A_log = nn.Parameter(torch.empty(self.num_v_heads))
        self.norm = RMSNormThenGate(self.head_v_dim, eps=config.rms_norm_eps)
        self.out_proj = nn.Linear(self.value_dim, config.hidden_size, bias=False)
        self.place_projections(config)

    def place_projections(self, config):
        """Those that are born last."""

    def ruled(self, query, key, g):
        """What the rule is called with."""
        return query, key, g

    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        seq_len = hidden_states.shape[1]
        conv_state, recurrent_state = state_of(self, cache_params)
        mixed, z, b, a, parts, *held = self.project(hidden_states)  # what it leaves lives as long as this frame, parts until names are bound anew
        mixed = convolve(self, mixed, conv_state, cache_params, held=held)
        mixed = mixed.transpose(1, 2)
        query, key, value = torch.split(mixed, [self.key_dim, self.key_dim, self.value_dim], dim=-1)
        parts = None
        query = query.reshape(query.shape[0], query.shape[1], -1, self.head_k_dim)
        key = key.reshape(key.shape[0], key.shape[1], -1, self.head_k_dim)
        value = value.reshape(value.shape[0], value.shape[1], -1, self.head_v_dim)
        beta = b.sigmoid()
        g = -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias)
        query, key, g = self.ruled(query, key, g)
        if recurrent_state is not None and seq_len == 1:
            out, state = recurrent_gated_delta_rule(query, key, value, g, beta, recurrent_state)
        else:
            out, state = chunk_gated_delta_rule(query, key, value, g, beta, recurrent_state, cache_params is not None)
        if cache_params is not None:
            cache_params.update_recurrent_state(state, self.layer_idx)
        shape = z.shape
        out = out.reshape(-1, out.shape[-1])
        z = z.reshape(-1, z.shape[-1])
        out = self.norm(out, z)
        out = out.reshape(shape)
        out = out.reshape(out.shape[0], out.shape[1], -1)
        return self.out_proj(out)
