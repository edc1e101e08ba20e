"""deepseek_v4: keys that are values, compressed and indexed beside a window; residuals of several streams. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.modeling_compressed_keys import COMPRESSORS, DeepseekV4GroupedLinear, DeepseekV4RotaryEmbedding
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_moe import Experts, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm

KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


class DeepseekV4Config(LlamaConfig):
    model_type = "deepseek_v4"
    attribute_map = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
    base_model_tp_plan = experts_tp_plan()
    vocab_size: int = 129280
    moe_intermediate_size: int = 2048
    num_hidden_layers: int = 43
    num_attention_heads: int = 64
    num_key_value_heads: int | None = 1
    head_dim: int | None = 512
    q_lora_rank: int = 1024
    num_experts_per_tok: int = 6
    n_routed_experts: int = 256
    n_shared_experts: int = 1
    max_position_embeddings: int = 1048576
    layer_types: list | None = None
    compress_rates: dict | None = None
    hc_mult: int = 4
    mlp_layer_types: list | None = None
    o_groups: int = 8
    o_lora_rank: int = 1024
    index_n_heads: int = 64
    index_head_dim: int = 128
    index_topk: int = 512

    def __post_init__(self, **kwargs):
        n, ratios, hashed = self.num_hidden_layers, kwargs.pop("compress_ratios", None), kwargs.pop("num_hash_layers", None)
        self.compress_rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128} if self.compress_rates is None else self.compress_rates
        for kind, name in ("compressed_sparse_attention", "compress_rate_csa"), ("heavily_compressed_attention", "compress_rate_hca"):
            if kwargs.get(name) is not None:
                self.compress_rates[kind] = kwargs[name]
        if self.layer_types is None and ratios is not None:
            self.layer_types = [KINDS[ratio] for ratio in ratios]
        if self.layer_types is None:
            self.layer_types = [KINDS[4 if i > 1 and i % 2 else 128] for i in range(n)]
        self.layer_types = self.layer_types[:n]
        hashed = 3 if hashed is None else hashed
        self.mlp_layer_types = (self.mlp_layer_types or ["hash_moe" if i < hashed else "moe" for i in range(n)])[:n]
        self.qk_rope_head_dim = kwargs.pop("qk_rope_head_dim", None) or self.head_dim // 8
        super().__post_init__(**kwargs)


class DeepseekV4Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        width, kind, q, rank = config.hidden_size, config.layer_types[layer_idx], config.num_attention_heads * config.head_dim, config.q_lora_rank
        self.q_a_proj = nn.Linear(width, rank, bias=False)
        self.q_a_norm = LlamaRMSNorm(rank, eps=config.rms_norm_eps)
        self.q_b_proj = nn.Linear(rank, q, bias=False)
        self.kv_proj = nn.Linear(width, config.head_dim, bias=False)
        self.kv_norm = LlamaRMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.o_a_proj = DeepseekV4GroupedLinear(q // config.o_groups, config.o_groups * config.o_lora_rank, bias=False)
        self.o_b_proj = nn.Linear(config.o_groups * config.o_lora_rank, width, bias=False)
        self.sinks = nn.Parameter(torch.empty(config.num_attention_heads))
        self.compressor = COMPRESSORS[kind](config) if kind in COMPRESSORS else None


class DeepseekV4HyperConnection(nn.Module):
    def __init__(self, config):
        super().__init__()
        rows = (2 + config.hc_mult) * config.hc_mult
        self.fn = nn.Parameter(torch.empty(rows, config.hc_mult * config.hidden_size))
        self.base = nn.Parameter(torch.empty(rows))
        self.scale = nn.Parameter(torch.empty(3))


class DeepseekV4HyperHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.hc_fn = nn.Parameter(torch.empty(config.hc_mult, config.hc_mult * config.hidden_size))
        self.hc_base = nn.Parameter(torch.empty(config.hc_mult))
        self.hc_scale = nn.Parameter(torch.empty(1))


class DeepseekV4Router(nn.Module):
    """By scores, or by a table of each token's experts."""

    def __init__(self, config, hashed):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))
        if hashed:
            self.register_buffer("tid2eid", torch.zeros(config.vocab_size, config.num_experts_per_tok, dtype=torch.long))
        else:
            self.register_buffer("e_score_correction_bias", torch.zeros(config.num_experts))


class DeepseekV4SparseMoeBlock(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.gate = DeepseekV4Router(config, config.mlp_layer_types[layer_idx] == "hash_moe")
        self.experts = Experts(config)
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size)


class DeepseekV4DecoderLayer(nn.Module):
    norm = LlamaRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = DeepseekV4Attention(config, layer_idx)
        self.mlp = DeepseekV4SparseMoeBlock(config, layer_idx)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.attn_hc = DeepseekV4HyperConnection(config)
        self.ffn_hc = DeepseekV4HyperConnection(config)


class DeepseekV4Model(LlamaModel):
    layer, rotary = DeepseekV4DecoderLayer, DeepseekV4RotaryEmbedding

    def finish(self, config):
        super().finish(config)
        self.hc_head = DeepseekV4HyperHead(config)


class DeepseekV4ForCausalLM(InventoryOnly, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = DeepseekV4Config, DeepseekV4Model, ["DeepseekV4DecoderLayer"]


causal_lm = DeepseekV4ForCausalLM
