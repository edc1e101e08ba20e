"""ministral3: mistral whose queries are scaled by their position."""
import torch

from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.mistral.modeling_mistral import MistralAttention, MistralConfig, MistralDecoderLayer, MistralForCausalLM, MistralModel


class Ministral3Config(MistralConfig):
    model_type = "ministral3"
    vocab_size: int = 131072
    num_hidden_layers: int = 34
    head_dim: int | None = 128
    max_position_embeddings: int = 262144
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 11
    sliding_window: int | None = None

    def __post_init__(self, **kwargs):
        if self.rope_parameters is None:
            self.rope_parameters = {
                "type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0,
                "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}
        super().__post_init__(**kwargs)


def get_llama_4_attn_scale(position_ids, beta, length):
    scaling = 1 + beta * torch.log(1 + torch.floor(position_ids / length))
    return scaling[:, None, :, None]


class Ministral3Attention(MistralAttention):
    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, position_ids=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v = self.project(hidden_states)
        cos, sin = position_embeddings
        q, k = self.rotate(q, k, cos, sin)
        rope = self.config.rope_parameters
        q = q * get_llama_4_attn_scale(position_ids, rope.get("llama_4_scaling_beta"), rope.get("original_max_position_embeddings")).to(q.dtype)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        output, weights = attend(self, q, k, v, attention_mask, dropout=self.attention_dropout if self.training else 0.0, scaling=self.scaling,
                                 position_ids=position_ids, **self.keywords, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = getattr(self, self.out)(output)
        return output, weights


class Ministral3DecoderLayer(MistralDecoderLayer):
    attention = Ministral3Attention


class Ministral3Model(MistralModel):
    layer = Ministral3DecoderLayer


class Ministral3ForCausalLM(MistralForCausalLM):
    config_class, decoder, _no_split_modules = Ministral3Config, Ministral3Model, ["Ministral3DecoderLayer"]


causal_lm = Ministral3ForCausalLM
