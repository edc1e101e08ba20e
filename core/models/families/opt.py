"""opt: positions of a table from an offset on, norms before or after, embeddings that may be narrower than the layers."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_bart import BartAttention, BartDecoderLayer, LearnedPositionalEmbedding
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, capture_outputs, look_up, merge_with_config_defaults
from transformers.modeling_stage_gpt import handed, stage_of
from transformers.modeling_utils import PreTrainedModel


class OPTConfig(PreTrainedConfig):
    model_type = "opt"
    vocab_size: int = 50272
    hidden_size: int = 768
    num_hidden_layers: int = 12
    ffn_dim: int = 3072
    max_position_embeddings: int = 2048
    do_layer_norm_before: bool = True
    _remove_final_layer_norm: bool = False
    word_embed_proj_dim: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.0
    num_attention_heads: int = 12
    activation_function: str = "relu"
    use_cache: bool = True
    pad_token_id: int | None = 1
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    tie_word_embeddings: bool = True


class OPTDecoderLayer(BartDecoderLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__(BartAttention(config, layer_idx, config.attention_dropout, config.enable_bias), config.hidden_size, config.ffn_dim,
                         config.activation_function, config.dropout, config.enable_bias, config.layer_norm_elementwise_affine)
        self.norm_first = config.do_layer_norm_before


class OPTPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = OPTConfig, "model", ["OPTDecoderLayer"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = position_table = True


class OPTDecoder(OPTPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        width, narrow = config.hidden_size, config.word_embed_proj_dim or config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, narrow, config.pad_token_id)
        self.embed_positions = LearnedPositionalEmbedding(config.max_position_embeddings, width)
        self.project_out = nn.Linear(width, narrow, bias=False) if narrow != width else None
        self.project_in = nn.Linear(narrow, width, bias=False) if narrow != width else None
        ends = config.do_layer_norm_before and not config._remove_final_layer_norm
        self.final_layer_norm = nn.LayerNorm(width, elementwise_affine=config.layer_norm_elementwise_affine) if ends else None
        self.layers = nn.ModuleList([OPTDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, inputs_embeds=None, use_cache=None, position_ids=None, **kwargs):
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        rows, length = inputs_embeds.shape[:2]
        dense_mask = attention_mask if attention_mask is not None else torch.ones(rows, seen + length, device=inputs_embeds.device)
        if position_ids is None:
            position_ids = torch.cumsum(dense_mask, dim=1)
            position_ids = (position_ids * dense_mask - 1).long()[:, seen:]
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        positions = self.embed_positions(position_ids)
        if self.project_in is not None:
            inputs_embeds = self.project_in(inputs_embeds)
        hidden_states = inputs_embeds + positions
        for layer in self.layers:  # all of them: layerdrop leaves some out at random
            hidden_states = layer(hidden_states, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values,
                                  use_cache=use_cache, **kwargs)
        if self.final_layer_norm is not None:
            hidden_states = self.final_layer_norm(hidden_states)
        if self.project_out is not None:
            hidden_states = self.project_out(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class OPTModel(OPTPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.decoder = OPTDecoder(config)

    def __call__(self, **given):
        """OPTForCausalLM calls the decoder itself."""
        return self.decoder(**given)


class OPTForCausalLM(CausalLM, OPTPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    decoder = OPTModel
    stage = stage_of(handed)

    @property
    def widened_by_autocast(self):
        return not self.config.do_layer_norm_before  # a layer ends in a norm

    def get_input_embeddings(self):
        return self.model.decoder.embed_tokens


causal_lm = OPTForCausalLM
