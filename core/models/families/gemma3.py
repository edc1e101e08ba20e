"""gemma3: gemma3_text under a model that sees, by SigLIP: of text alone its tower and its projector are held, and do nothing."""
import torch
from torch import nn

from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel, Tower
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.gemma3_text.modeling_gemma3_text import Gemma3TextConfig, Gemma3TextModel
from transformers.utils.generic import can_return_tuple


class SiglipVisionConfig(PreTrainedConfig):
    model_type = "siglip_vision_model"
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 16
    layer_norm_eps: float = 1e-6
    vision_use_head: bool = True


class Gemma3Config(CompositeConfig):
    model_type, attribute_map = "gemma3", {"image_token_id": "image_token_index"}
    sub_configs = {"text_config": Gemma3TextConfig, "vision_config": SiglipVisionConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    mm_tokens_per_image: int = 256
    image_token_id: int = 262144
    tie_word_embeddings: bool = True


class SiglipVisionEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size)
        self.position_embedding = nn.Embedding(patches, config.hidden_size)
        self.register_buffer("position_ids", torch.arange(patches).expand((1, -1)), persistent=False)


class SiglipAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size))


class SiglipMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


class SiglipEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self_attn = SiglipAttention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = SiglipMLP(config)


class SiglipEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([SiglipEncoderLayer(config) for _ in range(config.num_hidden_layers)])


class SiglipMultiheadAttentionPoolingHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.probe = nn.Parameter(torch.randn(1, 1, config.hidden_size))
        self.attention = nn.MultiheadAttention(config.hidden_size, config.num_attention_heads, batch_first=True)
        self.layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = SiglipMLP(config)


class SiglipVisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.embeddings = SiglipVisionEmbeddings(config)
        self.encoder = SiglipEncoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        if config.vision_use_head:
            self.head = SiglipMultiheadAttentionPoolingHead(config)


class Gemma3MultiModalProjector(Tower):
    def __init__(self, config):
        super().__init__()
        self.mm_input_projection_weight = nn.Parameter(torch.zeros(config.vision_config.hidden_size, config.text_config.hidden_size))
        self.mm_soft_emb_norm = Gemma2RMSNorm(config.vision_config.hidden_size, eps=config.vision_config.layer_norm_eps)


class Gemma3Model(CompositePreTrainedModel):
    config_class = Gemma3Config

    def __init__(self, config):
        super().__init__(config)
        self.vision_tower = SiglipVisionModel(config.vision_config)
        self.multi_modal_projector = Gemma3MultiModalProjector(config)
        self.language_model = Gemma3TextModel(config.text_config)
        self.post_init()

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        text_ids = input_ids
        if self.config.image_token_id >= self.config.text_config.vocab_size:  # no row of the embeddings
            images = input_ids == self.config.image_token_id
            text_ids = input_ids.clone()
            text_ids[images] = 0
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(text_ids)
        of = dict(config=self.config.text_config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                  position_ids=position_ids)
        masks = {"full_attention": create_causal_mask(**of), "sliding_attention": create_sliding_window_causal_mask(**of)}
        return self.language_model(attention_mask=masks, position_ids=position_ids, past_key_values=past_key_values, inputs_embeds=inputs_embeds,
                                   use_cache=use_cache, **kwargs)


class Gemma3ForConditionalGeneration(CompositeForConditionalGeneration):
    config_class, composed, items_are_not_taken = Gemma3Config, Gemma3Model, False
    _no_split_modules = ["Gemma3DecoderLayer", "SiglipVisionEmbeddings", "SiglipEncoderLayer", "SiglipMultiheadAttentionPoolingHead"]


causal_lm = Gemma3ForConditionalGeneration
