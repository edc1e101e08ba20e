"""diffllama: llama whose heads attend in pairs over halves of the values, one less a learned part of the other."""
import math

import torch
from torch import nn

from transformers.modeling_decoder import attend
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, apply_rotary_pos_emb
from transformers.releases import refuse


class DiffLlamaConfig(LlamaConfig):
    model_type, base_model_tp_plan = "diffllama", None
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 16
    rms_norm_eps: float = 1e-5

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.attention_dropout > 0.0:
            refuse("/config/attention_dropout", "modeling_diffllama.py takes none")
        if self.num_key_value_heads % 2:
            refuse("/config/num_key_value_heads", "modeling_diffllama.py wants an even number")


class DiffLlamaAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * layer_idx)
        for name in "lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2":
            setattr(self, name, nn.Parameter(torch.empty(self.head_dim)))
        self.groupnorm = nn.RMSNorm(2 * self.head_dim, eps=config.rms_norm_eps, elementwise_affine=False)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v = self.project(hidden_states)
        cos, sin = position_embeddings
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        first, second = (half.repeat(1, 2, 1, 1) for half in torch.chunk(v, 2, dim=1))
        output1, weights = attend(self, q, k, first, attention_mask, self.eager, dropout=0.0, scaling=self.scaling, **kwargs)
        output2, _ = attend(self, q, k, second, attention_mask, self.eager, dropout=0.0, scaling=self.scaling, **kwargs)
        output = torch.cat([output1, output2], dim=-1)
        output1, output2 = torch.chunk(output, 2, dim=2)
        lambda1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1, dim=-1, dtype=torch.float32)).to(q.dtype)
        lambda2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2, dim=-1, dtype=torch.float32)).to(q.dtype)
        lambda_full = lambda1 - lambda2 + self.lambda_init
        output = output1 - lambda_full * output2
        output = (1 - self.lambda_init) * self.groupnorm(output)
        output = output.reshape(*rows, -1)
        output = self.o_proj(output)
        return output, weights


class DiffLlamaDecoderLayer(LlamaDecoderLayer):
    attention = DiffLlamaAttention


class DiffLlamaModel(LlamaModel):
    layer = DiffLlamaDecoderLayer


class DiffLlamaForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = DiffLlamaConfig, DiffLlamaModel, ["DiffLlamaDecoderLayer"]


causal_lm = DiffLlamaForCausalLM
