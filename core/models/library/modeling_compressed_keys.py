"""What deepseek_v4 compresses keys with, whole or for those that an index picks; transformers has it in its file."""
import torch
from torch import nn

from transformers.models.llama.modeling_llama import LlamaRMSNorm


class DeepseekV4RotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        for kind in ("main", "compress"):
            inv_freq = torch.arange(0, config.qk_rope_head_dim, 2, dtype=torch.float)
            self.register_buffer(f"{kind}_inv_freq", inv_freq, persistent=False)
            self.register_buffer(f"{kind}_original_inv_freq", inv_freq.clone(), persistent=False)


class DeepseekV4GroupedLinear(nn.Linear):
    """One for each group of heads, which its rows are divided among."""


class DeepseekV4Compressor(nn.Module):
    """Of as many rows as `compress_rate` says, one of width."""

    def __init__(self, config, compress_rate, width, head_dim):
        super().__init__()
        self.kv_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.position_bias = nn.Parameter(torch.empty(compress_rate, width))
        self.kv_norm = LlamaRMSNorm(head_dim, eps=config.rms_norm_eps)


class DeepseekV4HCACompressor(DeepseekV4Compressor):
    def __init__(self, config):
        super().__init__(config, config.compress_rates["heavily_compressed_attention"], config.head_dim, config.head_dim)
        self.rotary_emb = DeepseekV4RotaryEmbedding(config)


class DeepseekV4IndexerScorer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weights_proj = nn.Linear(config.hidden_size, config.index_n_heads, bias=False)


class DeepseekV4Indexer(DeepseekV4Compressor):
    def __init__(self, config):
        super().__init__(config, config.compress_rates["compressed_sparse_attention"], 2 * config.index_head_dim, config.index_head_dim)
        self.q_b_proj = nn.Linear(config.q_lora_rank, config.index_n_heads * config.index_head_dim, bias=False)
        self.rotary_emb = DeepseekV4RotaryEmbedding(config)
        self.scorer = DeepseekV4IndexerScorer(config)


class DeepseekV4CSACompressor(DeepseekV4Compressor):
    def __init__(self, config):
        super().__init__(config, config.compress_rates["compressed_sparse_attention"], 2 * config.head_dim, config.head_dim)
        self.rotary_emb = DeepseekV4RotaryEmbedding(config)
        self.indexer = DeepseekV4Indexer(config)


COMPRESSORS = {"compressed_sparse_attention": DeepseekV4CSACompressor, "heavily_compressed_attention": DeepseekV4HCACompressor}
