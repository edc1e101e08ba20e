"""falcon: layers of its own kind (modeling_falcon_layers.py), tables of rotary embedding or alibi in the mask."""
import math

import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_alibi import build_alibi_tensor
from transformers.modeling_decoder import CausalLM, look_up, positions
from transformers.modeling_falcon_layers import FalconAttention, FalconDecoderLayer
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.modeling_rope_utils import RotaryEmbedding
from transformers.modeling_stage_gpt import handed_falcon, stage_of
from transformers.modeling_utils import PreTrainedModel


class FalconConfig(PreTrainedConfig):
    model_type = "falcon"
    attribute_map = {"n_head": "num_attention_heads", "n_layer": "num_hidden_layers"}  # of RefinedWeb, its first name
    vocab_size: int = 65024
    hidden_size: int = 4544
    num_hidden_layers: int = 32
    num_attention_heads: int = 71
    num_ln_in_parallel_attn: int | None = None
    layer_norm_epsilon: float | None = 1e-5
    use_cache: bool = True
    hidden_dropout: float | None = 0.0
    attention_dropout: float | None = 0.0
    num_kv_heads: int | None = None
    alibi: bool | None = False
    new_decoder_architecture: bool | None = False
    multi_query: bool | None = True
    parallel_attn: bool | None = True
    bias: bool | None = False
    max_position_embeddings: int = 2048
    rope_parameters: dict | None = None
    ffn_hidden_size: int | None = None
    activation: str | None = "gelu"
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.hidden_size = kwargs.pop("n_embed", None) or self.hidden_size
        of_refined_web = kwargs.pop("n_head_kv", None)
        self.new_decoder_architecture = self.new_decoder_architecture or of_refined_web is not None
        self.num_kv_heads = self.num_kv_heads or of_refined_web or self.num_attention_heads
        self.ffn_hidden_size = self.ffn_hidden_size or self.hidden_size * 4
        self.head_dim = self.hidden_size // self.num_attention_heads
        if self.num_ln_in_parallel_attn is None and self.new_decoder_architecture:
            self.num_ln_in_parallel_attn = 2
        super().__post_init__(**kwargs)


class FalconPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = FalconConfig, "transformer"
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = True
    _no_split_modules = ["FalconDecoderLayer"]


class FalconModel(FalconPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.h = nn.ModuleList([FalconDecoderLayer(config, layer_idx=i) for i in range(config.num_hidden_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False
        self.rotary_emb = RotaryEmbedding(config=config)
        self.post_init()

    def get_input_embeddings(self):
        return self.word_embeddings

    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        use_cache = use_cache if use_cache is not None else self.config.use_cache
        if self.gradient_checkpointing and self.training:
            use_cache = False
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        batch, length, _ = inputs_embeds.shape
        alibi = None
        if self.config.alibi:
            mask = torch.ones((batch, length + seen), device=inputs_embeds.device, dtype=torch.long) if attention_mask is None else attention_mask
            alibi = build_alibi_tensor(mask, self.config.num_attention_heads, dtype=inputs_embeds.dtype)
        if position_ids is None:
            position_ids = positions(inputs_embeds, seen)
        causal_mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                         past_key_values=past_key_values, allow_is_causal_skip=False)
        if alibi is not None and causal_mask is not None and causal_mask.ndim == 4:
            lowest = torch.finfo(inputs_embeds.dtype).min
            if causal_mask.dtype == torch.bool:
                causal_mask = torch.where(causal_mask, torch.full((), 0.0, device=causal_mask.device, dtype=inputs_embeds.dtype), lowest)
            alibi = alibi.reshape(batch, -1, *alibi.shape[1:])
            causal_mask = torch.masked_fill(alibi / math.sqrt(self.config.head_dim), causal_mask < -1, lowest)
        hidden_states = inputs_embeds
        tables = self.rotary_emb(hidden_states, position_ids=position_ids)
        for block in self.h:
            outputs = block(hidden_states, layer_past=past_key_values, attention_mask=causal_mask, position_ids=position_ids, use_cache=use_cache,
                            alibi=alibi, position_embeddings=tables)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden_states, past_key_values=past_key_values)


class FalconForCausalLM(CausalLM, FalconPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.word_embeddings.weight"}
    decoder = FalconModel
    stage = stage_of(handed_falcon)


causal_lm = FalconForCausalLM
