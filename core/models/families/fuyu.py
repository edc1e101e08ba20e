"""fuyu: persimmon, to which patches of images come as rows by one linear layer. Its parameters; a step is not modelled."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_rope_utils import RotaryEmbedding


class PersimmonConfig(PreTrainedConfig):
    model_type, default_theta = "persimmon", 25000.0
    vocab_size: int = 262144
    hidden_size: int = 4096
    intermediate_size: int = 16384
    num_hidden_layers: int = 36
    num_attention_heads: int = 64
    hidden_act: str = "relu2"
    max_position_embeddings: int = 16384
    layer_norm_eps: float = 1e-5
    use_cache: bool = True
    tie_word_embeddings: bool = False
    rope_parameters: dict | None = None
    qk_layernorm: bool = True
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs):
        kwargs.setdefault("partial_rotary_factor", 0.5)
        super().__post_init__(**kwargs)


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


class PersimmonMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(config.hidden_size, config.intermediate_size)
        self.dense_4h_to_h = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act = ACT2FN[config.hidden_act]


class PersimmonAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.query_key_value = nn.Linear(width, 3 * width)
        self.dense = nn.Linear(width, width)
        for name in ("q_layernorm", "k_layernorm") if config.qk_layernorm else ():
            setattr(self, name, nn.LayerNorm(width // config.num_attention_heads, eps=config.layer_norm_eps))


class PersimmonDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = PersimmonAttention(config)
        self.mlp = PersimmonMLP(config)
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class PersimmonModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([PersimmonDecoderLayer(config) for _ in range(config.num_hidden_layers)])
        self.final_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.rotary_emb = RotaryEmbedding(config)


class FuyuModel(CompositePreTrainedModel):
    config_class = FuyuConfig

    def __init__(self, config):
        super().__init__(config)
        self.language_model = PersimmonModel(config.text_config)
        self.vision_embed_tokens = nn.Linear(config.patch_size**2 * config.num_channels, config.text_config.hidden_size)

    def get_input_embeddings(self):
        return self.language_model.embed_tokens


class FuyuForCausalLM(InventoryOnly, CompositeForConditionalGeneration):
    config_class, composed, _tp_plan, _no_split_modules = FuyuConfig, FuyuModel, None, []


causal_lm = FuyuForCausalLM
