"""What llama4 sees with: of text alone it is held, and does nothing; transformers has no such file."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_composite import Tower


class Llama4VisionConfig(PreTrainedConfig):
    model_type = "llama4_vision_model"
    hidden_size: int = 768
    hidden_act: str = "gelu"
    num_hidden_layers: int = 34
    num_attention_heads: int = 16
    num_channels: int = 3
    intermediate_size: int = 5632
    vision_output_dim: int = 7680
    image_size: int = 448
    patch_size: int = 14
    norm_eps: float = 1e-5
    projector_input_dim: int = 4096
    projector_output_dim: int = 4096


class Llama4VisionMLP2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.intermediate_size, config.projector_input_dim, bias=False)
        self.fc2 = nn.Linear(config.projector_output_dim, config.projector_output_dim, bias=False)


class Llama4VisionPixelShuffleMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = Llama4VisionMLP2(config)


class Llama4VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size))


class Llama4VisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


class Llama4VisionEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Llama4VisionAttention(config)
        self.mlp = Llama4VisionMLP(config)
        self.input_layernorm = nn.LayerNorm(config.hidden_size)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size)


class Llama4VisionEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([Llama4VisionEncoderLayer(config) for _ in range(config.num_hidden_layers)])


class Llama4UnfoldConvolution(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(config.num_channels * config.patch_size**2, config.hidden_size, bias=False)


class Llama4VisionRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        places, turns = (config.image_size // config.patch_size) ** 2 + 1, config.hidden_size // config.num_attention_heads // 2
        self.register_buffer("freqs_ci", torch.empty(places, 1, turns, dtype=torch.complex64), persistent=False)


class Llama4VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_embedding = Llama4UnfoldConvolution(config)
        self.class_embedding = nn.Parameter(torch.randn(config.hidden_size))
        self.positional_embedding_vlm = nn.Parameter(torch.randn((config.image_size // config.patch_size) ** 2 + 1, config.hidden_size))
        self.rotary_embedding = Llama4VisionRotaryEmbedding(config)
        self.layernorm_pre = nn.LayerNorm(config.hidden_size)
        self.layernorm_post = nn.LayerNorm(config.hidden_size)
        self.model = Llama4VisionEncoder(config)
        self.vision_adapter = Llama4VisionPixelShuffleMLP(config)


class Llama4MultiModalProjector(Tower):
    def __init__(self, config):
        super().__init__()
        self.linear_1 = nn.Linear(config.vision_config.vision_output_dim, config.text_config.hidden_size, bias=False)
