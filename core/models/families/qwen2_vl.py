"""qwen2_vl: qwen2 under a model that sees. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositeModel, Tower
from transformers.modeling_inventory import InventoryOnly
from transformers.models.qwen2.modeling_qwen2 import Qwen2Config, Qwen2Model


class Qwen2VLTextConfig(Qwen2Config):
    model_type, default_theta = "qwen2_vl_text", 1000000.0
    vocab_size: int = 152064
    hidden_size: int = 8192
    intermediate_size: int = 29568
    num_hidden_layers: int = 80
    num_attention_heads: int = 64
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    max_window_layers: int = 80

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.rope_parameters["rope_type"] == "mrope":  # of older files: sections of the default's frequencies
            self.rope_parameters["rope_type"] = "default"


class Qwen2VLVisionConfig(PreTrainedConfig):
    model_type = "qwen2_vl_vision"
    depth: int = 32
    embed_dim: int = 1280
    hidden_size: int = 3584
    hidden_act: str = "quick_gelu"
    mlp_ratio: int = 4
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 14
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.width, self.out = self.embed_dim, self.hidden_size


class Qwen2VLConfig(CompositeConfig):
    model_type, sub_configs = "qwen2_vl", {"vision_config": Qwen2VLVisionConfig, "text_config": Qwen2VLTextConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        if self.text_config is None:  # files of before 4.52 have its members beside the tower's dict
            self.text_config, kwargs = kwargs, {}
        self.tie_word_embeddings = self.tie_word_embeddings or self.text_config.get("tie_word_embeddings", False)
        super().__post_init__(**kwargs)


class PatchEmbed(nn.Module):
    def __init__(self, config):
        super().__init__()
        patch = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.width, kernel_size=patch, stride=patch, bias=False)


class PatchMerger(nn.Module):
    norm = nn.LayerNorm

    def __init__(self, config):
        super().__init__()
        inner = config.width * config.spatial_merge_size**2
        self.ln_q = self.norm(config.width, eps=1e-6)
        self.mlp = nn.ModuleList([nn.Linear(inner, inner), nn.GELU(), nn.Linear(inner, config.out)])


class VisionMlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.width, int(config.width * config.mlp_ratio))
        self.act = ACT2FN[config.hidden_act]
        self.fc2 = nn.Linear(int(config.width * config.mlp_ratio), config.width)


class VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.qkv = nn.Linear(config.width, config.width * 3)
        self.proj = nn.Linear(config.width, config.width)


class Qwen2VLVisionRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.register_buffer("inv_freq", torch.arange(0, config.width // config.num_heads // 2, 2, dtype=torch.float), persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)


class Qwen2VLVisionBlock(nn.Module):
    norm, feed_forward = nn.LayerNorm, VisionMlp

    def __init__(self, config):
        super().__init__()
        self.norm1 = self.norm(config.width, eps=1e-6)
        self.norm2 = self.norm(config.width, eps=1e-6)
        self.attn = VisionAttention(config)
        self.mlp = self.feed_forward(config)


class Qwen2VisionTransformerPretrainedModel(Tower):
    block, last = Qwen2VLVisionBlock, PatchMerger

    def __init__(self, config):
        super().__init__()
        self.patch_embed = PatchEmbed(config)
        self.rotary_pos_emb = Qwen2VLVisionRotaryEmbedding(config)
        self.blocks = nn.ModuleList([self.block(config) for _ in range(config.depth)])
        self.merger = self.last(config)


class Qwen2VLModel(CompositeModel):
    config_class, parts = Qwen2VLConfig, {"visual": Qwen2VisionTransformerPretrainedModel, "language_model": Qwen2Model}


class Qwen2VLForConditionalGeneration(InventoryOnly, CompositeForConditionalGeneration):
    config_class, composed, _no_split_modules = Qwen2VLConfig, Qwen2VLModel, ["Qwen2VLDecoderLayer", "Qwen2VLVisionBlock"]


causal_lm = Qwen2VLForConditionalGeneration
