"""biogpt: OPT's layer with dropout after the activation too, and embeddings that are scaled."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_bart import BartAttention, BartDecoderLayer, LearnedPositionalEmbedding, ScaledWordEmbedding
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, capture_outputs, look_up, merge_with_config_defaults, positions
from transformers.modeling_encoder import eager_attention_forward
from transformers.modeling_stage_gpt import handed, stage_of
from transformers.modeling_utils import PreTrainedModel


class BioGptConfig(PreTrainedConfig):
    model_type = "biogpt"
    vocab_size: int = 42384
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    use_cache: bool = True
    activation_dropout: float = 0.0
    pad_token_id: int | None = 1
    tie_word_embeddings: bool = True


class BioGptScaledWordEmbedding(ScaledWordEmbedding):
    pass


class BioGptAttention(BartAttention):
    eager = staticmethod(eager_attention_forward)

    def query(self, x):
        return self.q_proj(x), self.scaling


class BioGptDecoderLayer(BartDecoderLayer):
    flattens = False

    def __init__(self, config, layer_idx=None):
        super().__init__(BioGptAttention(config, layer_idx, config.attention_probs_dropout_prob), config.hidden_size, config.intermediate_size,
                         config.hidden_act, config.hidden_dropout_prob)
        self.activation_dropout = config.activation_dropout


class BioGptPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = BioGptConfig, "biogpt"
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = position_table = True


class BioGptModel(BioGptPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        width = config.hidden_size
        self.dropout = config.hidden_dropout_prob
        self.embed_tokens = BioGptScaledWordEmbedding(config.vocab_size, width, config.pad_token_id, width**0.5 if config.scale_embedding else 1.0)
        self.embed_positions = LearnedPositionalEmbedding(config.max_position_embeddings, width)
        self.layers = nn.ModuleList([BioGptDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.layer_norm = nn.LayerNorm(width)
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, past_key_values=None, use_cache=None, position_ids=None, **kwargs):
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[0], seen + inputs_embeds.shape[1], device=inputs_embeds.device)
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        if position_ids is None:
            position_ids = positions(inputs_embeds, seen)
        places = self.embed_positions(position_ids)
        hidden_states = inputs_embeds + places
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in self.layers:  # all of them: layerdrop leaves some out at random
            hidden_states = layer(hidden_states, attention_mask=mask, past_key_values=past_key_values, position_ids=position_ids, **kwargs)
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class BioGptForCausalLM(CausalLM, BioGptPreTrainedModel):
    _tied_weights_keys = {"output_projection.weight": "biogpt.embed_tokens.weight"}
    decoder, head = BioGptModel, "output_projection"
    stage = stage_of(handed)


causal_lm = BioGptForCausalLM
