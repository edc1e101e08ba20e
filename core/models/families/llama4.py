"""llama4: experts beside a shared one, positions turned in three layers of four, under a model that sees. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositePreTrainedModel, Tower
from transformers.modeling_inventory import InventoryOnly
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaMLP, LlamaModel, LlamaRMSNorm


class Llama4VisionConfig(PreTrainedConfig):
    model_type = "llama4_vision_model"
    hidden_size: int = 768
    hidden_act: str = "gelu"
    num_hidden_layers: int = 34
    num_attention_heads: int = 16
    num_channels: int = 3
    intermediate_size: int = 5632
    vision_output_dim: int = 7680
    image_size: int = 448
    patch_size: int = 14
    norm_eps: float = 1e-5
    projector_input_dim: int = 4096
    projector_output_dim: int = 4096


class Llama4TextConfig(LlamaConfig):
    model_type, default_theta, base_model_tp_plan = "llama4_text", 500000.0, None
    attribute_map = {"num_experts": "num_local_experts"}
    vocab_size: int = 202048
    hidden_size: int = 5120
    intermediate_size: int = 8192
    intermediate_size_mlp: int = 16384
    num_hidden_layers: int = 48
    num_attention_heads: int = 40
    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    num_experts_per_tok: int = 1
    num_local_experts: int = 16
    moe_layers: list | None = None
    interleave_moe_layer_step: int = 1

    def __post_init__(self, **kwargs):
        if self.moe_layers is None:
            self.moe_layers = list(range(self.interleave_moe_layer_step - 1, self.num_hidden_layers, self.interleave_moe_layer_step))
        super().__post_init__(**kwargs)


class Llama4Config(CompositeConfig):
    model_type, sub_configs = "llama4", {"vision_config": Llama4VisionConfig, "text_config": Llama4TextConfig}
    vision_config: dict | None = None
    text_config: dict | None = None
    tie_word_embeddings: bool = False


class Llama4TextExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        experts, hidden, inner = config.num_local_experts, config.hidden_size, config.intermediate_size
        self.gate_up_proj = nn.Parameter(torch.zeros(experts, hidden, 2 * inner))
        self.down_proj = nn.Parameter(torch.empty(experts, inner, hidden))
        self.act_fn = ACT2FN[config.hidden_act]


class Llama4Router(nn.Linear):
    def __init__(self, config):
        super().__init__(config.hidden_size, config.num_local_experts, bias=False)


class Llama4TextMoe(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.experts = Llama4TextExperts(config)
        self.router = Llama4Router(config)
        self.shared_expert = LlamaMLP(config)


class Llama4TextDecoderLayer(nn.Module):
    norm = LlamaRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = LlamaAttention(config, layer_idx)
        self.feed_forward = Llama4TextMoe(config) if layer_idx in config.moe_layers else LlamaMLP(config, config.intermediate_size_mlp)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)


class Llama4TextModel(LlamaModel):
    layer = Llama4TextDecoderLayer


class Llama4ForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = Llama4TextModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)


class Llama4VisionMLP2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.intermediate_size, config.projector_input_dim, bias=False)
        self.fc2 = nn.Linear(config.projector_output_dim, config.projector_output_dim, bias=False)


class Llama4VisionPixelShuffleMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = Llama4VisionMLP2(config)


class Llama4VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size))


class Llama4VisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


class Llama4VisionEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Llama4VisionAttention(config)
        self.mlp = Llama4VisionMLP(config)
        self.input_layernorm = nn.LayerNorm(config.hidden_size)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size)


class Llama4VisionEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([Llama4VisionEncoderLayer(config) for _ in range(config.num_hidden_layers)])


class Llama4UnfoldConvolution(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(config.num_channels * config.patch_size**2, config.hidden_size, bias=False)


class Llama4VisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        self.patch_embedding = Llama4UnfoldConvolution(config)
        self.class_embedding = nn.Parameter(torch.randn(config.hidden_size))
        self.positional_embedding_vlm = nn.Parameter(torch.randn((config.image_size // config.patch_size) ** 2 + 1, config.hidden_size))
        self.layernorm_pre = nn.LayerNorm(config.hidden_size)
        self.layernorm_post = nn.LayerNorm(config.hidden_size)
        self.model = Llama4VisionEncoder(config)
        self.vision_adapter = Llama4VisionPixelShuffleMLP(config)


class Llama4MultiModalProjector(Tower):
    def __init__(self, config):
        super().__init__()
        self.linear_1 = nn.Linear(config.vision_config.vision_output_dim, config.text_config.hidden_size, bias=False)


class Llama4ForConditionalGeneration(InventoryOnly, CompositePreTrainedModel):
    config_class, _no_split_modules = Llama4Config, ["Llama4TextDecoderLayer", "Llama4VisionEncoderLayer"]
    _tied_weights_keys = {"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.vision_model = Llama4VisionModel(config.vision_config)
        self.multi_modal_projector = Llama4MultiModalProjector(config)
        self.language_model = Llama4ForCausalLM(config.text_config)

    def get_input_embeddings(self):
        return self.language_model.model.embed_tokens

    def get_output_embeddings(self):
        return self.language_model.lm_head


causal_lm = Llama4ForConditionalGeneration
