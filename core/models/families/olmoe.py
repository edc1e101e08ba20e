"""olmoe: llama with norms of whole queries and keys, and experts in every layer."""
from transformers.modeling_moe import Experts, MoeCausalLM, SparseMoeBlock, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm


class OlmoeConfig(LlamaConfig):
    model_type = "olmoe"
    attribute_map = {"num_local_experts": "num_experts"}
    base_model_tp_plan = {f"layers.*.self_attn.{n}_proj": "colwise_gather_output" for n in "qkv"} | {
        "layers.*.self_attn.o_proj": "rowwise_split_input"} | experts_tp_plan()
    bos_token_id: int | None = None
    vocab_size: int = 50304
    hidden_size: int = 2048
    intermediate_size: int = 2048
    num_hidden_layers: int = 16
    num_attention_heads: int = 16
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 1
    clip_qkv: float | None = None
    num_experts_per_tok: int = 8
    num_experts: int = 64
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.01
    norm_topk_prob: bool = False


class OlmoeAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.k_norm = LlamaRMSNorm(config.hidden_size // config.num_attention_heads * config.num_key_value_heads, eps=config.rms_norm_eps)

    def project(self, x):
        shape, limit = (*x.shape[:-1], -1, self.head_dim), self.config.clip_qkv
        q = self.q_norm(self.q_proj(x))
        k = self.k_norm(self.k_proj(x))
        v = self.v_proj(x)
        if limit is not None:
            q.clamp_(min=-limit, max=limit)
            k.clamp_(min=-limit, max=limit)
            v.clamp_(min=-limit, max=limit)
        return q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)


class OlmoeExperts(Experts):
    width = "intermediate_size"


class OlmoeSparseMoeBlock(SparseMoeBlock):
    experts_class = OlmoeExperts


class OlmoeDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward = OlmoeAttention, OlmoeSparseMoeBlock


class OlmoeModel(LlamaModel):
    layer = OlmoeDecoderLayer


class OlmoeForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = OlmoeConfig, OlmoeModel, ["OlmoeDecoderLayer"]


causal_lm = OlmoeForCausalLM
