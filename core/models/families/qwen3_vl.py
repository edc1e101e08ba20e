"""qwen3_vl: qwen3 under qwen3_5's tower, whose mergers of several depths go into its layers; text is trained."""
from torch import nn

from transformers.configuration_utils import CompositeConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositeModel
from transformers.models.llama.modeling_llama import LlamaModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3Config, Qwen3DecoderLayer
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionConfig, Qwen3_5VisionModel
from transformers.models.qwen3_5_text.modeling_qwen3_5_text import Qwen3_5TextRotaryEmbedding, tables_of_grids


class Qwen3VLTextConfig(Qwen3Config):
    model_type, default_theta, base_model_tp_plan = "qwen3_vl_text", 500000.0, None
    max_position_embeddings: int = 128000


class Qwen3VLVisionConfig(Qwen3_5VisionConfig):
    model_type = "qwen3_vl_vision"
    deepstack_visual_indexes: list | None = None

    def __post_init__(self, **kwargs):
        self.deepstack_visual_indexes = [8, 16, 24] if self.deepstack_visual_indexes is None else self.deepstack_visual_indexes
        super().__post_init__(**kwargs)


class Qwen3VLConfig(CompositeConfig):
    model_type, sub_configs = "qwen3_vl", {"vision_config": Qwen3VLVisionConfig, "text_config": Qwen3VLTextConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    tie_word_embeddings: bool = False


class Qwen3VLVisionDeepMerger(nn.Module):
    """Normed after neighbours are one row."""

    def __init__(self, config):
        super().__init__()
        inner = config.hidden_size * config.spatial_merge_size**2
        self.norm = nn.LayerNorm(inner, eps=1e-6)
        self.linear_fc1 = nn.Linear(inner, inner)
        self.act_fn = nn.GELU()
        self.linear_fc2 = nn.Linear(inner, config.out_hidden_size)


class Qwen3VLVisionModel(Qwen3_5VisionModel):
    def __init__(self, config):
        super().__init__(config)
        self.deepstack_merger_list = nn.ModuleList([Qwen3VLVisionDeepMerger(config) for _ in config.deepstack_visual_indexes])


class Qwen3VLTextAttention(Qwen3Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords = {}

    def window(self, config, layer_idx):
        return None


class Qwen3VLTextDecoderLayer(Qwen3DecoderLayer):
    attention = Qwen3VLTextAttention


class Qwen3VLTextRotaryEmbedding(Qwen3_5TextRotaryEmbedding):
    sections = [24, 20, 20]


class Qwen3VLTextModel(LlamaModel):
    layer, rotary, tables = Qwen3VLTextDecoderLayer, Qwen3VLTextRotaryEmbedding, tables_of_grids


class Qwen3VLModel(CompositeModel):
    config_class, parts = Qwen3VLConfig, {"visual": Qwen3VLVisionModel, "language_model": Qwen3VLTextModel}


class Qwen3VLForConditionalGeneration(CompositeForConditionalGeneration):
    config_class, composed = Qwen3VLConfig, Qwen3VLModel
    _no_split_modules = ["Qwen3VLTextDecoderLayer", "Qwen3VLVisionBlock"]
    positions_of_grids = True


causal_lm = Qwen3VLForConditionalGeneration
