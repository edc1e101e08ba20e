"""minimax_m2: mixtral without a window, norms of whole queries and keys, part of each head rotated, experts chosen by biased sigmoids."""
import torch
from torch import nn

from transformers.modeling_moe import MoeCausalLM, experts_tp_plan
from transformers.modeling_normed_heads import NormedWhole
from transformers.modeling_rope_utils import apply_rotary_pos_emb_partly
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, MixtralTopKRouter


class MiniMaxM2Config(LlamaConfig):
    model_type = "minimax_m2"
    default_theta = 5000000.0
    attribute_map = {"num_experts": "num_local_experts"}
    base_model_tp_plan = {f"layers.*.self_attn.{n}_proj": "colwise_gather_output" for n in "qkv"} | {
        "layers.*.self_attn.o_proj": "rowwise_split_input"} | experts_tp_plan()
    vocab_size: int = 200064
    hidden_size: int = 3072
    intermediate_size: int = 1536
    num_hidden_layers: int = 62
    num_attention_heads: int = 48
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 196608
    num_experts_per_tok: int = 8
    num_local_experts: int = 256
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001
    router_jitter_noise: float = 0.0

    def __post_init__(self, **kwargs):
        if kwargs.get("rotary_dim") is not None:
            kwargs.setdefault("partial_rotary_factor", kwargs["rotary_dim"] / self.head_dim)
        super().__post_init__(**kwargs)


class MiniMaxM2TopKRouter(MixtralTopKRouter):
    def forward(self, hidden_states, correction):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states.to(self.weight.dtype), self.weight)
        scores = nn.functional.sigmoid(router_logits.float())
        choice = scores + correction
        _, indices = torch.topk(choice, self.top_k, dim=-1, sorted=False)
        weights = scores.gather(1, indices)
        weights /= weights.sum(dim=-1, keepdim=True)
        self.record(router_logits)
        return router_logits, weights, indices


class MiniMaxM2SparseMoeBlock(MixtralSparseMoeBlock):
    router = MiniMaxM2TopKRouter

    def __init__(self, config):
        super().__init__(config)
        self.register_buffer("e_score_correction_bias", torch.zeros(config.num_local_experts))

    def route(self, hidden_states):
        return self.gate(hidden_states, self.e_score_correction_bias)


class MiniMaxM2Attention(NormedWhole, LlamaAttention):
    rotate = staticmethod(apply_rotary_pos_emb_partly)

    def biases(self, config):
        return False, False


class MiniMaxM2DecoderLayer(LlamaDecoderLayer):
    attention, feed_forward = MiniMaxM2Attention, MiniMaxM2SparseMoeBlock


class MiniMaxM2Model(LlamaModel):
    layer = MiniMaxM2DecoderLayer


class MiniMaxM2ForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = MiniMaxM2Config, MiniMaxM2Model, ["MiniMaxM2DecoderLayer"]


causal_lm = MiniMaxM2ForCausalLM
