"""qwen3_next: a gated delta rule in most layers, gated attention in every fourth, experts beside a shared one."""
import torch
from torch import nn

from transformers.masking_utils import masks_of_kinds
from transformers.modeling_delta import GatedDeltaNet
from transformers.modeling_norm import RMSNormFromOne
from transformers.modeling_rope_utils import apply_rotary_pos_emb_partly
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaMLP
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeConfig, Qwen2MoeDecoderLayer, Qwen2MoeForCausalLM, Qwen2MoeModel

GATHERED = {f"layers.*.linear_attn.{name}": "colwise_gather_output" for name in ("in_proj_qkvz", "in_proj_ba", "out_proj")}
SHARED = {f"layers.*.mlp.shared_expert.{name}_proj": "rowwise" if name == "down" else "colwise" for name in ("gate", "up", "down")}
NORMS = {f"layers.*.self_attn.{name}_norm": "replicated_with_grad_allreduce" for name in "qk"}


class Qwen3NextConfig(Qwen2MoeConfig):
    model_type = "qwen3_next"
    base_model_tp_plan = Qwen2MoeConfig.base_model_tp_plan | GATHERED | SHARED | NORMS
    vocab_size: int = 151936
    num_hidden_layers: int = 48
    num_key_value_heads: int | None = 2
    head_dim: int | None = 256
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts_per_tok: int = 10
    num_experts: int = 512
    norm_topk_prob: bool = True
    partial_rotary_factor: float = 0.25

    def __post_init__(self, **kwargs):
        every = kwargs.pop("full_attention_interval", 4)
        self.mlp_only_layers = self.mlp_only_layers or []
        if self.layer_types is None:
            self.layer_types = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(self.num_hidden_layers)]
        LlamaConfig.__post_init__(self, **kwargs)


class Qwen3NextAttention(LlamaAttention):
    """Queries come with a gate."""

    rotate = staticmethod(apply_rotary_pos_emb_partly)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        heads = config.num_attention_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, heads * 2, bias=config.attention_bias)
        self.q_norm = RMSNormFromOne(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = RMSNormFromOne(self.head_dim, eps=config.rms_norm_eps)

    def project(self, x):
        rows = x.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q, gate = torch.chunk(self.q_proj(x).view(*rows, -1, self.head_dim * 2), 2, dim=-1)
        gate = gate.reshape(*rows, -1)
        q = self.q_norm(q.view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        return q, k, v, gate

    def gated(self, output, gate):
        return output * torch.sigmoid(gate)


class Qwen3NextGatedDeltaNet(GatedDeltaNet):
    def make_projections(self, config):
        self.in_proj_qkvz = nn.Linear(config.hidden_size, self.key_dim * 2 + self.value_dim * 2, bias=False)
        self.in_proj_ba = nn.Linear(config.hidden_size, self.num_v_heads * 2, bias=False)

    def project(self, x):
        qkvz = self.in_proj_qkvz(x)
        ba = self.in_proj_ba(x)
        query, key, value, z, b, a = self.parted(qkvz, ba)
        query, key, value = (t.reshape(t.shape[0], t.shape[1], -1) for t in (query, key, value))
        mixed = torch.cat((query, key, value), dim=-1)
        mixed = mixed.transpose(1, 2)
        return mixed, z, b, a, (query, key, value), qkvz, ba

    def parted(self, qkvz, ba):
        """Each head of keys with the values and gates that it serves."""
        groups = self.num_v_heads // self.num_k_heads
        wide = groups * self.head_v_dim
        qkvz = qkvz.view(*qkvz.shape[:-1], self.num_k_heads, 2 * self.head_k_dim + 2 * wide)
        ba = ba.view(*ba.shape[:-1], self.num_k_heads, 2 * groups)
        query, key, value, z = torch.split(qkvz, [self.head_k_dim, self.head_k_dim, wide, wide], dim=3)
        b, a = torch.split(ba, [groups, groups], dim=3)
        value = value.reshape(value.size(0), value.size(1), -1, self.head_v_dim)
        z = z.reshape(z.size(0), z.size(1), -1, self.head_v_dim)
        b = b.reshape(b.size(0), b.size(1), self.num_v_heads)
        a = a.reshape(a.size(0), a.size(1), self.num_v_heads)
        return query, key, value, z, b, a


class Qwen3NextDecoderLayer(Qwen2MoeDecoderLayer):
    attention, norm, delta = Qwen3NextAttention, RMSNormFromOne, Qwen3NextGatedDeltaNet

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.block_type = config.layer_types[layer_idx]
        if self.block_type == "linear_attention":
            self.linear_attn = self.delta(config, layer_idx)
        else:
            self.self_attn = self.attention(config, layer_idx)
        self.mlp = self.make_mlp(config, layer_idx)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        if self.block_type == "linear_attention":
            hidden_states = self.linear_attn(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=attention_mask)
        else:
            hidden_states, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Qwen3NextModel(Qwen2MoeModel):
    layer, masks = Qwen3NextDecoderLayer, masks_of_kinds


class Qwen3NextForCausalLM(Qwen2MoeForCausalLM):
    config_class, decoder, _no_split_modules = Qwen3NextConfig, Qwen3NextModel, ["Qwen3NextDecoderLayer"]
    turn = (64, 48, 0, "fla")


causal_lm = Qwen3NextForCausalLM
