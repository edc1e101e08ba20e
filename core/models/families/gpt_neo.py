"""gpt_neo: learned positions, attention of the whole row and of a window by turns, scores in fp32 and not scaled."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_decoder import BaseModelOutputWithPast, begin, capture_outputs, kernel_dtype, merge_with_config_defaults
from transformers.modeling_flash_attention_utils import _flash_attention_forward
from transformers.models.gpt2.modeling_gpt2 import GPT2Block, GPT2LMHeadModel, GPT2Model
from transformers.models.gpt_bigcode.modeling_gpt_bigcode import GPTBigCodeMLP


class GPTNeoConfig(PreTrainedConfig):
    model_type = "gpt_neo"
    attribute_map = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
    vocab_size: int = 50257
    max_position_embeddings: int = 2048
    hidden_size: int = 2048
    num_layers: int = 24
    attention_types: list | None = None
    num_heads: int = 16
    intermediate_size: int | None = None
    window_size: int = 256
    activation_function: str = "gelu_new"
    resid_dropout: float = 0.0
    embed_dropout: float = 0.0
    attention_dropout: float = 0.0
    layer_norm_epsilon: float = 1e-5
    use_cache: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if self.attention_types is None:
            self.attention_types = [[["global", "local"], 12]]
        super().__post_init__(**kwargs)
        self.attention_layers = [kind for kinds, times in self.attention_types for _ in range(times) for kind in kinds]


class GPTNeoSelfAttention(nn.Module):
    def __init__(self, config, attention_type, layer_id=None):
        super().__init__()
        longest, width = config.max_position_embeddings, config.hidden_size
        bias = torch.tril(torch.ones((longest, longest), dtype=torch.bool)).view(1, 1, longest, longest)
        if attention_type == "local":
            bias = torch.bitwise_xor(bias, torch.tril(bias, -config.window_size))
        self.config, self.layer_id, self.is_causal = config, layer_id, True
        self.heads = config.num_heads, width // config.num_heads
        self.bias = nn.Buffer(bias, persistent=False)
        self.attn_dropout = nn.Dropout(float(config.attention_dropout))
        self.resid_dropout = nn.Dropout(float(config.resid_dropout))
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=True)

    def _split_heads(self, x):
        return x.view(x.size()[:-1] + self.heads).permute(0, 2, 1, 3)

    def _attn(self, query, key, value, attention_mask=None):
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        weights = torch.matmul(query, key.transpose(-1, -2))
        causal = self.bias[:, :, key.size(-2) - query.size(-2) : key.size(-2), : key.size(-2)]
        least = torch.tensor(torch.finfo(weights.dtype).min, dtype=weights.dtype, device=weights.device)
        weights = torch.where(causal, weights, least)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.to(value.dtype)
        weights = self.attn_dropout(weights)
        return torch.matmul(weights, value), weights

    def forward(self, hidden_states, attention_mask=None, past_key_values=None):
        rows = hidden_states.shape[:-1]
        query = self.q_proj(hidden_states)
        key = self.k_proj(hidden_states)
        value = self.v_proj(hidden_states)
        query, key, value = [self._split_heads(x) for x in (query, key, value)]
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_id)
        if self.config._attn_implementation == "flash_attention_2":
            query, key, value = [x.transpose(1, 2) for x in (query, key, value)]
            dtype = kernel_dtype(query, self.q_proj, self.config)
            query = query.to(dtype)
            key = key.to(dtype)
            value = value.to(dtype)
            output = _flash_attention_forward(query, key, value, attention_mask, query.shape[1], is_causal=self.is_causal, softmax_scale=1.0,
                                              dropout=self.config.attention_dropout if self.training else 0.0)
            weights = output = output.reshape(*rows, -1)
        else:
            output, weights = self._attn(query, key, value, attention_mask)
            output = output.permute(0, 2, 1, 3).contiguous()
            output = output.view(*rows, -1)
        output = self.out_proj(output)
        return self.resid_dropout(output), weights


class GPTNeoAttention(nn.Module):
    def __init__(self, config, layer_id=0):
        super().__init__()
        self.attention = GPTNeoSelfAttention(config, config.attention_layers[layer_id], layer_id)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, use_cache=False):
        return self.attention(hidden_states, attention_mask=attention_mask, past_key_values=past_key_values)


class GPTNeoBlock(GPT2Block):
    def __init__(self, config, layer_id=None):
        nn.Module.__init__(self)
        width = config.hidden_size
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = GPTNeoAttention(config, layer_id)
        self.ln_2 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        inner = config.intermediate_size if config.intermediate_size is not None else 4 * width
        self.mlp = GPTBigCodeMLP(inner, width, config.activation_function, float(config.resid_dropout))

    def result(self, hidden_states, weights):
        return hidden_states, weights


class GPTNeoModel(GPT2Model):
    def __init__(self, config):
        super(GPT2Model, self).__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(float(config.embed_dropout))
        self.h = nn.ModuleList([GPTNeoBlock(config, i) for i in range(config.num_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids, mask = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        positions = self.wpe(position_ids)
        hidden_states = inputs_embeds + positions
        hidden_states = self.drop(hidden_states)
        for block in self.h:
            outputs = block(hidden_states, past_key_values=past_key_values, attention_mask=mask, use_cache=use_cache)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)


class GPTNeoForCausalLM(GPT2LMHeadModel):
    config_class = GPTNeoConfig
    _no_split_modules = ["GPTNeoBlock"]
    _supports_sdpa = False
    decoder = GPTNeoModel


causal_lm = GPTNeoForCausalLM
