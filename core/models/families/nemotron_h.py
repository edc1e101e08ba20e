"""nemotron_h: each layer is one thing alone: a Mamba 2 mixer, attention without positions, an MLP or experts beside a shared one."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.masking_utils import by_kind, create_causal_mask, create_recurrent_attention_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_mamba2 import Mamba2Mixer
from transformers.modeling_moe import ExpertsWithoutGate, GroupedRouter
from transformers.modeling_norm import RMSNormInFloat
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaForCausalLM, LlamaModel
from transformers.trl.loop import reads

LETTERS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
OLDER = {"mamba": "linear_attention", "attention": "full_attention"}
OLD_NAMES = {"mamba_n_groups": "n_groups", "mamba_d_conv": "conv_kernel", "mamba_conv_bias": "use_conv_bias", "mamba_chunk_size": "chunk_size",
             "mamba_dt_min": "time_step_min"}


class NemotronHConfig(LlamaConfig):
    model_type = "nemotron_h"
    attribute_map = {"layer_types": "layers_block_type", "num_local_experts": "n_routed_experts", "num_experts": "n_routed_experts"}
    base_model_tp_plan = {"embeddings": "embedding_rowwise", "layers.*.mixer.experts.up_proj": "colwise", "layers.*.mixer.experts.down_proj": "rowwise",
                          "layers.*.mixer.experts": "moe_tp_experts"}
    vocab_size: int = 131072
    layers_block_type: list | None = None
    pad_token_id: int | None = 0
    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 4096
    intermediate_size: int = 21504
    mlp_hidden_act: str = "relu2"
    ssm_state_size: int = 128
    mamba_num_heads: int = 128
    mamba_head_dim: int = 64
    mamba_hidden_act: str = "silu"
    n_groups: int = 8
    conv_kernel: int = 4
    time_step_min: float = 0.001
    use_conv_bias: bool = True
    chunk_size: int = 128
    n_routed_experts: int = 8
    moe_intermediate_size: int = 7688
    moe_shared_expert_intermediate_size: int = 7688
    moe_latent_size: int | None = None
    num_experts_per_tok: int = 2
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    use_bias: bool = False
    layer_norm_epsilon: float = 1e-5

    def __post_init__(self, **kwargs):
        for old, name in OLD_NAMES.items():
            setattr(self, name, kwargs.pop(old, getattr(self, name)))
        pattern = kwargs.pop("hybrid_override_pattern", None)
        self.layers_block_type = [OLDER.get(kind, kind) for kind in self.layers_block_type or [LETTERS[letter] for letter in pattern or "ME*-"]]
        self.num_hidden_layers = len(self.layers_block_type)
        super().__post_init__(**kwargs)


class NemotronHMamba2Mixer(Mamba2Mixer):
    def sizes(self, config):
        self.num_heads, self.head_dim, self.intermediate_size = config.mamba_num_heads, config.mamba_head_dim, config.mamba_num_heads * config.mamba_head_dim
        self.ssm_state_size, self.conv_kernel_size, self.n_groups = config.ssm_state_size, config.conv_kernel, config.n_groups
        self.use_bias, self.out_bias, self.use_conv_bias, self.eps = config.use_bias, config.use_bias, config.use_conv_bias, config.layer_norm_epsilon
        self.chunk_size, self.time_step_limit, self.activation = config.chunk_size, (config.time_step_min, float("inf")), config.mamba_hidden_act


class NemotronHMLP(nn.Module):
    def __init__(self, config, intermediate_size=None, **kwargs):
        super().__init__()
        inner = intermediate_size or config.intermediate_size
        self.up_proj = nn.Linear(config.hidden_size, inner, bias=config.mlp_bias)
        self.down_proj = nn.Linear(inner, config.hidden_size, bias=config.mlp_bias)
        self.act_fn = ACT2FN[config.mlp_hidden_act]

    def forward(self, x):
        return self.down_proj(self.act_fn(self.up_proj(x)))


class NemotronHMoE(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.experts = ExpertsWithoutGate(config, config.moe_latent_size or config.hidden_size, config.mlp_hidden_act)
        self.gate = GroupedRouter(config)
        self.shared_experts = NemotronHMLP(config, config.moe_shared_expert_intermediate_size)
        hidden, latent = config.hidden_size, config.moe_latent_size
        self.fc1_latent_proj = nn.Identity() if latent is None else nn.Linear(hidden, latent, bias=config.mlp_bias)
        self.fc2_latent_proj = nn.Identity() if latent is None else nn.Linear(latent, hidden, bias=config.mlp_bias)

    def forward(self, hidden_states):
        residuals = hidden_states
        shape = hidden_states.shape
        _, weights, indices = self.gate(hidden_states)
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
        hidden_states = self.fc1_latent_proj(hidden_states)
        hidden_states = self.experts(hidden_states, indices, weights)
        hidden_states = self.fc2_latent_proj(hidden_states)
        hidden_states = hidden_states.view(*shape)
        hidden_states = hidden_states + self.shared_experts(residuals)
        return hidden_states


class NemotronHAttention(LlamaAttention):
    rotate = staticmethod(lambda q, k, cos, sin: (q, k))

    def biases(self, config):
        return False, False


class NemotronHBlock(GradientCheckpointingLayer):
    mixers = {"linear_attention": NemotronHMamba2Mixer, "full_attention": NemotronHAttention, "moe": NemotronHMoE, "mlp": NemotronHMLP}

    def __init__(self, config, layer_idx):
        super().__init__()
        self.norm = RMSNormInFloat(config.hidden_size, eps=config.layer_norm_epsilon)
        self.block_type = config.layers_block_type[layer_idx]
        self.mixer = self.mixers[self.block_type](config, layer_idx=layer_idx)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, position_embeddings=None, **kwargs):
        residual = hidden_states
        reads(self.norm)
        hidden_states = self.norm(hidden_states.to(dtype=self.norm.weight.dtype))
        if self.block_type == "linear_attention":
            hidden_states = self.mixer(hidden_states, cache_params=past_key_values, attention_mask=attention_mask)
        elif self.block_type == "full_attention":
            hidden_states, _ = self.mixer(hidden_states=hidden_states, past_key_values=past_key_values, attention_mask=attention_mask,
                                          position_embeddings=(None, None), **kwargs)
        else:
            hidden_states = self.mixer(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class NemotronHModel(LlamaModel):
    layer, _input_embed_layer = NemotronHBlock, "embeddings"

    def finish(self, config):
        self.norm_f = RMSNormInFloat(config.hidden_size, eps=config.layer_norm_epsilon)

    def last_norm(self):
        return self.norm_f

    def masks(self, **of):
        masks = {"full_attention": create_causal_mask(**of), "linear_attention": create_recurrent_attention_mask(**of)}
        return by_kind(masks, [layer.block_type for layer in self.layers])

    def tables(self, hidden_states, position_ids):
        return [None] * len(self.layers)


class NemotronHForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = NemotronHConfig, NemotronHModel, ["NemotronHBlock"]
    _tied_weights_keys, _tp_plan, _keep_in_fp32_modules_strict, _input_embed_layer = {}, None, ["e_score_correction_bias"], "embeddings"

    def logits(self, x):
        return self.lm_head(x).float()


causal_lm = NemotronHForCausalLM
