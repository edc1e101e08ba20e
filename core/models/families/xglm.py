"""xglm: a decoder of bart's kind with sinusoids for positions. Its parameters; a step is not modelled."""
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_utils import PreTrainedModel


class XGLMConfig(PreTrainedConfig):
    model_type = "xglm"
    attribute_map = {"num_attention_heads": "attention_heads", "hidden_size": "d_model", "num_hidden_layers": "num_layers"}
    vocab_size: int = 256008
    max_position_embeddings: int = 2048
    d_model: int = 1024
    ffn_dim: int = 4096
    num_layers: int = 24
    attention_heads: int = 16
    pad_token_id: int | None = 1
    tie_word_embeddings: bool = True


class XGLMAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)


class XGLMDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = XGLMAttention(config.d_model)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)


class XGLMModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.layers = nn.ModuleList([XGLMDecoderLayer(config) for _ in range(config.num_layers)])
        self.layer_norm = nn.LayerNorm(config.d_model)


class XGLMForCausalLM(InventoryOnly, PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = XGLMConfig, "model", ["XGLMDecoderLayer"]
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.model = XGLMModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)


causal_lm = XGLMForCausalLM
