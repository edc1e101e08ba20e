"""gpt_bigcode: gpt2's block with linear layers, and one key and value head for all queries, or one of each."""
import torch
from torch import nn

from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_decoder import BaseModelOutputWithPast, attend, begin, capture_outputs, merge_with_config_defaults
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2Block, GPT2Config, GPT2LMHeadModel, GPT2Model


class GPTBigCodeConfig(GPT2Config):
    model_type = "gpt_bigcode"
    activation_function: str = "gelu_pytorch_tanh"
    multi_query: bool = True

    def __post_init__(self, **kwargs):
        self.num_key_value_heads = 1 if self.multi_query else self.n_head
        super().__post_init__(**kwargs)


class GPTBigCodeAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.layer_idx = layer_idx
        self.num_heads = config.num_attention_heads
        self.head_dim = width // self.num_heads
        self.kv_dim = config.num_key_value_heads * self.head_dim
        self.num_key_value_groups = self.num_heads // config.num_key_value_heads
        self.is_causal = True
        self.scaling = self.head_dim**-0.5 if config.scale_attn_weights else 1.0
        self.c_attn = nn.Linear(width, width + 2 * self.kv_dim)
        self.c_proj = nn.Linear(width, width)
        self.attn_dropout = config.attn_pdrop
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        rows, width = hidden_states.shape[:-1], hidden_states.shape[-1]
        if self.config.multi_query:
            q, k, v = self.c_attn(hidden_states).unsqueeze(1).split((width, self.kv_dim, self.kv_dim), dim=3)
            q = q.view(*rows, -1, self.head_dim).transpose(1, 2)
        else:
            q, k, v = self.c_attn(hidden_states).view(*rows, self.num_heads, 3 * self.head_dim).transpose(1, 2).split(3 * [self.head_dim], dim=3)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, scaling=self.scaling,
                                 dropout=self.attn_dropout if self.training else 0.0, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.c_proj(output)
        return self.resid_dropout(output), weights


class GPTBigCodeMLP(GPT2MLP):
    linear = nn.Linear


class GPTBigCodeBlock(GPT2Block):
    attention, feed_forward = GPTBigCodeAttention, GPTBigCodeMLP


class GPTBigCodeModel(GPT2Model):
    config_class = GPTBigCodeConfig
    block = GPTBigCodeBlock

    def __init__(self, config):
        super().__init__(config)
        longest = config.max_position_embeddings
        self.bias = nn.Buffer(torch.tril(torch.ones((longest, longest), dtype=torch.bool)), persistent=False)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids, mask = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        positions = self.wpe(position_ids)
        hidden_states = inputs_embeds + positions
        hidden_states = self.drop(hidden_states)
        for block in self.h:
            hidden_states = block(hidden_states, past_key_values=past_key_values, attention_mask=mask, use_cache=use_cache, **kwargs)
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)


class GPTBigCodeForCausalLM(GPT2LMHeadModel):
    config_class = GPTBigCodeConfig
    _no_split_modules = ["GPTBigCodeBlock"]
    decoder = GPTBigCodeModel


causal_lm = GPTBigCodeForCausalLM
