"""mllama: llama, some of whose layers look at images by attention across. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import CompositeConfig, PreTrainedConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel, Tower
from transformers.modeling_inventory import InventoryOnly
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaMLP, LlamaModel, LlamaRMSNorm


class MllamaVisionConfig(PreTrainedConfig):
    model_type = "mllama_vision_model"
    hidden_size: int = 1280
    hidden_act: str = "gelu"
    num_hidden_layers: int = 32
    num_global_layers: int = 8
    attention_heads: int = 16
    num_channels: int = 3
    intermediate_size: int = 5120
    vision_output_dim: int = 7680
    image_size: int = 448
    patch_size: int = 14
    norm_eps: float = 1e-5
    max_num_tiles: int = 4
    supported_aspect_ratios: list | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.ratios = 1 + (8 if self.supported_aspect_ratios is None else len(self.supported_aspect_ratios))


class MllamaTextConfig(LlamaConfig):
    model_type, default_theta, base_model_tp_plan = "mllama_text_model", 500000.0, None
    vocab_size: int = 128256
    num_hidden_layers: int = 40
    num_key_value_heads: int | None = 8
    intermediate_size: int = 14336
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 131072
    cross_attention_layers: list | None = None
    pad_token_id: int | None = 128004

    def __post_init__(self, **kwargs):
        self.cross_attention_layers = [3, 8, 13, 18, 23, 28, 33, 38] if self.cross_attention_layers is None else self.cross_attention_layers
        super().__post_init__(**kwargs)


class MllamaConfig(CompositeConfig):
    model_type, sub_configs = "mllama", {"vision_config": MllamaVisionConfig, "text_config": MllamaTextConfig}
    vision_config: dict | None = None
    text_config: dict | None = None
    tie_word_embeddings: bool = False


def gate():
    return nn.Parameter(torch.zeros(1))


class MllamaPrecomputedAspectRatioEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.ratios, config.max_num_tiles * config.hidden_size)
        self.gate = gate()


class MllamaPrecomputedPositionEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2 + 1
        self.gate = gate()
        self.embedding = nn.Parameter(torch.randn(patches, config.hidden_size))
        self.tile_embedding = nn.Embedding(config.ratios, config.max_num_tiles * patches * config.hidden_size)


class MllamaVisionMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.activation_fn = ACT2FN[config.hidden_act]
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


class MllamaVisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size, bias=False))


class MllamaVisionEncoderLayer(nn.Module):
    def __init__(self, config, gated):
        super().__init__()
        self.self_attn = MllamaVisionAttention(config)
        self.mlp = MllamaVisionMLP(config)
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        if gated:
            self.gate_attn, self.gate_ffn = gate(), gate()


class MllamaVisionEncoder(nn.Module):
    def __init__(self, config, layers, gated):
        super().__init__()
        self.layers = nn.ModuleList([MllamaVisionEncoderLayer(config, gated) for _ in range(layers)])


class MllamaVisionModel(Tower):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.patch_embedding = nn.Conv2d(config.num_channels, width, kernel_size=config.patch_size, stride=config.patch_size, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(width))
        self.gated_positional_embedding = MllamaPrecomputedPositionEmbedding(config)
        self.pre_tile_positional_embedding = MllamaPrecomputedAspectRatioEmbedding(config)
        self.post_tile_positional_embedding = MllamaPrecomputedAspectRatioEmbedding(config)
        self.layernorm_pre = nn.LayerNorm(width)
        self.layernorm_post = nn.LayerNorm(width)
        self.transformer = MllamaVisionEncoder(config, config.num_hidden_layers, False)
        self.global_transformer = MllamaVisionEncoder(config, config.num_global_layers, True)


class MllamaTextCrossAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)


class MllamaCrossAttentionDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.cross_attn = MllamaTextCrossAttention(config, layer_idx)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.cross_attn_attn_gate = gate()
        self.mlp = LlamaMLP(config)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.cross_attn_mlp_gate = gate()


class MllamaTextModel(LlamaModel):
    @staticmethod
    def layer(config, layer_idx):
        return (MllamaCrossAttentionDecoderLayer if layer_idx in config.cross_attention_layers else LlamaDecoderLayer)(config, layer_idx)

    def finish(self, config):
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config)

    def embedding(self, config):
        return nn.Embedding(config.vocab_size + 8, config.hidden_size, config.pad_token_id)  # tokens of images beside the head's


class MllamaModel(CompositePreTrainedModel):
    config_class = MllamaConfig

    def __init__(self, config):
        super().__init__(config)
        self.vision_model = MllamaVisionModel(config.vision_config)
        self.language_model = MllamaTextModel(config.text_config)
        self.multi_modal_projector = nn.Linear(config.vision_config.vision_output_dim, config.text_config.hidden_size)

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()


class MllamaForConditionalGeneration(InventoryOnly, CompositeForConditionalGeneration):
    config_class, composed, _tied_weights_keys, _tp_plan = MllamaConfig, MllamaModel, None, None
    _no_split_modules = ["MllamaVisionEncoderLayer", "MllamaCrossAttentionDecoderLayer", "MllamaSelfAttentionDecoderLayer"]


causal_lm = MllamaForConditionalGeneration
