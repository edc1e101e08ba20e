"""fuyu: persimmon, to which patches of images come as rows by one linear layer; of text alone nothing comes by there."""
from torch import nn

from transformers.configuration_utils import CompositeConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositeModel
from transformers.models.persimmon.modeling_persimmon import PersimmonConfig, PersimmonModel


class FuyuConfig(CompositeConfig):
    model_type, sub_configs = "fuyu", {"text_config": PersimmonConfig}
    image_size: int = 300
    patch_size: int = 30
    num_channels: int = 3
    tie_word_embeddings: bool = False
    text_config: dict | None = None

    def __post_init__(self, **kwargs):
        if self.text_config is None:  # older files have its members beside the patches'
            self.text_config, kwargs = kwargs, {}
        super().__post_init__(**kwargs)


class FuyuModel(CompositeModel):
    config_class = FuyuConfig

    def __init__(self, config):
        super().__init__(config)
        self.language_model = PersimmonModel(config.text_config)
        self.vision_embed_tokens = nn.Linear(config.patch_size**2 * config.num_channels, config.text_config.hidden_size)


class FuyuForCausalLM(CompositeForConditionalGeneration):
    config_class, composed, _tp_plan, items_are_not_taken = FuyuConfig, FuyuModel, None, False
    _no_split_modules = ["PersimmonDecoderLayer"]  # its own list is empty: what the model within names counts too


causal_lm = FuyuForCausalLM
