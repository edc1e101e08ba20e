"""qwen3_5_moe_text: qwen3_5_text with experts in every layer, beside a shared one."""
from transformers.models.qwen3_5_text.modeling_qwen3_5_text import GATHERED, Qwen3_5DecoderLayer, Qwen3_5TextModel
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextConfig, Qwen3NextForCausalLM


class Qwen3_5MoeTextConfig(Qwen3NextConfig):
    model_type = "qwen3_5_moe_text"
    base_model_tp_plan = {k: v for k, v in Qwen3NextConfig.base_model_tp_plan.items() if "linear_attn" not in k and ".mlp.gate" not in k} | GATHERED
    vocab_size: int = 248320
    num_hidden_layers: int = 40
    num_experts_per_tok: int = 8
    num_experts: int = 256

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.norm_topk_prob, self.mlp_only_layers, self.decoder_sparse_step = True, [], 1


class Qwen3_5MoeDecoderLayer(Qwen3_5DecoderLayer):
    pass


class Qwen3_5MoeTextModel(Qwen3_5TextModel):
    layer = Qwen3_5MoeDecoderLayer


class Qwen3_5MoeForCausalLM(Qwen3NextForCausalLM):
    config_class, decoder, _no_split_modules = Qwen3_5MoeTextConfig, Qwen3_5MoeTextModel, ["Qwen3_5MoeDecoderLayer"]


causal_lm = Qwen3_5MoeForCausalLM
