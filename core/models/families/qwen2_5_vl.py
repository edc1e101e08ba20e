"""qwen2_5_vl: qwen2_vl whose tower has qwen2's norms and gated layers."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_vision_qwen2_vl import PatchMerger, Qwen2VisionTransformerPretrainedModel, Qwen2VLVisionBlock
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLModel, Qwen2VLTextConfig, Qwen2VLTextModel


class Qwen2_5_VLTextConfig(Qwen2VLTextConfig):
    model_type = "qwen2_5_vl_text"


class Qwen2_5_VLVisionConfig(PreTrainedConfig):
    model_type = "qwen2_5_vl_vision"
    depth: int = 32
    hidden_size: int = 3584
    hidden_act: str = "silu"
    intermediate_size: int = 3420
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 14
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    out_hidden_size: int = 3584

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.width, self.out = self.hidden_size, self.out_hidden_size


class Qwen2_5_VLConfig(Qwen2VLConfig):
    model_type, sub_configs = "qwen2_5_vl", {"vision_config": Qwen2_5_VLVisionConfig, "text_config": Qwen2_5_VLTextConfig}


class Qwen2_5_VLMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.intermediate_size)
        self.up_proj = nn.Linear(config.width, config.intermediate_size)
        self.down_proj = nn.Linear(config.intermediate_size, config.width)
        self.act_fn = ACT2FN[config.hidden_act]


class Qwen2_5_VLPatchMerger(PatchMerger):
    norm = Qwen2RMSNorm


class Qwen2_5_VLVisionBlock(Qwen2VLVisionBlock):
    norm, feed_forward = Qwen2RMSNorm, Qwen2_5_VLMLP


class Qwen2_5_VisionTransformerPretrainedModel(Qwen2VisionTransformerPretrainedModel):
    block, last = Qwen2_5_VLVisionBlock, Qwen2_5_VLPatchMerger


class Qwen2_5_VLModel(Qwen2VLModel):
    config_class, parts = Qwen2_5_VLConfig, {"visual": Qwen2_5_VisionTransformerPretrainedModel, "language_model": Qwen2VLTextModel}


class Qwen2_5_VLForConditionalGeneration(Qwen2VLForConditionalGeneration):
    config_class, composed, items_are_not_taken = Qwen2_5_VLConfig, Qwen2_5_VLModel, True
    _no_split_modules = ["Qwen2_5_VLDecoderLayer", "Qwen2_5_VLVisionBlock"]


causal_lm = Qwen2_5_VLForConditionalGeneration
