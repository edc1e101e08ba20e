"""minimax: mixtral whose every other layer attends without a softmax, block by block (lightning attention); factors on residuals, which are normed."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache
from transformers.masking_utils import create_causal_mask, create_recurrent_attention_mask, create_sliding_window_causal_mask
from transformers.modeling_conv import apply_mask_to_padding_states
from transformers.modeling_decoder import positions
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralDecoderLayer, MixtralForCausalLM, MixtralModel
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class MiniMaxConfig(MixtralConfig):
    model_type = "minimax"
    max_position_embeddings: int = 131072
    layer_types: list | None = None
    block_size: int = 256
    full_attn_alpha_factor: float = 1
    full_attn_beta_factor: float = 1
    linear_attn_alpha_factor: float = 1
    linear_attn_beta_factor: float = 1
    mlp_alpha_factor: float = 1
    mlp_beta_factor: float = 1

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["linear_attention" if i % 2 else "full_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class MiniMaxCache(DynamicCache):
    """Keys and values of layers that have them, of the others what their queries meet."""

    def __init__(self):
        super().__init__()
        self.linear_cache = []

    def set_linear_cache(self, layer_idx, linear_cache):
        for _ in range(len(self.linear_cache), layer_idx + 1):
            self.linear_cache.append([])
        self.linear_cache[layer_idx] = linear_cache

    def get_linear_cache(self, layer_idx):
        return self.linear_cache[layer_idx] if layer_idx < max(len(self.layers), len(self.linear_cache)) else None


class MiniMaxLightningAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.heads, self.block_size = layer_idx, config.num_attention_heads, config.block_size
        self.head_dim = config.head_dim
        inner = self.heads * self.head_dim
        self.act_fn = ACT2FN[config.hidden_act]
        self.norm = LlamaRMSNorm(inner)
        self.qkv_proj = nn.Linear(config.hidden_size, inner * 3, bias=False)
        self.out_proj = nn.Linear(inner, config.hidden_size, bias=False)
        self.output_gate = nn.Linear(config.hidden_size, inner, bias=False)
        sizes = {"slope_rate": (self.heads, 1, 1), "query_decay": (self.heads, self.block_size, 1), "key_decay": (self.heads, self.block_size, 1),
                 "diagonal_decay": (1, self.heads, self.block_size, self.block_size)}
        for name, shape in sizes.items():
            self.register_buffer(name, torch.empty(shape))

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        batch_size, seq_len, _ = hidden_states.shape
        qkv = self.act_fn(self.qkv_proj(hidden_states))
        qkv = apply_mask_to_padding_states(qkv, attention_mask)
        qkv = qkv.reshape(batch_size, seq_len, self.heads, 3 * self.head_dim)
        q, k, v = torch.split(qkv, self.head_dim, dim=3)
        q = q.transpose(1, 2)
        k = k.transpose(1, 2)
        v = v.transpose(1, 2)
        inter = None
        if past_key_values is not None:
            inter = past_key_values.get_linear_cache(self.layer_idx)
        output = []
        if inter is None:
            inter = torch.zeros(batch_size, self.heads, self.head_dim, self.head_dim, device=v.device, dtype=v.dtype)
            for start in range(0, seq_len, self.block_size):
                end = min(start + self.block_size, seq_len)
                size = end - start
                q_block = q[:, :, start:end]
                k_block = k[:, :, start:end]
                v_block = v[:, :, start:end]
                q_decay = self.query_decay[:, :size]
                k_decay = self.key_decay[:, -size:]
                diagonal = self.diagonal_decay[:, :, :size, :size]
                block_decay = torch.exp(-self.slope_rate * size)
                weights = torch.matmul(q_block, k_block.transpose(-1, -2))
                within = torch.matmul(weights * diagonal, v_block)
                before = torch.matmul(q_block * q_decay, inter)
                current = before + within
                output.append(current)
                following = torch.matmul((k_block * k_decay).transpose(-1, -2), v_block)
                inter = inter * block_decay + following
        else:
            ratio = torch.exp(-self.slope_rate)
            for i in range(seq_len):
                q_block = q[:, :, i : i + 1]
                k_block = k[:, :, i : i + 1]
                v_block = v[:, :, i : i + 1]
                met = torch.matmul(k_block.transpose(-1, -2), v_block)
                inter = ratio * inter + met
                current = torch.matmul(q_block, inter)
                output.append(current)
        output = torch.cat(output, dim=-2)
        output = output.transpose(1, 2)
        output = output.reshape(batch_size, seq_len, self.heads * self.head_dim)
        output = self.norm(output)
        output = F.sigmoid(self.output_gate(hidden_states)) * output
        output = self.out_proj(output)
        if past_key_values is not None:
            past_key_values.set_linear_cache(self.layer_idx, inter)
        return output, inter


class MiniMaxDecoderLayer(MixtralDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scans = config.layer_types[layer_idx] == "linear_attention"
        if self.scans:
            self.self_attn = MiniMaxLightningAttention(config, layer_idx)
        kind = "linear" if self.scans else "full"
        self.alpha, self.beta = getattr(config, f"{kind}_attn_alpha_factor"), getattr(config, f"{kind}_attn_beta_factor")
        self.mlp_alpha, self.mlp_beta = config.mlp_alpha_factor, config.mlp_beta_factor

    def forward(self, hidden_states, **kwargs):
        hidden_states = self.input_layernorm(hidden_states)
        residual = hidden_states
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual * self.alpha + hidden_states * self.beta
        hidden_states = self.post_attention_layernorm(hidden_states)
        residual = hidden_states
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual * self.mlp_alpha + hidden_states * self.mlp_beta
        return hidden_states


class MiniMaxModel(MixtralModel):
    layer = MiniMaxDecoderLayer

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        if use_cache and past_key_values is None:
            past_key_values = MiniMaxCache()
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if position_ids is None:
            position_ids = positions(inputs_embeds, past_key_values.get_seq_length() if past_key_values is not None else 0)
        masks = attention_mask
        if not isinstance(masks, dict):
            create = create_causal_mask if self.config.sliding_window is None else create_sliding_window_causal_mask
            of = dict(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                      position_ids=position_ids)
            masks = {"full_attention": create(**of), "linear_attention": create_recurrent_attention_mask(**of)}
        hidden_states = inputs_embeds
        tables = self.rotary_emb(hidden_states, position_ids)
        for layer, kind in zip(self.layers, self.config.layer_types):
            hidden_states = layer(hidden_states, attention_mask=masks[kind], position_embeddings=tables, position_ids=position_ids,
                                  past_key_values=past_key_values, use_cache=use_cache, **kwargs)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class MiniMaxForCausalLM(MixtralForCausalLM):
    config_class, decoder, _no_split_modules = MiniMaxConfig, MiniMaxModel, ["MiniMaxDecoderLayer"]
    makes_its_cache = True


causal_lm = MiniMaxForCausalLM
