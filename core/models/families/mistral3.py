"""mistral3: mistral or ministral3 under a model that sees, by Pixtral; text is trained."""
import torch
from torch import nn

from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositeModel, Tower
from transformers.models.ministral3.modeling_ministral3 import Ministral3Config, Ministral3Model
from transformers.models.mistral.modeling_mistral import MistralConfig, MistralModel, MistralRMSNorm
from transformers.releases import refuse

TEXTS = {"mistral": (MistralConfig, MistralModel), "ministral3": (Ministral3Config, Ministral3Model)}
TEXT = {"head_dim": 128, "hidden_size": 5120, "intermediate_size": 32768, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5, "rope_theta": 1e9, "sliding_window": None, "vocab_size": 131072}  # where a file has no text_config
VISION = {"patch_size": 14, "image_size": 1540}  # nor a vision_config


class PixtralVisionConfig(PreTrainedConfig):
    model_type = "pixtral"
    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_channels: int = 3
    image_size: int = 1024
    patch_size: int = 16


def text_config(**given):
    kind = given.get("model_type", "mistral")
    if kind not in TEXTS:
        refuse("/config/text_config/model_type", f"mistral3 over {kind} is not modelled: mistral and ministral3")
    return TEXTS[kind][0](**given)


class Mistral3Config(CompositeConfig):
    model_type, sub_configs = "mistral3", {"vision_config": PixtralVisionConfig, "text_config": text_config}
    text_config: dict | None = None
    vision_config: dict | None = None
    vision_feature_layer: int | list[int] = -1
    multimodal_projector_bias: bool = False
    spatial_merge_size: int = 2
    tie_word_embeddings: bool | None = None

    def __post_init__(self, **kwargs):
        self.text_config, self.vision_config = self.text_config or TEXT, self.vision_config or VISION
        if self.tie_word_embeddings is None:  # the class says true; a checkpoint that has a head of its own keeps it (modeling_utils.py), which its text tells
            self.tie_word_embeddings = self.text_config.get("tie_word_embeddings", False)
        super().__post_init__(**kwargs)


class PixtralAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("k_proj", "v_proj", "q_proj", "o_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size, bias=False))


class PixtralMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)


class PixtralAttentionLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm = MistralRMSNorm(config.hidden_size, eps=1e-5)
        self.feed_forward = PixtralMLP(config)
        self.attention = PixtralAttention(config)
        self.ffn_norm = MistralRMSNorm(config.hidden_size, eps=1e-5)


class PixtralTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([PixtralAttentionLayer(config) for _ in range(config.num_hidden_layers)])


class PixtralVisionRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.register_buffer("inv_freq", torch.arange(0, config.hidden_size // config.num_attention_heads, 2, dtype=torch.float), persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)


class PixtralVisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_conv = nn.Conv2d(config.num_channels, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size, bias=False)
        self.ln_pre = MistralRMSNorm(config.hidden_size, eps=1e-5)
        self.transformer = PixtralTransformer(config)
        self.patch_positional_embedding = PixtralVisionRotaryEmbedding(config)


class Mistral3PatchMerger(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.vision_config.hidden_size
        self.merging_layer = nn.Linear(width * config.spatial_merge_size**2, width, bias=False)


class Mistral3MultiModalProjector(Tower):
    def __init__(self, config):
        super().__init__()
        kept, bias, text = config.vision_feature_layer, config.multimodal_projector_bias, config.text_config
        self.norm = MistralRMSNorm(config.vision_config.hidden_size, eps=text.rms_norm_eps)
        self.patch_merger = Mistral3PatchMerger(config)
        self.linear_1 = nn.Linear(config.vision_config.hidden_size * (1 if isinstance(kept, int) else len(kept)), text.hidden_size, bias=bias)
        self.linear_2 = nn.Linear(text.hidden_size, text.hidden_size, bias=bias)


class Mistral3Model(CompositeModel):
    config_class = Mistral3Config

    def __init__(self, config):
        super().__init__(config)
        self.vision_tower = PixtralVisionModel(config.vision_config)
        self.multi_modal_projector = Mistral3MultiModalProjector(config)
        self.language_model = TEXTS[config.text_config.model_type][1](config.text_config)

    def forward(self, use_cache=None, **kwargs):  # the whole config's, which Trainer sets: merge_with_config_defaults()
        return super().forward(use_cache=self.config.use_cache if use_cache is None else use_cache, **kwargs)


class Mistral3ForConditionalGeneration(CompositeForConditionalGeneration):
    config_class, composed, items_are_not_taken = Mistral3Config, Mistral3Model, False
    _no_split_modules = ["MistralDecoderLayer", "Ministral3DecoderLayer", "PixtralAttentionLayer"]


causal_lm = Mistral3ForConditionalGeneration
