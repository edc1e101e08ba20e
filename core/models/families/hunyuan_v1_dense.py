"""hunyuan_v1_dense: llama whose heads are normed once they are turned."""
from transformers.modeling_normed_heads import NormedOnceTurned
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRotaryEmbedding


class HunYuanDenseV1Config(LlamaConfig):
    model_type, base_model_tp_plan, leaves_head_dim = "hunyuan_v1_dense", {}, True
    vocab_size: int = 290943
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 0


class HunYuanDenseV1Attention(NormedOnceTurned):
    norms = "query_layernorm", "key_layernorm"


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
