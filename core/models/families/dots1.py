"""dots1: qwen3's attention, deepseek_v3's experts."""
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3ForCausalLM, EXPERTS_BESIDE_SHARED
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3Config, Qwen3Model
from transformers.models.llama.modeling_llama import LlamaConfig


class Dots1Config(LlamaConfig):
    model_type = "dots1"
    attribute_map = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | EXPERTS_BESIDE_SHARED
    bos_token_id: int | None = None
    vocab_size: int = 152064
    hidden_size: int = 4608
    intermediate_size: int = 10944
    moe_intermediate_size: int = 1408
    num_hidden_layers: int = 62
    num_key_value_heads: int | None = 32
    n_shared_experts: int | None = None
    n_routed_experts: int | None = None
    output_router_logits: bool = False
    n_group: int | None = 1
    topk_group: int | None = 1
    num_experts_per_tok: int | None = None
    first_k_dense_replace: int | None = 0
    norm_topk_prob: bool | None = False
    routed_scaling_factor: float = 1.0
    sliding_window: int | None = 4096
    max_window_layers: int | None = 62
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            first = self.num_hidden_layers if self.sliding_window is None else self.max_window_layers
            self.layer_types = ["sliding_attention" if i >= first else "full_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class Dots1DecoderLayer(DeepseekV3DecoderLayer):
    attention = Qwen3Attention


class Dots1Model(Qwen3Model):
    layer = Dots1DecoderLayer


class Dots1ForCausalLM(DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = Dots1Config, Dots1Model, ["Dots1DecoderLayer"]


causal_lm = Dots1ForCausalLM
