"""gpt_bigcode: gpt2's block with linear layers, and one key and value head for all queries, or one of each."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_decoder import CausalLM, begin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.models.llama.modeling_llama import eager_attention_forward
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class GPTBigCodeConfig(PreTrainedConfig):
    model_type = "gpt_bigcode"
    attribute_map = {"hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_pytorch_tanh"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    use_cache: bool = True
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256
    pad_token_id: int | None = None
    multi_query: bool = True
    add_cross_attention: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.num_key_value_heads = 1 if self.multi_query else self.n_head
        super().__post_init__(**kwargs)


class GPTBigCodeAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.multi_query = config.multi_query
        self.num_heads = config.num_attention_heads
        self.embed_dim = width
        self.head_dim = width // self.num_heads
        self.kv_dim = config.num_key_value_heads * self.head_dim
        self.num_key_value_groups = self.num_heads // config.num_key_value_heads
        self.is_causal = True
        self.scaling = self.head_dim**-0.5 if config.scale_attn_weights else 1.0
        self.layer_idx = layer_idx
        self.c_attn = nn.Linear(width, width + 2 * self.kv_dim)
        self.c_proj = nn.Linear(width, width)
        self.attn_dropout = config.attn_pdrop
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, hidden_states, layer_past=None, attention_mask=None, use_cache=False, **kwargs):
        rows = hidden_states.shape[:-1]
        if self.multi_query:
            q, k, v = self.c_attn(hidden_states).unsqueeze(1).split((self.embed_dim, self.kv_dim, self.kv_dim), dim=3)
            q = q.view(*rows, -1, self.head_dim).transpose(1, 2)
        else:
            q, k, v = self.c_attn(hidden_states).view(*rows, self.num_heads, 3 * self.head_dim).transpose(1, 2).split(3 * [self.head_dim], dim=3)
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        output, weights = attend(self, q, k, v, attention_mask, dropout=self.attn_dropout if self.training else 0.0, scaling=self.scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.c_proj(output)
        output = self.resid_dropout(output)
        return output, weights


class GPTBigCodeMLP(nn.Module):
    def __init__(self, inner, width, activation, dropout):
        super().__init__()
        self.c_fc = nn.Linear(width, inner)
        self.c_proj = nn.Linear(inner, width)
        self.act = ACT2FN[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.c_fc(x)
        x = self.act(x)
        x = self.c_proj(x)
        x = self.dropout(x)
        return x


class GPTBigCodeBlock(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = GPTBigCodeAttention(config, layer_idx)
        self.ln_2 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.mlp = GPTBigCodeMLP(config.n_inner if config.n_inner is not None else 4 * width, width, config.activation_function, config.resid_pdrop)

    def forward(self, hidden_states, encoder_hidden_states=None, layer_past=None, attention_mask=None, use_cache=False, **kwargs):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attended, _ = self.attn(hidden_states, layer_past=layer_past, attention_mask=attention_mask, use_cache=use_cache, **kwargs)
        hidden_states = attended + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        fed = self.mlp(hidden_states)
        hidden_states = residual + fed
        return hidden_states


class GPTBigCodePreTrainedModel(PreTrainedModel):
    config_class = GPTBigCodeConfig
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GPTBigCodeBlock"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_attention_backend = True


class GPTBigCodeModel(GPTBigCodePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        longest = config.max_position_embeddings
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(longest, config.hidden_size)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([GPTBigCodeBlock(config, i) for i in range(config.num_hidden_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.bias = nn.Buffer(torch.tril(torch.ones((longest, longest), dtype=torch.bool)), persistent=False)
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
        hidden_states = inputs_embeds + positions.to(inputs_embeds.device)
        hidden_states = self.drop(hidden_states)
        shape = inputs_embeds.shape[:-1] + (hidden_states.size(-1),)
        for block in self.h:
            hidden_states = block(hidden_states, None, layer_past=past_key_values, attention_mask=mask, use_cache=use_cache, **kwargs)
        hidden_states = self.ln_f(hidden_states)
        hidden_states = hidden_states.view(shape)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class GPTBigCodeForCausalLM(CausalLM, GPTBigCodePreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder = GPTBigCodeModel


causal_lm = GPTBigCodeForCausalLM
