"""dbrx: norms in pairs around attention, experts as rows of three tables. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_utils import PreTrainedModel


class DbrxConfig(PreTrainedConfig):
    model_type = "dbrx"
    attribute_map = {"num_attention_heads": "n_heads", "hidden_size": "d_model", "num_hidden_layers": "n_layers", "max_position_embeddings": "max_seq_len"}
    d_model: int = 2048
    n_heads: int = 16
    n_layers: int = 24
    max_seq_len: int = 2048
    vocab_size: int = 32000
    attn_config: dict | None = None
    ffn_config: dict | None = None
    pad_token_id: int | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        self.kv_heads = (self.attn_config or {}).get("kv_n_heads", 1)
        ffn = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1} | (self.ffn_config or {})
        self.inner, self.num_experts, self.num_experts_per_tok = ffn["ffn_hidden_size"], ffn["moe_num_experts"], ffn["moe_top_k"]
        super().__post_init__(**kwargs)


class DbrxAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.Wqkv = nn.Linear(config.d_model, config.d_model + 2 * config.kv_heads * (config.d_model // config.n_heads), bias=False)
        self.out_proj = nn.Linear(config.d_model, config.d_model, bias=False)


class DbrxNormAttentionNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.d_model, bias=False)
        self.attn = DbrxAttention(config)
        self.norm_2 = nn.LayerNorm(config.d_model, bias=False)


class DbrxRouter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.Linear(config.d_model, config.num_experts, bias=False)


class DbrxExpertGLU(nn.Module):
    def __init__(self, config):
        super().__init__()
        rows = config.num_experts * config.inner
        self.w1 = nn.Parameter(torch.empty(rows, config.d_model))
        self.v1 = nn.Parameter(torch.empty(rows, config.d_model))
        self.w2 = nn.Parameter(torch.empty(rows, config.d_model))


class DbrxExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = DbrxExpertGLU(config)


class DbrxFFN(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.router = DbrxRouter(config)
        self.experts = DbrxExperts(config)


class DbrxBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm_attn_norm = DbrxNormAttentionNorm(config)
        self.ffn = DbrxFFN(config)


class DbrxModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.blocks = nn.ModuleList([DbrxBlock(config) for _ in range(config.n_layers)])
        self.norm_f = nn.LayerNorm(config.d_model, bias=False)


class DbrxForCausalLM(InventoryOnly, PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = DbrxConfig, "transformer", ["DbrxBlock"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.transformer = DbrxModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def get_input_embeddings(self):
        return self.transformer.wte


causal_lm = DbrxForCausalLM
