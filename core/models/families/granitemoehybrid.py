"""granitemoehybrid: granite with Mamba 2 mixers in most layers, a shared MLP, and experts beside it where it has some."""
from torch import nn

from transformers.masking_utils import masks_of_kinds
from transformers.modeling_mamba2 import Mamba2Mixer, Mamba2Sizes
from transformers.modeling_moe import experts_tp_plan
from transformers.models.granitemoe.modeling_granitemoe import GraniteMoeAttention, GraniteMoeConfig, GraniteMoeForCausalLM, GraniteMoeMoE, given
from transformers.models.granitemoeshared.modeling_granitemoeshared import GraniteMoeSharedMLP
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaModel, apply_rotary_pos_emb


class GraniteMoeHybridConfig(Mamba2Sizes, GraniteMoeConfig):
    model_type = "granitemoehybrid"
    attribute_map = {"layers_block_type": "layer_types", "num_experts": "num_local_experts"}
    base_model_tp_plan = experts_tp_plan("layers.*.block_sparse_moe.experts")
    shared_intermediate_size: int = 1024
    position_embedding_type: str | None = None
    layer_types: list | None = None


class GraniteMoeHybridAttention(GraniteMoeAttention):
    """Without positions where there are no tables."""

    rotate = staticmethod(lambda q, k, cos, sin: (q, k) if cos is None else apply_rotary_pos_emb(q, k, cos, sin))


class GraniteMoeHybridDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.has_experts, self.multiplier = config.num_local_experts > 0, config.residual_multiplier
        if self.has_experts:
            self.block_sparse_moe = GraniteMoeMoE(config)
        self.shared_mlp = GraniteMoeSharedMLP(config)
        self.scans = config.layer_types[layer_idx] == "linear_attention"
        if self.scans:
            self.mamba = Mamba2Mixer(config, layer_idx)
        else:
            self.self_attn = GraniteMoeHybridAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, position_ids=None, position_embeddings=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        if self.scans:
            hidden_states = self.mamba(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=attention_mask, **kwargs)
        else:
            hidden_states, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values,
                                              position_embeddings=position_embeddings or (None, None), **kwargs)
        hidden_states = residual + hidden_states * self.multiplier
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        if self.has_experts:
            routed, *_logits = given(self.block_sparse_moe(hidden_states))
            hidden_states = routed + self.shared_mlp(hidden_states)
        else:
            hidden_states = self.shared_mlp(hidden_states)
        hidden_states = residual + hidden_states * self.multiplier
        return hidden_states


class GraniteMoeHybridModel(LlamaModel):
    layer = GraniteMoeHybridDecoderLayer

    def finish(self, config):
        self.norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config) if config.position_embedding_type == "rope" else None

    def scaled(self, inputs_embeds):
        return inputs_embeds * self.config.embedding_multiplier

    def masks(self, position_ids=None, **of):
        return masks_of_kinds(self, **of)

    def handed(self, position_ids):
        """No positions."""

    def tables(self, hidden_states, position_ids):
        return [None] * len(self.layers) if self.rotary_emb is None else super().tables(hidden_states, position_ids)


class GraniteMoeHybridForCausalLM(GraniteMoeForCausalLM):
    config_class, decoder, _no_split_modules = GraniteMoeHybridConfig, GraniteMoeHybridModel, ["GraniteMoeHybridDecoderLayer"]


causal_lm = GraniteMoeHybridForCausalLM
