"""qwen2_vl: qwen2 with positions of three grids under a model that sees; text is trained."""
import torch

from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositeModel
from transformers.modeling_vision_qwen2_vl import Qwen2VisionTransformerPretrainedModel
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention, Qwen2Config, Qwen2DecoderLayer, Qwen2Model
from transformers.models.qwen3_5_text.modeling_qwen3_5_text import Qwen3_5TextRotaryEmbedding, tables_of_grids


class Qwen2VLTextConfig(Qwen2Config):
    model_type, default_theta = "qwen2_vl_text", 1000000.0
    bos_token_id: int | None = 151643
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


class Qwen2VLRotaryEmbedding(Qwen3_5TextRotaryEmbedding):
    sections = [16, 24, 24]

    def recomposition_frequencies(self, freq):
        freq = torch.cat([part[i % 3] for i, part in enumerate(freq.split(self.mrope_section, dim=-1))], dim=-1)
        return torch.cat((freq, freq), dim=-1)


class Qwen2VLAttention(Qwen2Attention):
    def project(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = q.view(shape).transpose(1, 2)
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        return q, k, v


class Qwen2VLDecoderLayer(Qwen2DecoderLayer):
    attention = Qwen2VLAttention


class Qwen2VLTextModel(Qwen2Model):
    layer, rotary, tables = Qwen2VLDecoderLayer, Qwen2VLRotaryEmbedding, tables_of_grids

    def masks(self, **of):
        return super().masks(**{**of, "position_ids": None})

    def handed(self, position_ids):
        return None  # of grids alone: nobody sees packed rows by them


class Qwen2VLModel(CompositeModel):
    config_class, parts = Qwen2VLConfig, {"visual": Qwen2VisionTransformerPretrainedModel, "language_model": Qwen2VLTextModel}


class Qwen2VLForConditionalGeneration(CompositeForConditionalGeneration):
    config_class, composed, items_are_not_taken = Qwen2VLConfig, Qwen2VLModel, False
    _no_split_modules = ["Qwen2VLDecoderLayer", "Qwen2VLVisionBlock"]
    positions_of_grids = True


causal_lm = Qwen2VLForConditionalGeneration
