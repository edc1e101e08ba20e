"""mamba: nothing but mixers that scan, over a residual in fp32."""
import math

import torch
from torch import nn

from transformers.cache_utils import DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_decoder import CausalLM, Decoder
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_mamba import MambaMixer
from transformers.modeling_norm import RMSNorm
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_stage_gpt import handed_nothing, stage_of
from transformers.modeling_utils import PreTrainedModel
from transformers.trl.loop import reads


class MambaConfig(PreTrainedConfig):
    model_type = "mamba"
    vocab_size: int = 50280
    hidden_size: int = 768
    state_size: int = 16
    num_hidden_layers: int = 32
    layer_norm_epsilon: float = 1e-5
    expand: int = 2
    conv_kernel: int = 4
    use_bias: bool = False
    use_conv_bias: bool = True
    hidden_act: str = "silu"
    residual_in_fp32: bool = True
    time_step_rank: str | int = "auto"
    use_cache: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.intermediate_size = int(self.expand * self.hidden_size)
        self.time_step_rank = math.ceil(self.hidden_size / 16) if self.time_step_rank == "auto" else self.time_step_rank
        super().__post_init__(**kwargs)

    @property
    def layer_types(self):
        return ["linear_attention"] * self.num_hidden_layers


class MambaBlock(GradientCheckpointingLayer):
    scanner = MambaMixer

    def __init__(self, config, layer_idx):
        super().__init__()
        self.residual_in_fp32 = config.residual_in_fp32
        self.norm = RMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.mixer = self.scanner(config, layer_idx=layer_idx)

    def forward(self, hidden_states, cache_params=None, attention_mask=None):
        residual = hidden_states
        reads(self.norm)
        hidden_states = self.norm(hidden_states.to(dtype=self.norm.weight.dtype))
        if self.residual_in_fp32:
            residual = residual.to(torch.float32)
        hidden_states = self.mixer(hidden_states, cache_params=cache_params, attention_mask=attention_mask)
        hidden_states = residual + hidden_states
        return hidden_states


class MambaPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, _input_embed_layer = MambaConfig, "backbone", "embeddings"
    supports_gradient_checkpointing, takes_positions = True, False
    _no_split_modules = ["MambaBlock", "MambaMixer"]


class MambaModel(Decoder, MambaPreTrainedModel):
    layer = MambaBlock

    def embedding(self, config):
        return nn.Embedding(config.vocab_size, config.hidden_size)

    def finish(self, config):
        self.norm_f = RMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)

    @staticmethod
    def mask(attention_mask, **of):
        return attention_mask

    def forward(self, input_ids=None, inputs_embeds=None, cache_params=None, use_cache=None, attention_mask=None, **kwargs):
        use_cache = use_cache if use_cache is not None else (self.config.use_cache if not self.training else False)
        if inputs_embeds is None:
            inputs_embeds = self.embeddings(input_ids)
        if self.gradient_checkpointing and self.training and use_cache:
            use_cache = False
        if use_cache and cache_params is None:
            cache_params = DynamicCache(config=self.config)
        attention_mask = self.mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=cache_params)
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states, cache_params=cache_params, attention_mask=attention_mask)
        hidden_states = self.norm_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=cache_params if use_cache else None)


class MambaForCausalLM(CausalLM, MambaPreTrainedModel):
    cache_name = "cache_params"  # of generate(), which gives the tokens behind the prompt no mask then
    decoder, stage, _tied_weights_keys = MambaModel, stage_of(handed_nothing), {"lm_head.weight": "backbone.embeddings.weight"}
    turn = (1, 16, 0, "mamba_ssm")

    def logits(self, x):
        reads(self.lm_head)
        return self.lm_head(x.to(self.lm_head.weight.dtype)).float()


causal_lm = MambaForCausalLM
