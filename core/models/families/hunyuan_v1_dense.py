"""hunyuan_v1_dense: llama whose heads are normed once they are turned."""
from transformers.modeling_decoder import attend
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb


class HunYuanDenseV1Config(LlamaConfig):
    model_type, base_model_tp_plan, leaves_head_dim = "hunyuan_v1_dense", {}, True
    vocab_size: int = 290943
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 0


class HunYuanDenseV1Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.query_layernorm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.key_layernorm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v = self.project(hidden_states)
        cos, sin = position_embeddings
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        q = self.query_layernorm(q)
        k = self.key_layernorm(k)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, self.eager, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = getattr(self, self.out)(output)
        return output, weights


class HunYuanDenseV1RotaryEmbedding(LlamaRotaryEmbedding):
    """`alpha` stretches a fixed base: nothing is computed anew by length."""

    def kind(self, rope):
        return "ntk_alpha" if rope["rope_type"] == "dynamic" and rope.get("alpha") else rope["rope_type"]


class HunYuanDenseV1DecoderLayer(LlamaDecoderLayer):
    attention = HunYuanDenseV1Attention


class HunYuanDenseV1Model(LlamaModel):
    layer, rotary = HunYuanDenseV1DecoderLayer, HunYuanDenseV1RotaryEmbedding


class HunYuanDenseV1ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = HunYuanDenseV1Config, HunYuanDenseV1Model, ["HunYuanDenseV1DecoderLayer"]


causal_lm = HunYuanDenseV1ForCausalLM
