"""hunyuan_v1_moe: hunyuan_v1_dense with experts beside a shared one, chosen by a router in fp32."""
import torch
from torch import nn

from transformers.modeling_moe import TopKRouter, experts_tp_plan
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1Config, HunYuanDenseV1DecoderLayer, HunYuanDenseV1ForCausalLM
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1Model
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.mixtral.modeling_mixtral import MixtralExperts
from transformers.trl.loop import reads


class HunYuanMoEV1Config(HunYuanDenseV1Config):
    model_type, base_model_tp_plan = "hunyuan_v1_moe", experts_tp_plan()
    attribute_map = {"num_experts_per_tok": "moe_topk", "num_local_experts": "num_experts"}
    num_experts: int = 1
    output_router_logits: bool = False
    moe_topk: int | list = 1


class HunYuanMoEV1Gate(nn.Module):
    recorded, record = None, TopKRouter.record

    def __init__(self, config, layer_idx):
        super().__init__()
        experts, taken = config.num_experts, config.moe_topk
        self.top_k = taken if isinstance(taken, int) else taken[layer_idx]
        self.wg = nn.Linear(config.hidden_size, experts if isinstance(experts, int) else experts[layer_idx], bias=False, dtype=torch.float32)

    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, hidden_states.shape[-1])
        reads(self.wg)
        if self.wg.weight.dtype == torch.float32:
            hidden_states = hidden_states.float()
        router_logits = self.wg(hidden_states)
        weights = nn.functional.softmax(router_logits, dim=1, dtype=torch.float)
        weights, indices = torch.topk(weights, self.top_k, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        self.record(router_logits)
        return router_logits, weights.to(router_logits.dtype), indices


class HunYuanMoEV1Moe(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.gate = HunYuanMoEV1Gate(config, layer_idx)
        self.experts = MixtralExperts(config)
        self.shared_mlp = LlamaMLP(config)

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        shared = self.shared_mlp(hidden_states)
        hidden_states = hidden_states.view(-1, hidden_dim)
        _, weights, indices = self.gate(hidden_states)
        out = self.experts(hidden_states, indices, weights).reshape(batch_size, sequence_length, hidden_dim)
        return out + shared


class HunYuanMoEV1DecoderLayer(HunYuanDenseV1DecoderLayer):
    def make_mlp(self, config, layer_idx):
        return HunYuanMoEV1Moe(config, layer_idx)


class HunYuanMoEV1Model(HunYuanDenseV1Model):
    layer = HunYuanMoEV1DecoderLayer


class HunYuanMoEV1ForCausalLM(HunYuanDenseV1ForCausalLM):
    config_class, decoder, _no_split_modules = HunYuanMoEV1Config, HunYuanMoEV1Model, ["HunYuanMoEV1DecoderLayer"]


causal_lm = HunYuanMoEV1ForCausalLM
