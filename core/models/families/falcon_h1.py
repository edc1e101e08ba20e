"""falcon_h1: attention and a Mamba 2 mixer side by side in each layer, multipliers everywhere."""
import torch
from torch import nn

from transformers.masking_utils import masks_of_hybrids
from transformers.modeling_mamba2 import Mamba2Mixer, Mamba2Sizes, RMSNormGated
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel


class FalconH1Config(Mamba2Sizes, LlamaConfig):
    model_type = "falcon_h1"
    attribute_map = {"layer_types": "layers_block_type"}
    base_model_tp_plan = None
    vocab_size: int = 128000
    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 0
    max_position_embeddings: int = 8192
    mamba_d_ssm: int | None = 1024
    mamba_norm_before_gate: bool | None = True
    mamba_rms_norm: bool | None = False
    projectors_bias: bool | None = False
    lm_head_multiplier: float | None = 1.0
    embedding_multiplier: float | None = 1.0
    mlp_multipliers: list | None = (1.0, 1.0)
    key_multiplier: float | None = 1.0
    attention_out_multiplier: float | None = 1.0
    attention_in_multiplier: float | None = 1.0
    ssm_in_multiplier: float | None = 1.0
    ssm_out_multiplier: float | None = 1.0

    @property
    def layers_block_type(self):
        return ["hybrid" for _ in range(self.num_hidden_layers)]


class FalconH1Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.key_multiplier = config.key_multiplier

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        return (self.q_proj(x).view(shape).transpose(1, 2), self.k_proj(x).view(shape).transpose(1, 2) * self.key_multiplier,
                self.v_proj(x).view(shape).transpose(1, 2))


class FalconH1RMSNormGated(RMSNormGated):
    norm_before_gate = True

    def forward(self, hidden_states, gate=None):
        dtype = hidden_states.dtype
        if not self.norm_before_gate:
            hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))
        shape = hidden_states.shape
        hidden_states = hidden_states.to(torch.float32)
        hidden_states = hidden_states.view(*shape[:2], -1, self.group_size)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        hidden_states = self.weight.view(-1, self.group_size) * hidden_states
        hidden_states = hidden_states.view(shape)
        if self.norm_before_gate:
            hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))
        return hidden_states.to(dtype)


class FalconH1Mixer(Mamba2Mixer):
    def sizes(self, config):
        super().sizes(config)
        self.out_bias, self.mamba_rms_norm, self.ssm_in_multiplier = config.projectors_bias, config.mamba_rms_norm, config.ssm_in_multiplier

    def make_norm(self, config):
        if not self.mamba_rms_norm:
            return nn.Identity()
        norm = FalconH1RMSNormGated(self.intermediate_size, self.intermediate_size // self.n_groups, self.eps)
        norm.norm_before_gate = config.mamba_norm_before_gate
        return norm

    def before(self, x):
        return x * self.ssm_in_multiplier

    def after(self, x):
        return x * self.mup_vector

    def gated(self, scan_output, gate):
        return self.norm(scan_output, gate) if self.mamba_rms_norm else scan_output * nn.functional.silu(gate)

    def one(self, hidden_states, dt, A, B, C, recurrent_state, gate):
        z = None if self.mamba_rms_norm else gate.view(hidden_states.shape)
        return super().one(hidden_states, dt, A, B, C, recurrent_state, gate, z)


class FalconH1MLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.gate_multiplier, self.down_multiplier = config.mlp_multipliers or (1.0, 1.0)

    def forward(self, x):
        y = self.up_proj(x) * self.act_fn(self.gate_proj(x) * self.gate_multiplier)
        y = self.down_proj(y) * self.down_multiplier
        return y


class FalconH1DecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.feed_forward = FalconH1MLP(config)
        self.mamba = FalconH1Mixer(config, layer_idx)
        self.self_attn = FalconH1Attention(config, layer_idx)
        self.attention_in_multiplier, self.attn_out_multiplier = config.attention_in_multiplier, config.attention_out_multiplier
        self.ssm_out_multiplier = config.ssm_out_multiplier
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.pre_ff_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        causal, padding = attention_mask or (None, None)
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        mixed = self.mamba(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=padding)
        mixed = mixed * self.ssm_out_multiplier
        attended, _ = self.self_attn(hidden_states=hidden_states * self.attention_in_multiplier, attention_mask=causal, past_key_values=past_key_values,
                                     **kwargs)
        attended = attended * self.attn_out_multiplier
        hidden_states = mixed + attended
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_ff_layernorm(hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class FalconH1Model(LlamaModel):
    layer = FalconH1DecoderLayer

    def finish(self, config):
        self.final_layernorm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config)
        for layer in self.layers:
            mixer = layer.mamba
            mixer.register_buffer("mup_vector", torch.ones(1, 1, mixer.intermediate_size + mixer.conv_dim + mixer.num_heads), persistent=False)

    def last_norm(self):
        return self.final_layernorm

    def scaled(self, inputs_embeds):
        return inputs_embeds * self.config.embedding_multiplier

    masks = masks_of_hybrids


class FalconH1ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = FalconH1Config, FalconH1Model, ["FalconH1DecoderLayer"]

    def logits(self, x):
        return self.lm_head(x) * self.config.lm_head_multiplier


causal_lm = FalconH1ForCausalLM
