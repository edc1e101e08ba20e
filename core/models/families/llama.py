"""llama: the decoder that most families vary."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.integrations.eager_attention import eager_attention_forward, repeat_kv
from transformers.modeling_decoder import CausalLM, Decoder
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_norm import RMSNorm
from transformers.modeling_rope_utils import RotaryEmbedding, apply_rotary_pos_emb, rotate_half
from transformers.modeling_stage import stage_of_decoder
from transformers.modeling_tp import tp_plan
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel


class LlamaConfig(PreTrainedConfig):
    model_type = "llama"
    base_model_tp_plan = tp_plan(colwise="self_attn.q_proj self_attn.k_proj self_attn.v_proj mlp.gate_proj mlp.up_proj", rowwise="self_attn.o_proj mlp.down_proj")
    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    pad_token_id: int | None = None
    tie_word_embeddings: bool = False
    rope_parameters: dict | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    leaves_head_dim = False  # null where config.json has none

    def __post_init__(self, **kwargs):
        self.head_dim_unknown = self.leaves_head_dim and not self.head_dim
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        super().__post_init__(**kwargs)


class LlamaRMSNorm(RMSNorm):
    pass


class LlamaRotaryEmbedding(RotaryEmbedding):
    pass


class LlamaMLP(nn.Module):
    def __init__(self, config, intermediate_size=None):
        super().__init__()
        bias, inner = getattr(config, "mlp_bias", False), intermediate_size or config.intermediate_size
        self.gate_proj = nn.Linear(config.hidden_size, inner, bias=bias)
        self.up_proj = nn.Linear(config.hidden_size, inner, bias=bias)
        self.down_proj = nn.Linear(inner, config.hidden_size, bias=bias)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x):
        y = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return y


def projected_first(self, x):
    """All three before the first is cut into heads."""
    shape = (*x.shape[:-1], -1, self.head_dim)
    q = self.q_proj(x)
    k = self.k_proj(x)
    v = self.v_proj(x)
    q = q.view(shape).transpose(1, 2)
    k = k.view(shape).transpose(1, 2)
    v = v.view(shape).transpose(1, 2)
    return q, k, v


class LlamaAttention(nn.Module):
    rotate, out, eager = staticmethod(apply_rotary_pos_emb), "o_proj", staticmethod(eager_attention_forward)

    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling, self.attention_dropout, self.is_causal = self.head_dim**-0.5, config.attention_dropout, True
        self.keywords = {}  # for the attention function
        q, kv = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        in_bias, out_bias = self.biases(config)
        for name, width in ("q_proj", q), ("k_proj", kv), ("v_proj", kv):
            setattr(self, name, nn.Linear(config.hidden_size, width, bias=in_bias))
        setattr(self, self.out, nn.Linear(self.width_of_heads(config, q), config.hidden_size, bias=out_bias))

    def width_of_heads(self, config, q):  # what the projection out takes
        return q

    def biases(self, config):
        return config.attention_bias, config.attention_bias

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        return (self.q_proj(x).view(shape).transpose(1, 2), self.k_proj(x).view(shape).transpose(1, 2),
                self.v_proj(x).view(shape).transpose(1, 2))

    def gated(self, output, *rest):
        return output  # what goes into the projection out

    def finish(self, output):
        return output

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v, *rest = self.project(hidden_states)  # what else they return is alive as long as this frame
        cos, sin = position_embeddings
        q, k, *_held = self.rotate(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.eager)
        output, weights = attend(self, q, k, v, attention_mask, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **self.keywords, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.gated(output, *rest)
        output = getattr(self, self.out)(output)
        output = self.finish(output)
        return output, weights


class LlamaDecoderLayer(GradientCheckpointingLayer):
    attention, feed_forward, norm = LlamaAttention, LlamaMLP, LlamaRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = self.attention(config, layer_idx)
        self.mlp = self.make_mlp(config, layer_idx)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def make_mlp(self, config, layer_idx):
        return self.feed_forward(config)

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None, use_cache=False,
                position_embeddings=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(
            hidden_states=hidden_states, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            use_cache=use_cache, position_embeddings=position_embeddings, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class LlamaPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = LlamaConfig, "model"
    supports_gradient_checkpointing = True
    _supports_flash_attn = _supports_sdpa = _supports_attention_backend = True
    _no_split_modules = ["LlamaDecoderLayer"]


class LlamaModel(Decoder, LlamaPreTrainedModel):
    layer, rotary = LlamaDecoderLayer, LlamaRotaryEmbedding


class LlamaForCausalLM(CausalLM, LlamaPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    _tp_plan = {"lm_head": "colwise_gather_output"}
    decoder, stage = LlamaModel, stage_of_decoder


causal_lm = LlamaForCausalLM
