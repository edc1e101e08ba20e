"""gemma4: gemma3's norms, keys that may be values, layers that reuse others', experts beside the feed-forward. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel, Tower
from transformers.modeling_decoder import ScaledEmbedding
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_norm import RMSNorm
from transformers.releases import refuse


class Gemma4TextConfig(PreTrainedConfig):
    model_type = "gemma4_text"
    vocab_size: int = 262144
    hidden_size: int = 2304
    intermediate_size: int = 9216
    num_hidden_layers: int = 30
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    attention_bias: bool = False
    attention_dropout: float = 0.0
    sliding_window: int = 512
    layer_types: list | None = None
    vocab_size_per_layer_input: int = 262144
    hidden_size_per_layer_input: int = 256
    attention_k_eq_v: bool = False
    num_kv_shared_layers: int = 0
    enable_moe_block: bool = False
    use_double_wide_mlp: bool = False
    num_experts: int | None = None
    top_k_experts: int | None = None
    moe_intermediate_size: int | None = None
    global_head_dim: int = 512
    num_global_key_value_heads: int | None = None

    def __post_init__(self, **kwargs):
        if "per_layer_config" in kwargs:
            refuse("/config/text_config/per_layer_config", "sizes layer by layer are not modelled")
        if self.layer_types is None:
            self.layer_types = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(self.num_hidden_layers)]
        self.layer_types[-1] = "full_attention"
        self.num_experts_per_tok = self.top_k_experts
        super().__post_init__(**kwargs)


class Gemma4VisionConfig(PreTrainedConfig):
    model_type = "gemma4_vision"
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 16
    num_attention_heads: int = 12
    num_key_value_heads: int = 12
    head_dim: int = 64
    hidden_activation: str = "gelu_pytorch_tanh"
    rms_norm_eps: float = 1e-6
    patch_size: int = 16
    position_embedding_size: int = 10240
    use_clipped_linears: bool = False
    standardize: bool = False


class Gemma4Config(CompositeConfig):
    model_type, sub_configs = "gemma4", {"text_config": Gemma4TextConfig, "vision_config": Gemma4VisionConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    audio_config: dict | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if self.audio_config is not None:
            refuse("/config/audio_config", "the tower of sound is not modelled")
        if self.vision_config is None:
            self.sub_configs = {"text_config": Gemma4TextConfig}
        super().__post_init__(**kwargs)


class Gemma4RMSNorm(RMSNorm):
    pass


class Gemma4ClippableLinear(nn.Module):
    def __init__(self, config, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out, bias=False)
        for name in ("input_min", "input_max", "output_min", "output_max") if config.use_clipped_linears else ():
            self.register_buffer(name, torch.tensor(0.0))


class Gemma4VisionPatchEmbedder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_proj = nn.Linear(3 * config.patch_size**2, config.hidden_size, bias=False)
        self.position_embedding_table = nn.Parameter(torch.ones(2, config.position_embedding_size, config.hidden_size))


class Gemma4VisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = Gemma4ClippableLinear(config, config.hidden_size, config.intermediate_size)
        self.up_proj = Gemma4ClippableLinear(config, config.hidden_size, config.intermediate_size)
        self.down_proj = Gemma4ClippableLinear(config, config.intermediate_size, config.hidden_size)
        self.act_fn = ACT2FN[config.hidden_activation]


class Gemma4VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        q, kv = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        for name, width in ("q_proj", q), ("k_proj", kv), ("v_proj", kv):
            setattr(self, name, Gemma4ClippableLinear(config, config.hidden_size, width))
        self.o_proj = Gemma4ClippableLinear(config, q, config.hidden_size)
        self.q_norm = Gemma4RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = Gemma4RMSNorm(config.head_dim, eps=config.rms_norm_eps)


FOUR_NORMS = "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"


class Gemma4VisionEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Gemma4VisionAttention(config)
        self.mlp = Gemma4VisionMLP(config)
        for name in FOUR_NORMS:
            setattr(self, name, Gemma4RMSNorm(config.hidden_size, eps=config.rms_norm_eps))


class Gemma4VisionEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([Gemma4VisionEncoderLayer(config) for _ in range(config.num_hidden_layers)])


class Gemma4VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_embedder = Gemma4VisionPatchEmbedder(config)
        self.encoder = Gemma4VisionEncoder(config)
        for name in ("std_bias", "std_scale") if config.standardize else ():
            self.register_buffer(name, torch.empty(config.hidden_size))


class Gemma4TextAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        slides = config.layer_types[layer_idx] == "sliding_attention"
        keys_alone = config.attention_k_eq_v and not slides
        self.head_dim = config.head_dim if slides else config.global_head_dim
        heads = (config.num_global_key_value_heads if keys_alone else None) or config.num_key_value_heads
        q, kv, width, bias = config.num_attention_heads * self.head_dim, heads * self.head_dim, config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(width, q, bias=bias)
        self.q_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        if layer_idx < config.num_hidden_layers - config.num_kv_shared_layers:
            self.k_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps)
            self.k_proj = nn.Linear(width, kv, bias=bias)
            self.v_proj = None if keys_alone else nn.Linear(width, kv, bias=bias)
        self.o_proj = nn.Linear(q, width, bias=bias)


class Gemma4TextMLP(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        reuses = layer_idx >= config.num_hidden_layers - config.num_kv_shared_layers
        inner = config.intermediate_size * (2 if config.use_double_wide_mlp and reuses else 1)
        self.gate_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.down_proj = nn.Linear(inner, config.hidden_size, bias=False)
        self.act_fn = ACT2FN[config.hidden_activation]


class Gemma4TextExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config.hidden_size, config.moe_intermediate_size
        self.gate_up_proj = nn.Parameter(torch.empty(config.num_experts, 2 * inner, hidden))
        self.down_proj = nn.Parameter(torch.empty(config.num_experts, hidden, inner))
        self.act_fn = ACT2FN[config.hidden_activation]


class Gemma4TextRouter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.proj = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.scale = nn.Parameter(torch.ones(config.hidden_size))
        self.per_expert_scale = nn.Parameter(torch.ones(config.num_experts))


class Gemma4TextDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        self.self_attn = Gemma4TextAttention(config, layer_idx)
        self.mlp = Gemma4TextMLP(config, layer_idx)
        for name in FOUR_NORMS:
            setattr(self, name, Gemma4RMSNorm(width, eps=config.rms_norm_eps))
        self.register_buffer("layer_scalar", torch.ones(1))
        if rows:
            self.per_layer_input_gate = nn.Linear(width, rows, bias=False)
            self.per_layer_projection = nn.Linear(rows, width, bias=False)
            self.post_per_layer_input_norm = Gemma4RMSNorm(width, eps=config.rms_norm_eps)
        if config.enable_moe_block:
            self.router = Gemma4TextRouter(config)
            self.experts = Gemma4TextExperts(config)
            for name in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
                setattr(self, name, Gemma4RMSNorm(width, eps=config.rms_norm_eps))


class Gemma4TextModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        self.embed_tokens = ScaledEmbedding(config.vocab_size, width, config.pad_token_id, width**0.5)
        self.layers = nn.ModuleList([Gemma4TextDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = Gemma4RMSNorm(width, eps=config.rms_norm_eps)
        if rows:
            rows_of_all = config.num_hidden_layers * rows
            self.embed_tokens_per_layer = ScaledEmbedding(config.vocab_size_per_layer_input, rows_of_all, config.pad_token_id, rows**0.5)
            self.per_layer_model_projection = nn.Linear(width, rows_of_all, bias=False)
            self.per_layer_projection_norm = Gemma4RMSNorm(rows, eps=config.rms_norm_eps)


class Gemma4MultimodalEmbedder(Tower):
    def __init__(self, config, text_config):
        super().__init__()
        self.embedding_projection = nn.Linear(config.hidden_size, text_config.hidden_size, bias=False)


class Gemma4Model(CompositePreTrainedModel):
    config_class = Gemma4Config

    def __init__(self, config):
        super().__init__(config)
        if config.vision_config is not None:
            self.vision_tower = Gemma4VisionModel(config.vision_config)
        self.language_model = Gemma4TextModel(config.text_config)
        if config.vision_config is not None:
            self.embed_vision = Gemma4MultimodalEmbedder(config.vision_config, config.text_config)

    def get_input_embeddings(self):
        return self.language_model.embed_tokens


class Gemma4ForConditionalGeneration(InventoryOnly, CompositeForConditionalGeneration):
    config_class, composed, _no_split_modules = Gemma4Config, Gemma4Model, ["Gemma4TextDecoderLayer", "Gemma4VisionEncoderLayer"]


causal_lm = Gemma4ForConditionalGeneration
