"""glm4_moe: deepseek_v3's experts over heads of a size of their own, half of each rotated, normed where it is asked for."""
import torch

from transformers.modeling_moe import GroupedRouter
from transformers.modeling_rope_utils import apply_rotary_pos_emb_partly
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3ForCausalLM, DeepseekV3MoE, DeepseekV3Model
from transformers.models.deepseek_v3.modeling_deepseek_v3 import EXPERTS_BESIDE_SHARED
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaRMSNorm


class Glm4MoeConfig(LlamaConfig):
    model_type = "glm4_moe"
    attribute_map = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
    base_model_tp_plan = LlamaConfig.base_model_tp_plan | EXPERTS_BESIDE_SHARED
    bos_token_id: int | None = None
    vocab_size: int = 151552
    intermediate_size: int = 10944
    num_hidden_layers: int = 46
    num_attention_heads: int = 96
    num_key_value_heads: int = 8
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    moe_intermediate_size: int = 1408
    num_experts_per_tok: int = 8
    output_router_logits: bool = False
    n_shared_experts: int = 1
    n_routed_experts: int = 128
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    first_k_dense_replace: int = 1
    norm_topk_prob: bool = True
    use_qk_norm: bool = False

    def __post_init__(self, **kwargs):
        kwargs.setdefault("partial_rotary_factor", 0.5)
        super().__post_init__(**kwargs)


class Glm4MoeAttention(LlamaAttention):
    rotate = staticmethod(apply_rotary_pos_emb_partly)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        if config.use_qk_norm:
            self.q_norm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)
            self.k_norm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def biases(self, config):
        return config.attention_bias, False

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_proj(x).view(shape)
        k = self.k_proj(x).view(shape)
        v = self.v_proj(x).view(shape)
        if self.config.use_qk_norm:
            q = self.q_norm(q)
            k = self.k_norm(k)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


class Glm4MoeTopkRouter(GroupedRouter):
    correction = torch.float32


class Glm4MoeMoE(DeepseekV3MoE):
    router = Glm4MoeTopkRouter


class Glm4MoeDecoderLayer(DeepseekV3DecoderLayer):
    attention, sparse = Glm4MoeAttention, Glm4MoeMoE


class Glm4MoeModel(DeepseekV3Model):
    layer = Glm4MoeDecoderLayer


class Glm4MoeForCausalLM(DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = Glm4MoeConfig, Glm4MoeModel, ["Glm4MoeDecoderLayer"]


causal_lm = Glm4MoeForCausalLM
