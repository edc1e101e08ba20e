"""qwen3_moe: qwen3 with experts in every decoder_sparse_step-th layer."""
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_moe import MoeCausalLM, SparseMoeBlock, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaMLP
from transformers.models.mistral.modeling_mistral import MistralModel
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeDecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3Config, Qwen3ForCausalLM


class Qwen3MoeConfig(LlamaConfig):
    model_type = "qwen3_moe"
    attribute_map = {"num_local_experts": "num_experts"}
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | experts_tp_plan()
    bos_token_id: int | None = None
    vocab_size: int = 151936
    hidden_size: int = 2048
    intermediate_size: int = 6144
    num_hidden_layers: int = 24
    num_key_value_heads: int = 4
    max_position_embeddings: int = 32768
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    decoder_sparse_step: int = 1
    moe_intermediate_size: int = 768
    num_experts_per_tok: int = 8
    num_experts: int = 128
    norm_topk_prob: bool = False
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001
    mlp_only_layers: list | None = None

    def __post_init__(self, **kwargs):
        self.sliding_window = self.sliding_window if self.use_sliding_window else None
        self.mlp_only_layers = self.mlp_only_layers or []
        super().__post_init__(**kwargs)


class Qwen3MoeAttention(Qwen3Attention):
    def window(self, config, layer_idx):
        return config.sliding_window


class Qwen3MoeSparseMoeBlock(SparseMoeBlock):
    made = "experts", "gate"


class Qwen3MoeDecoderLayer(Qwen2MoeDecoderLayer):
    attention, sparse = Qwen3MoeAttention, Qwen3MoeSparseMoeBlock


class Qwen3MoeModel(MistralModel):
    layer = Qwen3MoeDecoderLayer


class Qwen3MoeForCausalLM(MoeCausalLM, Qwen3ForCausalLM):
    config_class, decoder, _no_split_modules = Qwen3MoeConfig, Qwen3MoeModel, ["Qwen3MoeDecoderLayer"]


causal_lm = Qwen3MoeForCausalLM
