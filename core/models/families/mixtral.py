"""mixtral: mistral whose feed-forward is experts."""
import torch
from torch import nn

from transformers.models.mistral.modeling_mistral import MistralAttention, MistralConfig, MistralDecoderLayer, MistralForCausalLM, MistralModel, MistralRMSNorm
from transformers.modeling_moe import Experts, MoeCausalLM, SparseMoeBlock, TopKRouter, experts_tp_plan


class MixtralConfig(MistralConfig):
    model_type = "mixtral"
    default_theta, leaves_head_dim = 1000000.0, True
    attribute_map = {"num_experts": "num_local_experts"}
    base_model_tp_plan = {f"layers.*.self_attn.{n}_proj": "colwise" for n in "qkv"} | {"layers.*.self_attn.o_proj": "rowwise"} | experts_tp_plan()
    rms_norm_eps: float = 1e-5
    sliding_window: int | None = None
    num_experts_per_tok: int = 2
    num_local_experts: int = 8
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001
    router_jitter_noise: float = 0.0


class MixtralExperts(Experts):
    width = "intermediate_size"


class MixtralTopKRouter(TopKRouter):
    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states, self.weight)
        probs = nn.functional.softmax(router_logits.float(), dim=-1)
        top_value, indices = torch.topk(probs, self.top_k, dim=-1)
        top_value /= top_value.sum(dim=-1, keepdim=True)
        self.record(router_logits)
        return router_logits, top_value, indices


class MixtralSparseMoeBlock(SparseMoeBlock):
    router, experts_class = MixtralTopKRouter, MixtralExperts

    def __init__(self, config):
        super().__init__(config)
        self.jitter_noise = config.router_jitter_noise

    def forward(self, hidden_states):
        if self.training and self.jitter_noise > 0:
            hidden_states *= torch.empty_like(hidden_states).uniform_(1.0 - self.jitter_noise, 1.0 + self.jitter_noise)
        return super().forward(hidden_states)


class MixtralDecoderLayer(MistralDecoderLayer):
    feed_forward = MixtralSparseMoeBlock


class MixtralModel(MistralModel):
    layer = MixtralDecoderLayer


class MixtralForCausalLM(MoeCausalLM, MistralForCausalLM):
    config_class, decoder, _no_split_modules = MixtralConfig, MixtralModel, ["MixtralDecoderLayer"]


causal_lm = MixtralForCausalLM
