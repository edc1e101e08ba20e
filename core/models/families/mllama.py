"""mllama: llama, some of whose layers look at images by attention across. Its parameters; a step is not modelled."""
from torch import nn

from transformers.configuration_utils import CompositeConfig
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_vision_mllama import MllamaVisionConfig, MllamaVisionModel, gate
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaMLP, LlamaModel, LlamaRMSNorm


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
