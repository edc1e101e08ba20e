"""lfm2: short gated convolutions, attention with normed queries and keys in some layers."""
from torch import nn

from transformers.masking_utils import masks_of_kinds
from transformers.modeling_conv import apply_mask_to_padding_states, convolve
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class Lfm2Config(LlamaConfig):
    model_type, default_theta = "lfm2", 1000000.0
    base_model_tp_plan = None
    vocab_size: int = 65536
    hidden_size: int = 2560
    intermediate_size: int = 12288
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 128000
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    conv_bias: bool = False
    conv_L_cache: int = 3
    block_multiple_of: int = 256
    block_ffn_dim_multiplier: float = 1.0
    block_auto_adjust_ff_dim: bool = True
    full_attn_idxs: list | None = None
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            every = list(range(self.num_hidden_layers)) if self.full_attn_idxs is None else self.full_attn_idxs
            self.layer_types = ["full_attention" if i in every else "conv" for i in range(self.num_hidden_layers)]
        self.tie_word_embeddings = kwargs.pop("tie_embedding", self.tie_word_embeddings)
        self.intermediate_size = kwargs.pop("block_ff_dim", self.intermediate_size)
        super().__post_init__(**kwargs)


class Lfm2MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        inner, multiple = config.intermediate_size, config.block_multiple_of
        if config.block_auto_adjust_ff_dim:
            inner = int(2 * inner / 3)
            if config.block_ffn_dim_multiplier is not None:
                inner = int(config.block_ffn_dim_multiplier * inner)
                inner = multiple * ((inner + multiple - 1) // multiple)
        self.w1 = nn.Linear(config.hidden_size, inner, bias=False)
        self.w3 = nn.Linear(config.hidden_size, inner, bias=False)
        self.w2 = nn.Linear(inner, config.hidden_size, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Lfm2Attention(LlamaAttention):
    out = "out_proj"

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.attention_dropout = 0.0
        self.q_layernorm = Lfm2DecoderLayer.norm(self.head_dim, eps=config.rms_norm_eps)
        self.k_layernorm = Lfm2DecoderLayer.norm(self.head_dim, eps=config.rms_norm_eps)

    def biases(self, config):
        return False, False

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_layernorm(self.q_proj(x).view(*shape)).transpose(1, 2)
        k = self.k_layernorm(self.k_proj(x).view(*shape)).transpose(1, 2)
        v = self.v_proj(x).view(*shape).transpose(1, 2)
        return q, k, v


class Lfm2ShortConv(nn.Module):
    activation = None

    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.conv_kernel_size = layer_idx, config.conv_L_cache
        hidden, bias = config.hidden_size, config.conv_bias
        self.conv = nn.Conv1d(hidden, hidden, kernel_size=self.conv_kernel_size, groups=hidden, bias=bias, padding=self.conv_kernel_size - 1)
        self.in_proj = nn.Linear(hidden, 3 * hidden, bias=bias)
        self.out_proj = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        BCx = self.in_proj(hidden_states).transpose(-1, -2)
        B, C, x = BCx.chunk(3, dim=-2)
        hidden_states = B * x
        conv_state = None if past_key_values is None else past_key_values.get_conv_state(self.layer_idx)
        hidden_states = convolve(self, hidden_states, conv_state, past_key_values, conv=self.conv)
        y = C * hidden_states
        y = y.transpose(-1, -2).contiguous()
        y = self.out_proj(y)
        return y


class Lfm2DecoderLayer(LlamaDecoderLayer):
    attention = Lfm2Attention

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.is_attention_layer = config.layer_types[layer_idx] != "conv"
        if self.is_attention_layer:
            self.self_attn = self.attention(config, layer_idx)
        else:
            self.conv = Lfm2ShortConv(config, layer_idx)
        self.feed_forward = self.make_mlp(config, layer_idx)
        self.operator_norm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.ffn_norm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def make_mlp(self, config, layer_idx):
        return Lfm2MLP(config)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        residual = hidden_states
        if self.is_attention_layer:
            hidden_states, _ = self.self_attn(hidden_states=self.operator_norm(hidden_states), attention_mask=attention_mask,
                                              past_key_values=past_key_values, **kwargs)
        else:
            hidden_states = self.conv(hidden_states=self.operator_norm(hidden_states), past_key_values=past_key_values, attention_mask=attention_mask)
        hidden_states = hidden_states + residual
        hidden_states = hidden_states + self.feed_forward(self.ffn_norm(hidden_states))
        return hidden_states


class Lfm2Model(LlamaModel):
    layer, masks = Lfm2DecoderLayer, masks_of_kinds

    def finish(self, config):
        self.rotary_emb = self.rotary(config)
        self.embedding_norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)

    def last_norm(self):
        return self.embedding_norm


class Lfm2ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Lfm2Config, Lfm2Model, ["Lfm2DecoderLayer"]


causal_lm = Lfm2ForCausalLM
