"""qwen3_5: qwen3_5_text under a model that sees: of text alone its tower is held, and does nothing."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositeModel, Tower
from transformers.models.qwen3_5_text.modeling_qwen3_5_text import Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3_5TextModel


class Qwen3_5VisionConfig(PreTrainedConfig):
    model_type = "qwen3_5_vision"
    depth: int = 27
    hidden_size: int = 1152
    hidden_act: str = "gelu_pytorch_tanh"
    intermediate_size: int = 4304
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 16
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    out_hidden_size: int = 3584
    num_position_embeddings: int = 2304


class Qwen3_5Config(CompositeConfig):
    model_type, sub_configs = "qwen3_5", {"vision_config": Qwen3_5VisionConfig, "text_config": Qwen3_5TextConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    tie_word_embeddings: bool = False


class Qwen3_5VisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear_fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.linear_fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act_fn = ACT2FN[config.hidden_act]


class Qwen3_5VisionPatchEmbed(nn.Module):
    def __init__(self, config):
        super().__init__()
        patch = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.hidden_size, kernel_size=patch, stride=patch)


class Qwen3_5VisionPatchMerger(nn.Module):
    def __init__(self, config):
        super().__init__()
        inner = config.hidden_size * config.spatial_merge_size**2
        self.norm = nn.LayerNorm(config.hidden_size, eps=1e-6)
        self.linear_fc1 = nn.Linear(inner, inner)
        self.act_fn = nn.GELU()
        self.linear_fc2 = nn.Linear(inner, config.out_hidden_size)


class Qwen3_5VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.qkv = nn.Linear(config.hidden_size, config.hidden_size * 3)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size)


class Qwen3_5VisionRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.register_buffer("inv_freq", torch.arange(0, config.hidden_size // config.num_heads // 2, 2, dtype=torch.float), persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)


class Qwen3_5VisionBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden_size, eps=1e-6)
        self.norm2 = nn.LayerNorm(config.hidden_size, eps=1e-6)
        self.attn = Qwen3_5VisionAttention(config)
        self.mlp = Qwen3_5VisionMLP(config)


class Qwen3_5VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_embed = Qwen3_5VisionPatchEmbed(config)
        self.pos_embed = nn.Embedding(config.num_position_embeddings, config.hidden_size)
        self.rotary_pos_emb = Qwen3_5VisionRotaryEmbedding(config)
        self.blocks = nn.ModuleList([Qwen3_5VisionBlock(config) for _ in range(config.depth)])
        self.merger = Qwen3_5VisionPatchMerger(config)


class Qwen3_5Model(CompositeModel):
    config_class, parts = Qwen3_5Config, {"visual": Qwen3_5VisionModel, "language_model": Qwen3_5TextModel}


class Qwen3_5ForConditionalGeneration(CompositeForConditionalGeneration):
    config_class, composed, turn = Qwen3_5Config, Qwen3_5Model, Qwen3_5ForCausalLM.turn
    _no_split_modules = ["Qwen3_5DecoderLayer", "Qwen3_5VisionBlock"]
    positions_of_grids, balances_unasked = True, False


causal_lm = Qwen3_5ForConditionalGeneration
