"""The tower and the projector of gemma4: of text alone they are held, and do nothing; transformers has them in modeling_gemma4.py."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_composite import Tower
from transformers.modeling_norm import RMSNorm


class Gemma4VisionConfig(PreTrainedConfig):
    model_type = "gemma4_vision"
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 16
    num_attention_heads: int = 12
    num_key_value_heads: int = 12
    head_dim: int = 64
    hidden_activation: str = "gelu_pytorch_tanh"
    rms_norm_eps: float = 1e-6
    patch_size: int = 16
    position_embedding_size: int = 10240
    use_clipped_linears: bool = False
    standardize: bool = False


class Gemma4ClippableLinear(nn.Module):
    def __init__(self, config, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out, bias=False)
        for name in ("input_min", "input_max", "output_min", "output_max") if config.use_clipped_linears else ():
            self.register_buffer(name, torch.tensor(0.0))


class Gemma4VisionPatchEmbedder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_proj = nn.Linear(3 * config.patch_size**2, config.hidden_size, bias=False)
        self.position_embedding_table = nn.Parameter(torch.ones(2, config.position_embedding_size, config.hidden_size))


class Gemma4VisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = Gemma4ClippableLinear(config, config.hidden_size, config.intermediate_size)
        self.up_proj = Gemma4ClippableLinear(config, config.hidden_size, config.intermediate_size)
        self.down_proj = Gemma4ClippableLinear(config, config.intermediate_size, config.hidden_size)
        self.act_fn = ACT2FN[config.hidden_activation]


class Gemma4VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        q, kv = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        for name, width in ("q_proj", q), ("k_proj", kv), ("v_proj", kv):
            setattr(self, name, Gemma4ClippableLinear(config, config.hidden_size, width))
        self.o_proj = Gemma4ClippableLinear(config, q, config.hidden_size)
        self.q_norm = RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, eps=config.rms_norm_eps)


class Gemma4VisionEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Gemma4VisionAttention(config)
        self.mlp = Gemma4VisionMLP(config)
        for name in "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm":
            setattr(self, name, RMSNorm(config.hidden_size, eps=config.rms_norm_eps))


class Gemma4VisionRotaryEmbedding(nn.Module):
    """Frequencies of one axis: a quarter of a head."""

    def __init__(self, config):
        super().__init__()
        inv_freq = torch.arange(0, config.head_dim // 2, 2, dtype=torch.float) / config.head_dim
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.register_buffer("original_inv_freq", inv_freq.clone(), persistent=False)


class Gemma4VisionEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rotary_emb = Gemma4VisionRotaryEmbedding(config)
        self.layers = nn.ModuleList([Gemma4VisionEncoderLayer(config) for _ in range(config.num_hidden_layers)])


class Gemma4VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_embedder = Gemma4VisionPatchEmbedder(config)
        self.encoder = Gemma4VisionEncoder(config)
        for name in ("std_bias", "std_scale") if config.standardize else ():
            self.register_buffer(name, torch.empty(config.hidden_size))


class Gemma4MultimodalEmbedder(Tower):
    def __init__(self, config, text_config):
        super().__init__()
        self.embedding_projection = nn.Linear(config.hidden_size, text_config.hidden_size, bias=False)
