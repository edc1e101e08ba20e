"""What mllama sees with: its parameters, of text alone it is held; transformers has no such file."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_composite import Tower


class MllamaVisionConfig(PreTrainedConfig):
    model_type = "mllama_vision_model"
    hidden_size: int = 1280
    hidden_act: str = "gelu"
    num_hidden_layers: int = 32
    num_global_layers: int = 8
    attention_heads: int = 16
    num_channels: int = 3
    intermediate_size: int = 5120
    vision_output_dim: int = 7680
    image_size: int = 448
    patch_size: int = 14
    norm_eps: float = 1e-5
    max_num_tiles: int = 4
    supported_aspect_ratios: list | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.ratios = 1 + (8 if self.supported_aspect_ratios is None else len(self.supported_aspect_ratios))


def gate():
    return nn.Parameter(torch.zeros(1))


class MllamaPrecomputedAspectRatioEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.ratios, config.max_num_tiles * config.hidden_size)
        self.gate = gate()


class MllamaPrecomputedPositionEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2 + 1
        self.gate = gate()
        self.embedding = nn.Parameter(torch.randn(patches, config.hidden_size))
        self.tile_embedding = nn.Embedding(config.ratios, config.max_num_tiles * patches * config.hidden_size)


class MllamaVisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.activation_fn = ACT2FN[config.hidden_act]
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


class MllamaVisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size, bias=False))


class MllamaVisionEncoderLayer(nn.Module):
    def __init__(self, config, gated):
        super().__init__()
        self.self_attn = MllamaVisionAttention(config)
        self.mlp = MllamaVisionMLP(config)
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        if gated:
            self.gate_attn, self.gate_ffn = gate(), gate()


class MllamaVisionEncoder(nn.Module):
    def __init__(self, config, layers, gated):
        super().__init__()
        self.layers = nn.ModuleList([MllamaVisionEncoderLayer(config, gated) for _ in range(layers)])


class MllamaVisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.patch_embedding = nn.Conv2d(config.num_channels, width, kernel_size=config.patch_size, stride=config.patch_size, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(width))
        self.gated_positional_embedding = MllamaPrecomputedPositionEmbedding(config)
        self.pre_tile_positional_embedding = MllamaPrecomputedAspectRatioEmbedding(config)
        self.post_tile_positional_embedding = MllamaPrecomputedAspectRatioEmbedding(config)
        self.layernorm_pre = nn.LayerNorm(width)
        self.layernorm_post = nn.LayerNorm(width)
        self.transformer = MllamaVisionEncoder(config, config.num_hidden_layers, False)
        self.global_transformer = MllamaVisionEncoder(config, config.num_global_layers, True)
