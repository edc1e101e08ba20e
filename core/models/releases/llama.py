"""llama and what is derived from it, by earlier releases."""
import math

import torch
from torch import nn

from transformers.integrations.flash_attention import flash_attention_forward
from transformers.pytorch_utils import ALL_LAYERNORM_LAYERS
from transformers.releases import of, quirks, refuse

ALL_LAYERNORM_LAYERS.append(LlamaRMSNorm)

if quirks.head_dim_unread or not quirks.mlp_bias_is_read:
    of_config = LlamaConfig.__post_init__

    @of(LlamaConfig)
    def __post_init__(self, **kwargs):
        of_config(self, **kwargs)
        if quirks.head_dim_unread:
            self.head_dim = self.hidden_size // self.num_attention_heads
        self.mlp_bias = self.mlp_bias and bool(quirks.mlp_bias_is_read)


if quirks.rope_tables_kept:

    @of(LlamaRotaryEmbedding)
    def keep(self, inv_freq):
        """Tables for all positions, which nobody reads any more."""
        RotaryEmbedding.keep(self, inv_freq)
        shape = (self.config.max_position_embeddings, 2 * inv_freq.shape[0])
        self.register_buffer("_cos_cached", torch.zeros(shape), persistent=False)
        self.register_buffer("_sin_cached", torch.zeros(shape), persistent=False)


if quirks.rope_in_attention:
    of_attention = LlamaAttention.__init__
    LlamaAttention.rotary = LlamaRotaryEmbedding

    @of(LlamaAttention)
    def __init__(self, config, layer_idx):
        of_attention(self, config, layer_idx)
        self.rotary_emb = self.rotary(config)


if quirks.rope_tables_kept:

    class ReadTables(RotaryEmbedding):
        """The rotary embedding of mistral and qwen2, which reads the tables."""

        def keep(self, inv_freq):
            self.register_buffer("inv_freq", inv_freq, persistent=False)
            shape = (self.config.max_position_embeddings, 2 * inv_freq.shape[0])
            self.register_buffer("cos_cached", torch.zeros(shape), persistent=False)
            self.register_buffer("sin_cached", torch.zeros(shape), persistent=False)

        def forward(self, x, length):
            return self.cos_cached[:length].to(dtype=x.dtype), self.sin_cached[:length].to(dtype=x.dtype)

    def tables_of_rows(self, x, position_ids, position_embeddings):
        length = x.shape[-2]
        if self.config._attn_implementation == "flash_attention_2":
            length = max(length, position_ids[:, -1].max().item()) + 1
        return self.rotary_emb(x, length)

    def turn_at(self, q, k, cos, sin, position_ids):
        cos = cos[position_ids].unsqueeze(1)
        sin = sin[position_ids].unsqueeze(1)
        q_turned = (q * cos) + (rotate_half(q) * sin)
        k_turned = (k * cos) + (rotate_half(k) * sin)
        return q_turned, k_turned

    def reads_tables(attention):
        attention.rotary, attention.tables, attention.turn = ReadTables, tables_of_rows, turn_at


if not quirks.interface_attention:

    @of(LlamaAttention)
    def tables(self, x, position_ids, position_embeddings):
        return position_embeddings or self.rotary_emb(x, position_ids)

    @of(LlamaAttention)
    def turn(self, q, k, cos, sin, position_ids):
        return self.rotate(q, k, cos, sin)

    LlamaAttention.norms_heads = False  # once heads come first

    LlamaAttention.norms_first = False  # before heads come first

    @of(LlamaAttention)
    def clip(self, q, k, v):
        pass

    @of(LlamaAttention)
    def projected(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        self.clip(q, k, v)
        return q, k, v

    @of(LlamaAttention)
    def scores(self, q, k):
        return torch.matmul(q, k.transpose(2, 3))

    @of(LlamaAttention)
    def scaled(self, scores):
        return scores / math.sqrt(self.head_dim)

    @of(LlamaAttention)
    def masked(self, scores, attention_mask):
        return scores + attention_mask

    @of(LlamaAttention)
    def function(self, kernel):
        """What is called with grouped heads as they are; None: forward has it all."""
        return flash_attention_forward if kernel == "flash_attention_2" else None

    @of(LlamaAttention)
    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None, position_embeddings=None, **kwargs):
        """LlamaAttention, LlamaSdpaAttention and LlamaFlashAttention2: what they bind anew dies here."""
        kernel, rows, weights = self.config._attn_implementation, hidden_states.shape[:-1], None
        q, k, v, *_whole = self.projected(hidden_states)
        q = q.view(*rows, -1, self.head_dim)
        k = k.view(*rows, -1, self.head_dim)
        v = v.view(*rows, -1, self.head_dim)
        if self.norms_first:
            q = self.q_norm(q)
            k = self.k_norm(k)
        q = q.transpose(1, 2)
        k = k.transpose(1, 2)
        v = v.transpose(1, 2)
        if self.norms_heads:
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        cos, sin = self.tables(v, position_ids, position_embeddings)
        q, k, *_held = self.turn(q, k, cos, sin, position_ids)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = self.function(kernel)
        if attend is None or self.repeats:
            k = repeat_kv(k, self.num_key_value_groups)
            v = repeat_kv(v, self.num_key_value_groups)
        if attend is not None:
            output, weights = attend(self, q, k, v, attention_mask, scaling=self.scaling, dropout=self.attention_dropout if self.training else 0.0,
                                     position_ids=position_ids, **self.keywords)
        elif kernel == "sdpa":
            if attention_mask is not None:
                q = q.contiguous()
                k = k.contiguous()
                v = v.contiguous()
            output = nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=attention_mask, dropout_p=self.attention_dropout if self.training else 0.0,
                is_causal=attention_mask is None and q.shape[2] > 1)
            output = output.transpose(1, 2).contiguous()
        else:
            weights = self.scaled(self.scores(q, k))
            if attention_mask is not None:
                weights = self.masked(weights, attention_mask)
            weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
            weights = nn.functional.dropout(weights, p=self.attention_dropout, training=self.training)
            output = torch.matmul(weights, v)
            output = output.transpose(1, 2).contiguous()
        output = output.reshape(*rows, -1)
        output = getattr(self, self.out)(output)
        output = self.finish(output)
        return output, None

    LlamaAttention.repeats = False  # heads for flash attention too

    def masked_in_place(self, scores, attention_mask):
        """Of classes whose release does so, in the place of masked()."""
        scores += attention_mask
        return scores


if quirks.linears_are_cut:

    @of(LlamaForCausalLM)
    def logits(self, x):
        if self.config.model_type == "llama" and getattr(self.config, "pretraining_tp", 1) > 1:
            refuse("/pretraining_tp", "before transformers 4.47 this cuts the linears in pieces; that is not modelled")
        return self.lm_head(x)
