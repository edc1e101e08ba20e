"""kimi_k25: deepseek_v3 under a model that sees. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel, Tower
from transformers.modeling_inventory import InventoryOnly
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Config, DeepseekV3Model


class Kimi_K25VisionConfig(PreTrainedConfig):
    model_type = "kimi_k25_vision"
    patch_size: int = 14
    pos_emb_height: int = 64
    pos_emb_width: int = 64
    pos_emb_time: int = 4
    num_attention_heads: int = 16
    num_hidden_layers: int = 27
    hidden_size: int = 1152
    intermediate_size: int = 4304
    hidden_act: str = "gelu_pytorch_tanh"
    merge_kernel_size: list | None = None

    def __post_init__(self, **kwargs):
        self.merge_kernel_size = self.merge_kernel_size or [2, 2]
        super().__post_init__(**kwargs)


class Kimi_K25Config(CompositeConfig):
    model_type, sub_configs = "kimi_k25", {"text_config": DeepseekV3Config, "vision_config": Kimi_K25VisionConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    projection_hidden_size: int | None = 1152
    projection_layer_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True


class Kimi_K25VisionPositionEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.position_embeddings = nn.Parameter(torch.zeros(config.pos_emb_height, config.pos_emb_width, config.hidden_size))
        self.register_buffer("time_position_embeddings", torch.zeros(config.pos_emb_time, 1, config.hidden_size), persistent=False)


class Kimi_K25VisionPatchEmbed(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.proj = nn.Conv2d(3, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size)
        self.pos_emb = Kimi_K25VisionPositionEmbeddings(config)


class Kimi_K25VisionRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size // config.num_attention_heads // 2
        self.register_buffer("inv_freq", torch.arange(0, width, 2, dtype=torch.float), persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)


class Kimi_K25VisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.act = ACT2FN[config.hidden_act]
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


class Kimi_K25VisionAttention(nn.Module):
    named = ("proj", "q_proj", "k_proj", "v_proj")

    def __init__(self, config):
        super().__init__()
        for name in self.named:
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size))


class Kimi_K25VisionEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden_size, eps=1e-5)
        self.norm2 = nn.LayerNorm(config.hidden_size, eps=1e-5)
        self.attn = Kimi_K25VisionAttention(config)
        self.mlp = Kimi_K25VisionMLP(config)


class Kimi_K25VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_embed = Kimi_K25VisionPatchEmbed(config)
        self.rotary_emb = Kimi_K25VisionRotaryEmbedding(config)
        self.layers = nn.ModuleList([Kimi_K25VisionEncoderLayer(config) for _ in range(config.num_hidden_layers)])
        self.final_layernorm = nn.LayerNorm(config.hidden_size, eps=1e-5)


class Kimi_K25MultimodalProjection(Tower):
    def __init__(self, config):
        super().__init__()
        inner = config.vision_config.hidden_size * config.vision_config.merge_kernel_size[0] * config.vision_config.merge_kernel_size[1]
        self.pre_norm = nn.LayerNorm(config.projection_hidden_size, eps=config.projection_layer_norm_eps)
        self.in_proj = nn.Linear(inner, inner)
        self.act = nn.GELU()
        self.out_proj = nn.Linear(inner, config.text_config.hidden_size)


class Kimi_K25Model(CompositePreTrainedModel):
    config_class = Kimi_K25Config

    def __init__(self, config):
        super().__init__(config)
        self.vision_tower = Kimi_K25VisionModel(config.vision_config)
        self.language_model = DeepseekV3Model(config.text_config)
        self.mm_projector = Kimi_K25MultimodalProjection(config)

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()


class Kimi_K25ForConditionalGeneration(InventoryOnly, CompositeForConditionalGeneration):
    config_class, composed, _no_split_modules = Kimi_K25Config, Kimi_K25Model, ["Kimi_K25VisionEncoderLayer"]


causal_lm = Kimi_K25ForConditionalGeneration
