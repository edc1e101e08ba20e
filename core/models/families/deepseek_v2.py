"""deepseek_v2: deepseek_v3 whose experts are chosen by softmax, and whose heads turn as complex numbers."""
import torch
from torch import nn

from transformers.modeling_moe import TopKRouter
from transformers.modeling_rope_utils import dynamic_rope_update
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3Config, DeepseekV3DecoderLayer, DeepseekV3ForCausalLM
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE, DeepseekV3Model
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


class DeepseekV2Config(DeepseekV3Config):
    model_type = "deepseek_v2"
    base_model_tp_plan = DeepseekV3Config.base_model_tp_plan | {f"layers.*.self_attn.{n}": "colwise" for n in ("q_proj", "q_b_proj", "kv_b_proj")} | {
        "layers.*.self_attn.kv_a_proj_with_mqa": "mla_kv_a_proj", "layers.*.self_attn.o_proj": "rowwise"}
    vocab_size: int = 102400
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    max_position_embeddings: int = 2048
    first_k_dense_replace: int = 0
    n_group: int | None = None
    n_routed_experts: int = 64
    n_shared_experts: int = 2
    routed_scaling_factor: float = 1.0
    topk_group: int | None = None
    topk_method: str | None = "greedy"
    norm_topk_prob: bool | None = False
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int = 1407


class DeepseekV2TopkRouter(TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.method, self.scale, self.num_group, self.topk_group = config.topk_method, config.routed_scaling_factor, config.n_group, config.topk_group

    def forward(self, hidden_states):
        hidden_states = hidden_states.view(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states.type(torch.float32), self.weight.type(torch.float32))
        scores = router_logits.softmax(dim=-1, dtype=torch.float32)
        if self.method == "group_limited_greedy":
            group_scores = scores.view(-1, self.num_group, self.num_experts // self.num_group).max(dim=-1).values
            groups = torch.topk(group_scores, k=self.topk_group, dim=-1, sorted=False)[1]
            mask = torch.zeros_like(group_scores)
            mask.scatter_(1, groups, 1)
            expert_mask = mask.unsqueeze(-1).expand(-1, self.num_group, self.num_experts // self.num_group).reshape(-1, self.num_experts)
            scores = scores.masked_fill(~expert_mask.bool(), 0.0)
        weights, indices = torch.topk(scores, k=self.top_k, dim=-1, sorted=False)
        weights = weights * self.scale
        self.record(router_logits)
        return router_logits, weights, indices


class DeepseekV2Moe(DeepseekV3MoE):
    router = DeepseekV2TopkRouter


class DeepseekV2RotaryEmbedding(LlamaRotaryEmbedding):
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        freqs = position_ids[..., None].float() * self.inv_freq.to(device=x.device, dtype=torch.float)
        turns = torch.polar(torch.ones_like(freqs), freqs)
        turns = turns * self.attention_scaling
        return turns


class DeepseekV2Attention(DeepseekV3Attention):
    def turn(self, q, k, tables):
        q_pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        k_pairs = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
        tables = tables.unsqueeze(1).to(q_pairs.device)
        q_turned = torch.view_as_real(q_pairs * tables).flatten(3).type_as(q)
        k_turned = torch.view_as_real(k_pairs * tables).flatten(3).type_as(k)
        return q_turned, k_turned


class DeepseekV2DecoderLayer(DeepseekV3DecoderLayer):
    attention, sparse = DeepseekV2Attention, DeepseekV2Moe


class DeepseekV2Model(DeepseekV3Model):
    layer, rotary = DeepseekV2DecoderLayer, DeepseekV2RotaryEmbedding


class DeepseekV2ForCausalLM(DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = DeepseekV2Config, DeepseekV2Model, ["DeepseekV2DecoderLayer"]


causal_lm = DeepseekV2ForCausalLM
