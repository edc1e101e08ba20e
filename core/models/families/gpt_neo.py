"""gpt_neo: learned positions, attention of the whole row and of a window by turns, scores in fp32 and not scaled."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_flash_attention_utils import _flash_attention_forward
from transformers.modeling_decoder import CausalLM, begin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.models.gpt_bigcode.modeling_gpt_bigcode import GPTBigCodeMLP
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


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
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256
    pad_token_id: int | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if self.attention_types is None:
            self.attention_types = [[["global", "local"], 12]]
        self.attention_layers = [kind for kinds, times in self.attention_types for _ in range(times) for kind in kinds]
        super().__post_init__(**{name: value for name, value in kwargs.items() if name != "attention_layers"})


class GPTNeoSelfAttention(nn.Module):
    def __init__(self, config, attention_type, layer_id=None):
        super().__init__()
        longest, width = config.max_position_embeddings, config.hidden_size
        bias = torch.tril(torch.ones((longest, longest), dtype=torch.bool)).view(1, 1, longest, longest)
        if attention_type == "local":
            bias = torch.bitwise_xor(bias, torch.tril(bias, -config.window_size))
        self.config = config
        self.bias = nn.Buffer(bias, persistent=False)
        self.attn_dropout = nn.Dropout(float(config.attention_dropout))
        self.resid_dropout = nn.Dropout(float(config.resid_dropout))
        self.is_causal = True
        self.layer_id = layer_id
        self.embed_dim = width
        self.num_heads = config.num_heads
        self.head_dim = width // self.num_heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=True)

    def _split_heads(self, x):
        return x.view(x.size()[:-1] + (self.num_heads, self.head_dim)).permute(0, 2, 1, 3)

    def _merge_heads(self, x):
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(x.size()[:-2] + (self.embed_dim,))

    def _attn(self, query, key, value, attention_mask=None):
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        weights = torch.matmul(query, key.transpose(-1, -2))
        q_length, k_length = query.size(-2), key.size(-2)
        causal = self.bias[:, :, k_length - q_length : k_length, :k_length]
        least = torch.finfo(weights.dtype).min
        least = torch.tensor(least, dtype=weights.dtype, device=weights.device)
        weights = torch.where(causal, weights, least)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.to(value.dtype)
        weights = self.attn_dropout(weights)
        output = torch.matmul(weights, value)
        return output, weights

    def forward(self, hidden_states, attention_mask=None, layer_past=None, use_cache=False):
        batch = hidden_states.size(0)
        query = self.q_proj(hidden_states)
        key = self.k_proj(hidden_states)
        value = self.v_proj(hidden_states)
        query = self._split_heads(query)
        key = self._split_heads(key)
        value = self._split_heads(value)
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_id)
        if self.config._attn_implementation == "flash_attention_2":
            query = query.transpose(1, 2).view(batch, -1, self.num_heads, self.head_dim)
            key = key.transpose(1, 2).view(batch, -1, self.num_heads, self.head_dim)
            value = value.transpose(1, 2).view(batch, -1, self.num_heads, self.head_dim)
            if query.dtype == torch.float32:
                dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else self.q_proj.weight.dtype
                query = query.to(dtype)
                key = key.to(dtype)
                value = value.to(dtype)
            output = _flash_attention_forward(query, key, value, attention_mask, query.shape[1], is_causal=self.is_causal, softmax_scale=1.0,
                                              dropout=self.config.attention_dropout if self.training else 0.0)
            weights = output.reshape(batch, -1, self.embed_dim)
            output = self.out_proj(weights)
        else:
            output, weights = self._attn(query, key, value, attention_mask)
            output = self._merge_heads(output)
            output = self.out_proj(output)
        output = self.resid_dropout(output)
        return output, weights


class GPTNeoAttention(nn.Module):
    def __init__(self, config, layer_id=0):
        super().__init__()
        self.attention = GPTNeoSelfAttention(config, config.attention_layers[layer_id], layer_id)

    def forward(self, hidden_states, layer_past=None, attention_mask=None, use_cache=False):
        return self.attention(hidden_states, attention_mask=attention_mask, layer_past=layer_past, use_cache=use_cache)


class GPTNeoBlock(GradientCheckpointingLayer):
    def __init__(self, config, layer_id=None):
        super().__init__()
        width = config.hidden_size
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = GPTNeoAttention(config, layer_id)
        self.ln_2 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        inner = config.intermediate_size if config.intermediate_size is not None else 4 * width
        self.mlp = GPTBigCodeMLP(inner, width, config.activation_function, float(config.resid_dropout))

    def forward(self, hidden_states, layer_past=None, attention_mask=None, use_cache=False, **kwargs):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attended, weights = self.attn(hidden_states, layer_past=layer_past, attention_mask=attention_mask, use_cache=use_cache)
        hidden_states = attended + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        fed = self.mlp(hidden_states)
        hidden_states = residual + fed
        return hidden_states, weights


class GPTNeoPreTrainedModel(PreTrainedModel):
    config_class = GPTNeoConfig
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GPTNeoBlock"]
    _supports_flash_attn = True


class GPTNeoModel(GPTNeoPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(float(config.embed_dropout))
        self.h = nn.ModuleList([GPTNeoBlock(config, i) for i in range(config.num_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids, mask = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        positions = self.wpe(position_ids)
        hidden_states = inputs_embeds + positions
        hidden_states = self.drop(hidden_states)
        shape = (-1, inputs_embeds.shape[1], hidden_states.size(-1))
        for block in self.h:
            outputs = block(hidden_states, layer_past=past_key_values, attention_mask=mask, use_cache=use_cache)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        hidden_states = hidden_states.view(shape)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class GPTNeoForCausalLM(CausalLM, GPTNeoPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder = GPTNeoModel


causal_lm = GPTNeoForCausalLM
