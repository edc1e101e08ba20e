"""codegen: gptj's block with query, value and key of one projection in four shares of whole heads."""
import torch
from torch import nn

from transformers.models.gptj.modeling_gptj import GPTJAttention, GPTJBlock, GPTJConfig, GPTJForCausalLM, GPTJModel

SHARES = 4


class CodeGenConfig(GPTJConfig):
    model_type = "codegen"


class CodeGenAttention(GPTJAttention):
    def projections(self, width):
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)

    def _split_heads(self, x):
        heads = x.reshape(x.shape[:-1] + (self.heads[0] // SHARES, self.heads[1]))
        return heads.reshape(x.shape[:-2] + (-1,) + heads.shape[-1:])

    def project(self, x):
        qkv = self.qkv_proj(x)
        shares = qkv.reshape(qkv.shape[:-1] + (SHARES, -1))
        q, v, k = torch.split(shares, x.shape[-1] // SHARES, dim=-1)
        q = self._split_heads(q)
        k = self._split_heads(k)
        v = self._split_heads(v)
        return q, k, v.permute(0, 2, 1, 3), (qkv, shares)

    def rows_of_table(self, position_ids, dtype):
        return self.table()[position_ids], None

    def cached(self, past_key_values, key, value, like):
        return *past_key_values.update(key.to(like.dtype), value, self.layer_idx), None

    def _attn(self, query, key, value, attention_mask=None):
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        weights = torch.matmul(query, key.transpose(-1, -2))
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = self.scaled(weights)
        weights = nn.Softmax(dim=-1)(weights)
        weights = weights.to(value.dtype)
        weights = self.attn_dropout(weights)
        return torch.matmul(weights, value), weights


class CodeGenBlock(GPTJBlock):
    attention = CodeGenAttention


class CodeGenModel(GPTJModel):
    block = CodeGenBlock


class CodeGenForCausalLM(GPTJForCausalLM):
    config_class = CodeGenConfig
    _no_split_modules = ["CodeGenBlock"]
    _supports_flash_attn = False
    decoder = CodeGenModel


causal_lm = CodeGenForCausalLM
