"""deepseek_v32: deepseek_v3 with an indexer of keys in each layer. Its parameters; a step is not modelled."""
from torch import nn

from transformers.modeling_inventory import InventoryOnly
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3Config, DeepseekV3DecoderLayer, DeepseekV3ForCausalLM
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Model


class DeepseekV32Config(DeepseekV3Config):
    model_type = "deepseek_v32"
    base_model_tp_plan = None
    max_position_embeddings: int = 163840
    index_topk: int = 2048
    index_head_dim: int = 128
    index_n_heads: int = 64
    mlp_layer_types: list | None = None
    indexer_types: list | None = None

    def __post_init__(self, **kwargs):
        dense = min(self.first_k_dense_replace, self.num_hidden_layers)
        self.mlp_layer_types = self.mlp_layer_types or ["dense"] * dense + ["sparse"] * (self.num_hidden_layers - dense)
        self.indexer_types = self.indexer_types or ["full"] * self.num_hidden_layers
        super().__post_init__(**kwargs)


class DeepseekV32Indexer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wq_b = nn.Linear(config.q_lora_rank, config.index_n_heads * config.index_head_dim, bias=False)
        self.wk = nn.Linear(config.hidden_size, config.index_head_dim, bias=False)
        self.k_norm = nn.LayerNorm(config.index_head_dim, eps=1e-6)
        self.weights_proj = nn.Linear(config.hidden_size, config.index_n_heads, bias=False)


class DeepseekV32Attention(DeepseekV3Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.indexer = DeepseekV32Indexer(config) if config.indexer_types[layer_idx] == "full" else None


class DeepseekV32DecoderLayer(DeepseekV3DecoderLayer):
    attention = DeepseekV32Attention

    def make_mlp(self, config, layer_idx):
        return self.sparse(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class DeepseekV32Model(DeepseekV3Model):
    layer = DeepseekV32DecoderLayer


class DeepseekV32ForCausalLM(InventoryOnly, DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = DeepseekV32Config, DeepseekV32Model, ["DeepseekV32DecoderLayer"]


causal_lm = DeepseekV32ForCausalLM
