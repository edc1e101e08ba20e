"""dbrx: norms in pairs around attention, experts as rows of three tables."""
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_moe import MoeCausalLM
from transformers.modeling_moe_rows import DbrxFFN
from transformers.modeling_stage import stage_of_decoder
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaModel, LlamaPreTrainedModel
from transformers.releases import refuse


class DbrxConfig(PreTrainedConfig):
    model_type = "dbrx"
    attribute_map = {"num_attention_heads": "n_heads", "hidden_size": "d_model", "num_hidden_layers": "n_layers", "max_position_embeddings": "max_seq_len"}
    bos_token_id: int | None = None
    d_model: int = 2048
    n_heads: int = 16
    n_layers: int = 24
    max_seq_len: int = 2048
    vocab_size: int = 32000
    resid_pdrop: float = 0.0
    attn_config: dict | None = None
    ffn_config: dict | None = None
    use_cache: bool = True
    output_router_logits: bool = False
    rope_parameters: dict | None = None
    pad_token_id: int | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        attn = {"attn_pdrop": 0.0, "clip_qkv": None, "kv_n_heads": 1} | (self.attn_config or {})
        self.num_key_value_heads, self.clip_qkv, self.attention_dropout = attn["kv_n_heads"], attn["clip_qkv"], attn["attn_pdrop"]
        ffn = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1, "moe_jitter_eps": None, "moe_loss_weight": 0.01, "ffn_act_fn": None,
               "moe_normalize_expert_weights": 1.0} | (self.ffn_config or {})
        self.inner, self.num_experts, self.num_experts_per_tok = ffn["ffn_hidden_size"], ffn["moe_num_experts"], ffn["moe_top_k"]
        self.router_aux_loss_coef, self.jitter, self.norm_power = ffn["moe_loss_weight"], ffn["moe_jitter_eps"], ffn["moe_normalize_expert_weights"]
        self.expert_act = (ffn["ffn_act_fn"] or {"name": "silu"})["name"]
        if self.tie_word_embeddings:
            refuse("/config/tie_word_embeddings", "DbrxConfig takes none")
        super().__post_init__(**kwargs)


class DbrxAttention(LlamaAttention):
    out = "out_proj"

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.config, self.layer_idx, self.head_dim = config, layer_idx, config.d_model // config.n_heads
        self.widths = config.d_model, config.num_key_value_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.num_key_value_groups, self.scaling = config.n_heads // config.num_key_value_heads, self.head_dim**-0.5
        self.attention_dropout, self.is_causal, self.keywords = config.attention_dropout, True, {}
        self.Wqkv = nn.Linear(config.d_model, sum(self.widths), bias=False)
        self.out_proj = nn.Linear(config.d_model, config.d_model, bias=False)

    def project(self, x):
        qkv, bound, shape = self.Wqkv(x), self.config.clip_qkv, (*x.shape[:-1], -1, self.head_dim)
        qkv = qkv.clamp(min=-bound if bound is not None else None, max=bound)
        q, k, v = qkv.split(self.widths, dim=2)
        return q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2), qkv


class DbrxNormAttentionNorm(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.resid_pdrop = config.resid_pdrop
        self.norm_1 = nn.LayerNorm(config.d_model, bias=False)
        self.attn = DbrxAttention(config, layer_idx)
        self.norm_2 = nn.LayerNorm(config.d_model, bias=False)

    def forward(self, hidden_states, **kwargs):
        residual_states = hidden_states
        hidden_states = self.norm_1(hidden_states).to(hidden_states.dtype)
        hidden_states, _ = self.attn(hidden_states=hidden_states, **kwargs)
        hidden_states = nn.functional.dropout(hidden_states, p=self.resid_pdrop, training=self.training)
        hidden_states = hidden_states + residual_states
        residual_states = hidden_states
        hidden_states = self.norm_2(hidden_states).to(hidden_states.dtype)
        return residual_states, hidden_states


class DbrxBlock(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.resid_pdrop = config.resid_pdrop
        self.norm_attn_norm = DbrxNormAttentionNorm(config, layer_idx)
        self.ffn = DbrxFFN(config)

    def forward(self, hidden_states, **kwargs):
        resid_states, hidden_states = self.norm_attn_norm(hidden_states=hidden_states, **kwargs)
        hidden_states = self.ffn(hidden_states)
        hidden_states = nn.functional.dropout(hidden_states, p=self.resid_pdrop, training=self.training)
        hidden_states = resid_states + hidden_states
        return hidden_states


class DbrxModel(LlamaModel):
    config_class, layer, base_model_prefix, _input_embed_layer = DbrxConfig, DbrxBlock, "transformer", "wte"

    def __init__(self, config):
        LlamaPreTrainedModel.__init__(self, config)
        self.rotary_emb = self.rotary(config)
        self.wte = self.embedding(config)
        self.blocks = nn.ModuleList([DbrxBlock(config, i) for i in range(config.n_layers)])
        self.norm_f = nn.LayerNorm(config.d_model, bias=False)
        self.gradient_checkpointing = False

    @property
    def layers(self):
        return self.blocks

    def last_norm(self):
        return self.norm_f


class DbrxForCausalLM(MoeCausalLM, LlamaPreTrainedModel):
    config_class, base_model_prefix, _no_split_modules, _input_embed_layer = DbrxConfig, "transformer", ["DbrxBlock"], "wte"
    decoder, stage = DbrxModel, stage_of_decoder
    balances_unasked = False  # its weight is ffn_config's: trl finds no router_aux_loss_coef


causal_lm = DbrxForCausalLM
