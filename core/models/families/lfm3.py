"""lfm3: lfm2 with norms on what each part gives, gated heads, windows in some of the layers that attend, and a rotation for each kind of these."""
import torch
from torch import nn

from transformers.integrations.eager_attention import eager_attention_forward
from transformers.masking_utils import by_kind, create_causal_mask, create_recurrent_attention_mask, create_sliding_window_causal_mask
from transformers.modeling_decoder import attend
from transformers.models.lfm2.modeling_lfm2 import Lfm2Config, Lfm2DecoderLayer, Lfm2ForCausalLM, Lfm2Model
from transformers.models.olmo2.modeling_olmo2 import Olmo2Attention
from transformers.models.olmo3.modeling_olmo3 import Olmo3RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention


class Lfm3Config(Lfm2Config):
    model_type, attribute_map = "lfm3", {"rms_norm_eps": "norm_eps"}
    vocab_size: int = 128000
    hidden_size: int = 2048
    intermediate_size: int = 7680
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 4
    head_dim: int = 128
    pad_token_id: int | None = 124893
    conv_L_cache: int = 7
    sliding_window: int | None = 256
    norm_eps: float = 1e-5
    use_sandwich_norm: bool = True
    use_attention_gate: bool = True

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["full_attention" if i % 4 == 2 else "sliding_attention" if i % 4 == 0 and i > 0 else "conv" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)

    def _rope(self, others):
        if self.rope_parameters is None:
            self.rope_parameters = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                    "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5}}


class Lfm3RotaryEmbedding(Olmo3RotaryEmbedding):
    @staticmethod
    def kinds(config):
        return [kind for kind in ("full_attention", "sliding_attention") if kind in config.layer_types]


class Lfm3MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.w3 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.w2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Lfm3Attention(Qwen3Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.window = config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None
        self.g_proj = nn.Linear(config.hidden_size, config.num_attention_heads, bias=False) if config.use_attention_gate else None

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v = self.project(hidden_states)
        cos, sin = position_embeddings
        q, k = Olmo2Attention.rotate(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, sliding_window=self.window, **kwargs)
        if self.g_proj is not None:
            output = output * torch.sigmoid(self.g_proj(hidden_states)).unsqueeze(-1)
        output = output.reshape(*rows, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class Lfm3DecoderLayer(Lfm2DecoderLayer):
    attention = Lfm3Attention

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        for name in "post_operator_norm", "post_ffn_norm":
            setattr(self, name, self.norm(config.hidden_size, eps=config.norm_eps) if config.use_sandwich_norm else nn.Identity())

    def make_mlp(self, config, layer_idx):
        return Lfm3MLP(config)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        residual = hidden_states
        if self.is_attention_layer:
            hidden_states, _ = self.self_attn(hidden_states=self.operator_norm(hidden_states), attention_mask=attention_mask,
                                              past_key_values=past_key_values, **kwargs)
        else:
            hidden_states = self.conv(hidden_states=self.operator_norm(hidden_states), past_key_values=past_key_values, attention_mask=attention_mask)
        hidden_states = self.post_operator_norm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.ffn_norm(hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = self.post_ffn_norm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Lfm3Model(Lfm2Model):
    layer, rotary = Lfm3DecoderLayer, Lfm3RotaryEmbedding

    def masks(self, **of):
        """Of the kinds that there are alone."""
        make = {"full_attention": create_causal_mask, "sliding_attention": create_sliding_window_causal_mask, "conv": create_recurrent_attention_mask}
        kinds = self.config.layer_types
        return by_kind({kind: make[kind](**of) for kind in sorted(set(kinds))}, kinds)

    def tables(self, hidden_states, position_ids):
        tables = {kind: self.rotary_emb(hidden_states, position_ids, kind) for kind in self.rotary_emb.rope_type}
        return [tables.get(kind) for kind in self.config.layer_types]


class Lfm3ForCausalLM(Lfm2ForCausalLM):
    config_class, decoder, _no_split_modules = Lfm3Config, Lfm3Model, ["Lfm3DecoderLayer"]


causal_lm = Lfm3ForCausalLM
