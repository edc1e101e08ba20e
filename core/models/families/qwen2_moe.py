"""qwen2_moe: qwen2 with experts in every decoder_sparse_step-th layer, and one that all tokens share behind a gate."""
from torch import nn

from transformers.masking_utils import by_kind, create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_moe import MoeCausalLM, SparseMoeBlock, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention, Qwen2Config, Qwen2DecoderLayer, Qwen2ForCausalLM, Qwen2Model


class Qwen2MoeConfig(Qwen2Config):
    model_type = "qwen2_moe"
    base_model_tp_plan = Qwen2Config.base_model_tp_plan | experts_tp_plan()
    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    decoder_sparse_step: int = 1
    moe_intermediate_size: int = 1408
    shared_expert_intermediate_size: int = 5632
    num_experts_per_tok: int = 4
    num_experts: int = 60
    norm_topk_prob: bool = False
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001
    mlp_only_layers: list | None = None
    qkv_bias: bool = True

    def __post_init__(self, **kwargs):
        self.mlp_only_layers = self.mlp_only_layers or []
        asked = self.use_sliding_window
        if self.layer_types is None:
            self.layer_types = ["sliding_attention" if (i + 1) % 2 and i < self.max_window_layers and asked else "full_attention"
                                for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)
        self.sliding_window = self.sliding_window if asked else 0


class Qwen2MoeAttention(Qwen2Attention):
    def biases(self, config):
        return config.qkv_bias, False


class Qwen2MoeSparseMoeBlock(SparseMoeBlock):
    def __init__(self, config):
        super().__init__(config)
        self.shared_expert = LlamaMLP(config, config.shared_expert_intermediate_size)
        self.shared_expert_gate = nn.Linear(config.hidden_size, 1, bias=False)

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        rows = hidden_states.view(-1, hidden_dim)
        shared = self.shared_expert(rows)
        _, weights, indices = self.gate(rows)
        out = self.experts(rows, indices, weights)
        shared = nn.functional.sigmoid(self.shared_expert_gate(rows)) * shared
        out = self.with_all(out, shared)
        out = out.reshape(batch_size, sequence_length, hidden_dim)
        return out

    def with_all(self, out, shared):
        """And what the expert of all tokens says."""
        return out + shared


class Qwen2MoeDecoderLayer(Qwen2DecoderLayer):
    attention, sparse = Qwen2MoeAttention, Qwen2MoeSparseMoeBlock

    def make_mlp(self, config, layer_idx):
        sparse = layer_idx not in config.mlp_only_layers and config.num_experts > 0 and (layer_idx + 1) % config.decoder_sparse_step == 0
        return self.sparse(config) if sparse else self.feed_forward(config)


class Qwen2MoeModel(Qwen2Model):
    layer = Qwen2MoeDecoderLayer

    def masks(self, **of):
        """Both kinds, whether a layer asks for them or not."""
        masks = {"full_attention": create_causal_mask(**of), "sliding_attention": create_sliding_window_causal_mask(**of)}
        return by_kind(masks, self.config.layer_types)


class Qwen2MoeForCausalLM(MoeCausalLM, Qwen2ForCausalLM):
    config_class, decoder, _no_split_modules = Qwen2MoeConfig, Qwen2MoeModel, ["Qwen2MoeDecoderLayer"]


causal_lm = Qwen2MoeForCausalLM
