"""A decoder of a type that is not known: llama by the keys that configs usually have, latents and experts where they are named. Not anybody's class."""
from torch import nn
from transformers.modeling_moe import Experts, SparseMoeBlock, TopKRouter
from transformers.modeling_rope_utils import apply_rotary_pos_emb_partly
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel

ALSO = {
    "hidden_size": ("n_embd", "d_model", "dim", "n_embed", "model_dim"), "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"), "vocab_size": ("n_vocab", "padded_vocab_size"),
    "intermediate_size": ("ffn_dim", "n_inner", "d_ff", "ffn_hidden_size"), "head_dim": ("kv_channels", "d_head"),
    "num_key_value_heads": ("n_kv_heads", "num_kv_heads", "n_kv_head", "n_head_kv", "multi_query_group_num"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "n_ctx"), "attention_bias": ("use_bias",), "qkv_bias": ("add_qkv_bias",),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"), "num_experts_per_tok": ("moe_k", "moe_topk", "moe_top_k"),
}


class GenericConfig(LlamaConfig):
    model_type = "generic"
    base_model_tp_plan = None
    vocab_size: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    max_position_embeddings: int | None = None
    hidden_act: str | None = "silu"
    num_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int | None = None
    n_shared_experts: int | None = None
    first_k_dense_replace: int | None = None
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    block_configs: list | None = None
    qkv_bias: bool | None = None

    def __post_init__(self, **kwargs):
        for name, others in ALSO.items():
            for other in others:
                if not getattr(self, name) and kwargs.get(other) is not None:
                    setattr(self, name, kwargs[other])
        self.intermediate_size = self.intermediate_size or 4 * self.hidden_size
        self.max_position_embeddings = self.max_position_embeddings or 2048
        self.moe_intermediate_size = self.moe_intermediate_size or self.intermediate_size
        self.num_experts_per_tok = self.num_experts_per_tok or 2
        self.rope_interleave, self.hidden_act = True, self.hidden_act if self.hidden_act in ("silu", "gelu", "relu", "gelu_new") else "silu"
        self.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
        kwargs.pop("rope_scaling", None)
        self.head_dim = self.qk_rope_head_dim if self.kv_lora_rank else self.head_dim
        self.v_head_dim = self.v_head_dim or self.hidden_size // self.num_attention_heads
        super().__post_init__(**kwargs)


def generic_expert(config):
    return LlamaMLP(config, config.moe_intermediate_size)


class GenericSparseMoeBlock(SparseMoeBlock):
    expert = staticmethod(generic_expert)  # where each expert is a module of its own

    def __init__(self, config):
        super().__init__(config)
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * config.n_shared_experts) if config.n_shared_experts else None

    def forward(self, hidden_states):
        out = super().forward(hidden_states)
        if isinstance(out, tuple):
            out, _ = out
        if self.shared_experts is not None:
            out = out + self.shared_experts(hidden_states)
        return out


class GenericAttention(LlamaAttention):
    def biases(self, config):
        return config.attention_bias or config.qkv_bias, config.attention_bias


class PartlyRotatedAttention(GenericAttention):
    rotate = staticmethod(apply_rotary_pos_emb_partly)


class GenericDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        partly = config.rope_parameters.get("partial_rotary_factor", 1.0) < 1.0
        self.attention = DeepseekV3Attention if config.kv_lora_rank else PartlyRotatedAttention if partly else GenericAttention
        super().__init__(config, layer_idx)

    def make_mlp(self, config, layer_idx):
        return GenericSparseMoeBlock(config) if config.num_experts and layer_idx >= (config.first_k_dense_replace or 0) else LlamaMLP(config)


def width_of_block(config, ffn):
    """What a block's ffn_mult says, rounded up to 256 (llama.cpp, conversion of DeciLMForCausalLM)."""
    if ffn.get("intermediate_size"):
        return ffn["intermediate_size"]
    return -(-int(2 * ffn["ffn_mult"] * config.hidden_size / 3) // 256) * 256


class SearchedDecoderLayer(LlamaDecoderLayer):
    """A layer as a search chose it (block_configs): its two parts by themselves, each a module of its own size, one linear layer, or nothing."""

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        attention, ffn = config.block_configs[layer_idx]["attention"], config.block_configs[layer_idx]["ffn"]
        self.attends, self.feeds = not attention.get("no_op"), not ffn.get("no_op")
        self.is_linear = bool(attention.get("replace_with_linear"))
        if self.attends:
            self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
            if self.is_linear:
                self.self_attn = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
            else:
                config.num_key_value_heads = config.num_attention_heads // (attention.get("n_heads_in_group") or 1)
                self.self_attn = GenericAttention(config, layer_idx)
        if self.feeds:
            self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
            self.mlp = nn.Linear(config.hidden_size, config.hidden_size, bias=False) if ffn.get("replace_with_linear") else LlamaMLP(config, width_of_block(config, ffn))

    def forward(self, hidden_states, **kwargs):
        if self.attends:
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
            if self.is_linear:
                hidden_states = self.self_attn(hidden_states)
            else:
                hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
            hidden_states = residual + hidden_states
        if self.feeds:
            residual = hidden_states
            hidden_states = self.post_attention_layernorm(hidden_states)
            hidden_states = self.mlp(hidden_states)
            hidden_states = residual + hidden_states
        return hidden_states


class GenericModel(LlamaModel):
    def __init__(self, config):
        self.layer = SearchedDecoderLayer if config.block_configs else GenericDecoderLayer
        super().__init__(config)


class GenericForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = GenericConfig, GenericModel, ["GenericDecoderLayer", "SearchedDecoderLayer"]


causal_lm = GenericForCausalLM
