"""Rotary embeddings: their frequencies, their tables, how they turn heads. Their values move no memory: of a kind of rope it counts how many there are, and what is done at each forward."""
from functools import wraps

import torch
from torch import nn

from transformers.releases import refuse


def grow_dynamic(self, position_ids, device, prefix="", kind=None):
    """`reached`: how far generate() is, which its positions do not tell."""
    longest, reached = torch.max(position_ids) + 1, getattr(self, "reached", None)
    if longest > self.max_seq_len_cached if reached is None else reached > self.max_seq_len_cached:
        inv_freq, self.attention_scaling = ROPE_INIT_FUNCTIONS[kind](self.config, device, seq_len=longest)
        self.register_buffer(f"{prefix}inv_freq", inv_freq, persistent=False)
        self.max_seq_len_cached, self.longest = longest if reached is None else reached, longest


def choose_long(self, position_ids, device, prefix="", kind=None):
    """The long or the short frequencies, into the buffer that is used."""
    longest = torch.max(position_ids) + 1
    original_length = self.config.rope_parameters["original_max_position_embeddings"]
    long = getattr(self, f"{prefix}long_inv_freq", None)
    if long is None:
        long, _ = ROPE_INIT_FUNCTIONS[kind](self.config, device, seq_len=original_length + 1)
    long = long.to(device)
    short = getattr(self, f"{prefix}original_inv_freq").to(device)
    setattr(self, f"{prefix}long_inv_freq", long)
    inv_freq = torch.where(longest > original_length, long, short)
    use_chosen(self, f"{prefix}inv_freq", inv_freq)


def use_chosen(self, name, inv_freq):
    getattr(self, name).copy_(inv_freq)


def dynamic_rope_update(rope_forward):
    @wraps(rope_forward)
    def wrapper(self, x, position_ids, layer_type=None):
        kind = self.rope_type if layer_type is None else self.rope_type[layer_type]
        keywords, prefix = ({}, "") if layer_type is None else ({"layer_type": layer_type}, f"{layer_type}_")
        if "dynamic" in kind:
            grow_dynamic(self, position_ids, x.device, prefix, kind)
        elif kind == "longrope":
            choose_long(self, position_ids, x.device, prefix, kind)
        elif kind == "raises":
            refuse("/config/head_dim", "head_dim is null, which this rope_type multiplies: modeling_rope_utils.py raises TypeError")
        return rope_forward(self, x, position_ids, **keywords)

    return wrapper


def _frequencies(config, device=None, seq_len=None, layer_type=None):
    parameters = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dim = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
    return 1.0 / parameters["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.int64).to(device=device, dtype=torch.float) / dim), 1.0


def _longrope(config, device=None, seq_len=None, layer_type=None):
    parameters = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dim = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
    factors = torch.tensor(parameters["short_factor"], dtype=torch.float32, device=device)
    powers = torch.arange(0, dim, 2, dtype=torch.int64, device=device).float() / dim
    inv_freq = 1.0 / (factors * parameters["rope_theta"] ** powers)
    return inv_freq, 1.0


def _proportional(config, device=None, seq_len=None, layer_type=None):
    """As wide as the whole head: what does not turn turns by nothing."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return torch.arange(0, head_dim, 2, dtype=torch.int64).to(device=device, dtype=torch.float) / head_dim, 1.0


ROPE_INIT_FUNCTIONS = {"linear": _frequencies, "dynamic": _frequencies, "yarn": _frequencies, "llama3": _frequencies, "longrope": _longrope,
                       "proportional": _proportional}


READ_HEAD_DIM = "dynamic", "yarn", "longrope"  # as config.json has it


class RotaryEmbedding(nn.Module):
    """What each decoder has as a class of its own."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.max_seq_len_cached = self.original_max_seq_len = config.max_position_embeddings
        self.rope_type = self.kind(config.rope_parameters)
        if getattr(config, "head_dim_unknown", False) and self.rope_type in READ_HEAD_DIM:
            self.rope_type = "raises"  # once a step runs: what is asked beside it is asked of the newest release
        init = ROPE_INIT_FUNCTIONS.get(self.rope_type, self.compute_default_rope_parameters)
        inv_freq, self.attention_scaling = init(config)
        self.keep(inv_freq)

    def kind(self, rope):
        return rope["rope_type"]

    def keep(self, inv_freq):
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.register_buffer("original_inv_freq", inv_freq.clone(), persistent=False)

    @staticmethod
    def compute_default_rope_parameters(config):
        return _frequencies(config)

    @staticmethod
    def angles(freqs):
        return torch.cat((freqs, freqs), dim=-1)

    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        freqs = position_ids[..., None].float() * self.inv_freq.to(device=x.device, dtype=torch.float)
        angles = self.angles(freqs)
        cos = angles.cos() * self.attention_scaling
        sin = angles.sin() * self.attention_scaling
        return self.tables(cos, sin, x.dtype)

    def tables(self, cos, sin, dtype):
        return cos.to(dtype=dtype), sin.to(dtype=dtype)


class RotaryEmbeddingOfKinds(nn.Module):
    """One with frequencies for each kind of layer."""

    @staticmethod
    def kinds(config):
        return sorted(set(config.layer_types))

    def __init__(self, config):
        super().__init__()
        self.config, self.rope_type = config, {}
        self.max_seq_len_cached = self.original_max_seq_len = config.max_position_embeddings
        for kind in self.kinds(config):
            parameters = config.rope_parameters[kind]
            self.rope_type[kind] = parameters["rope_type"]
            inv_freq, scaling = ROPE_INIT_FUNCTIONS.get(self.rope_type[kind], _frequencies)(config, layer_type=kind)
            self.register_buffer(f"{kind}_inv_freq", inv_freq, persistent=False)
            self.register_buffer(f"{kind}_original_inv_freq", inv_freq.clone(), persistent=False)
            setattr(self, f"{kind}_attention_scaling", scaling)

    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids, layer_type):
        inv_freq = getattr(self, f"{layer_type}_inv_freq")
        scaling = getattr(self, f"{layer_type}_attention_scaling")
        freqs = position_ids[..., None].float() * inv_freq.to(device=x.device, dtype=torch.float)
        angles = torch.cat((freqs, freqs), dim=-1)
        cos = angles.cos() * scaling
        sin = angles.sin() * scaling
        return self.tables(cos, sin, x.dtype)

    def tables(self, cos, sin, dtype):
        return cos.to(dtype=dtype), sin.to(dtype=dtype)


def rotate_half(x):
    low = x[..., : x.shape[-1] // 2]
    high = x[..., x.shape[-1] // 2 :]
    return torch.cat((-high, low), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1, turn=rotate_half):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_turned = (q * cos) + (turn(q) * sin)
    k_turned = (k * cos) + (turn(k) * sin)
    return q_turned, k_turned


def apply_rotary_pos_emb_partly(q, k, cos, sin, unsqueeze_dim=1):
    """As many elements of each head as the tables are wide."""
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    width = cos.shape[-1]
    q_rot, q_pass = q[..., :width], q[..., width:]
    k_rot, k_pass = k[..., :width], k[..., width:]
    q_turned = (q_rot * cos) + (rotate_half(q_rot) * sin)
    k_turned = (k_rot * cos) + (rotate_half(k_rot) * sin)
    q_turned = torch.cat([q_turned, q_pass], dim=-1)
    k_turned = torch.cat([k_turned, k_pass], dim=-1)
    return q_turned, k_turned


class HalfRotaryEmbedding(RotaryEmbedding):
    """Tables of one half, which turn_halves takes for both."""

    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        freqs = position_ids[..., None].float() * self.inv_freq.to(device=x.device, dtype=torch.float)
        cos = freqs.cos() * self.attention_scaling
        sin = freqs.sin() * self.attention_scaling
        return cos.to(x.dtype), sin.to(x.dtype)


def turn_halves(x, cos, sin):
    low, high = torch.chunk(x, 2, dim=-1)
    first = low * cos - high * sin
    second = high * cos + low * sin
    return torch.cat((first, second), dim=-1)
