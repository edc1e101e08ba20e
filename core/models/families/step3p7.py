"""step3p7: gated attention with norms over heads, experts after dense layers, under a model that sees. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel, Tower
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_moe import Experts, TopKRouter, experts_tp_plan
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds
from transformers.models.kimi_k25.modeling_kimi_k25 import Kimi_K25VisionAttention, Kimi_K25VisionMLP, Kimi_K25VisionRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaMLP, LlamaModel, LlamaRMSNorm


class Step3p7VisionConfig(PreTrainedConfig):
    model_type = "step3p5_vision"
    hidden_size: int = 1536
    num_hidden_layers: int = 47
    num_attention_heads: int = 16
    image_size: int = 728
    patch_size: int = 14
    hidden_act: str = "quick_gelu"
    mlp_ratio: float = 8960 / 1536

    def __post_init__(self, **kwargs):
        for name, older in (("hidden_size", "width"), ("num_hidden_layers", "layers"), ("num_attention_heads", "heads")):
            setattr(self, name, kwargs.pop(older, getattr(self, name)))
        super().__post_init__(**kwargs)
        self.intermediate_size = int(self.hidden_size * self.mlp_ratio)


class Step3p7TextConfig(LlamaConfig):
    model_type = "step3p5"
    attribute_map = {"num_local_experts": "n_routed_experts", "num_experts": "n_routed_experts", "num_attention_groups": "num_key_value_heads",
                     "moe_num_experts": "n_routed_experts", "moe_top_k": "num_experts_per_tok", "share_expert_dims": "share_expert_dim"}
    base_model_tp_plan = experts_tp_plan()
    vocab_size: int = 128815
    intermediate_size: int = 11264
    num_hidden_layers: int = 45
    num_attention_heads: int = 64
    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 128000
    rms_norm_eps: float = 1e-5
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 1280
    n_routed_experts: int = 288
    share_expert_dim: int = 1280
    sliding_window: int | None = None
    num_sliding_attention_heads: int | None = None
    layer_types: list | None = None
    mlp_layer_types: list | None = None

    def __post_init__(self, **kwargs):
        layers, sparse, other = self.num_hidden_layers, kwargs.pop("moe_layers_enum", None), kwargs.pop("attention_other_setting", None) or {}
        self.layer_types = (self.layer_types or ["full_attention"] * layers)[:layers]  # entries of layers that predict further tokens come behind
        if self.mlp_layer_types is None:
            sparse = range(3, layers) if sparse is None else [int(i) for i in (sparse.split(",") if isinstance(sparse, str) else sparse)]
            self.mlp_layer_types = ["sparse" if i in sparse else "dense" for i in range(layers)]
        self.num_sliding_attention_heads = self.num_sliding_attention_heads or other.get("num_attention_heads", self.num_attention_heads)
        parts, _theta = kwargs.pop("partial_rotary_factors", None) or [1.0] * layers, kwargs.pop("rope_theta", None)  # one a layer
        if not all(isinstance((self.rope_parameters or {}).get(kind), dict) for kind in self.layer_types):
            self.rope_parameters = {kind: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": parts[self.layer_types.index(kind)]}
                                    for kind in self.layer_types}
        super().__post_init__(**kwargs)


class Step3p7Config(CompositeConfig):
    model_type, sub_configs = "step3p7", {"vision_config": Step3p7VisionConfig, "text_config": Step3p7TextConfig}
    vision_config: dict | None = None
    text_config: dict | None = None
    projector_bias: bool = False


class Step3p7VisionEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        places = (config.image_size // config.patch_size) ** 2
        self.patch_embedding = nn.Conv2d(3, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size, bias=False)
        self.position_embedding = nn.Embedding(places, config.hidden_size)
        self.register_buffer("position_ids", torch.arange(places).expand((1, -1)), persistent=False)


class Step3p7VisionAttention(Kimi_K25VisionAttention):
    named = ("k_proj", "v_proj", "q_proj", "out_proj")


class Step3p7VisionEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Step3p7VisionAttention(config)
        self.mlp = Kimi_K25VisionMLP(config)
        self.layernorm_before = nn.LayerNorm(config.hidden_size)
        self.layernorm_after = nn.LayerNorm(config.hidden_size)
        self.lambda_1 = nn.Parameter(torch.ones(config.hidden_size))
        self.lambda_2 = nn.Parameter(torch.ones(config.hidden_size))


class Step3p7VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.embeddings = Step3p7VisionEmbeddings(config)
        self.pre_layernorm = nn.LayerNorm(width)
        self.rotary_emb = Kimi_K25VisionRotaryEmbedding(config)
        self.layers = nn.ModuleList([Step3p7VisionEncoderLayer(config) for _ in range(config.num_hidden_layers)])
        self.downsampler1 = nn.Conv2d(width, width * 2, kernel_size=3, stride=2, padding=1)
        self.downsampler2 = nn.Conv2d(width * 2, width * 4, kernel_size=3, stride=2, padding=1)


class Step3p7SparseMoeBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = TopKRouter(config)
        self.gate.register_buffer("e_score_correction_bias", torch.zeros(config.num_experts))
        self.experts = Experts(config)
        self.shared_experts = LlamaMLP(config, config.share_expert_dim)


class Step3p7Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        slides = config.layer_types[layer_idx] == "sliding_attention"
        heads = config.num_sliding_attention_heads if slides else config.num_attention_heads
        for name, width in (("q_proj", heads), ("k_proj", config.num_key_value_heads), ("v_proj", config.num_key_value_heads)):
            setattr(self, name, nn.Linear(config.hidden_size, width * config.head_dim, bias=config.attention_bias))
        self.o_proj = nn.Linear(heads * config.head_dim, config.hidden_size, bias=config.attention_bias)
        self.q_norm, self.k_norm = LlamaRMSNorm(config.head_dim), LlamaRMSNorm(config.head_dim)
        self.g_proj = nn.Linear(config.hidden_size, heads, bias=False)


class Step3p7DecoderLayer(LlamaDecoderLayer):
    attention = Step3p7Attention

    def make_mlp(self, config, layer_idx):
        return Step3p7SparseMoeBlock(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class Step3p7TextModel(LlamaModel):
    layer, rotary = Step3p7DecoderLayer, RotaryEmbeddingOfKinds


class Step3p7Model(CompositePreTrainedModel):
    config_class = Step3p7Config

    def __init__(self, config):
        super().__init__(config)
        self.vision_model = Step3p7VisionModel(config.vision_config)
        self.language_model = Step3p7TextModel(config.text_config)
        self.multi_modal_projector = nn.Linear(config.vision_config.hidden_size * 4, config.text_config.hidden_size, bias=config.projector_bias)

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()


class Step3p7ForConditionalGeneration(InventoryOnly, CompositeForConditionalGeneration):
    config_class, composed, _no_split_modules = Step3p7Config, Step3p7Model, ["Step3p7VisionEncoderLayer", "Step3p7DecoderLayer"]


causal_lm = Step3p7ForConditionalGeneration
