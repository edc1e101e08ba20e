"""bamba: Mamba 2 mixers, attention in the layers that the config numbers, an MLP in each."""
import torch
from torch import nn

from transformers.loss.loss_utils import LOSS_MAPPING
from transformers.masking_utils import masks_of_kinds
from transformers.modeling_decoder import look_up
from transformers.modeling_mamba2 import Mamba2Mixer, Mamba2Sizes
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_rope_utils import apply_rotary_pos_emb_partly
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class BambaConfig(Mamba2Sizes, LlamaConfig):
    model_type = "bamba"
    attribute_map = {"layer_types": "layers_block_type"}
    base_model_tp_plan = None
    vocab_size: int = 128000
    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 0
    max_position_embeddings: int = 262144
    attn_layer_indices: list | None = None
    z_loss_coefficient: float | None = 0.0

    def __post_init__(self, **kwargs):
        kwargs["partial_rotary_factor"] = 0.5
        super().__post_init__(**kwargs)

    @property
    def layers_block_type(self):
        attend = self.attn_layer_indices or []
        return ["full_attention" if i in attend else "linear_attention" for i in range(self.num_hidden_layers)]


class BambaAttention(LlamaAttention):
    rotate = staticmethod(apply_rotary_pos_emb_partly)


class BambaDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.feed_forward = LlamaMLP(config)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.pre_ff_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.scans = config.layers_block_type[layer_idx] == "linear_attention"
        if self.scans:
            self.mamba = Mamba2Mixer(config, layer_idx)
        else:
            self.self_attn = BambaAttention(config, layer_idx)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        residual, weights = hidden_states, None
        hidden_states = self.input_layernorm(hidden_states)
        if self.scans:
            hidden_states = self.mamba(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=attention_mask)
        else:
            hidden_states, weights = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_ff_layernorm(hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states, weights


class BambaModel(LlamaModel):
    layer, masks = BambaDecoderLayer, masks_of_kinds

    def finish(self, config):
        self.final_layernorm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config)

    def last_norm(self):
        return self.final_layernorm

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, _seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        if position_ids is None:
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)
        masks = self.masks(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                           position_ids=position_ids)
        hidden_states = inputs_embeds
        tables = self.rotary_emb(hidden_states, position_ids=position_ids)
        for layer, mask in zip(self.layers, masks):
            hidden_states, _weights = layer(hidden_states, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values,
                                            use_cache=use_cache, position_embeddings=tables, **kwargs)
        hidden_states = self.final_layernorm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class BambaForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = BambaConfig, BambaModel, ["BambaDecoderLayer"]

    def loss_function(self, logits, **kwargs):
        loss = LOSS_MAPPING[self.loss_type](logits=logits, **kwargs)
        if self.config.z_loss_coefficient > 0:
            z_loss = logits.logsumexp(dim=-1).to(dtype=loss.dtype).pow(2).mean()
            loss = loss + self.config.z_loss_coefficient * z_loss
        return loss


causal_lm = BambaForCausalLM
