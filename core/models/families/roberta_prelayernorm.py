"""roberta-prelayernorm: roberta whose layers norm ahead of each part, and once more behind the last."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import capture_outputs, merge_with_config_defaults
from transformers.modeling_encoder import BertAttention, BertEncoder, BertIntermediate, BertLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.roberta.modeling_roberta import (
    RobertaConfig, RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel,
)
from transformers.models.xlm_roberta_xl.modeling_xlm_roberta_xl import XLMRobertaXLSelfOutput as RobertaPreLayerNormOutput


class RobertaPreLayerNormConfig(RobertaConfig):
    model_type = "roberta-prelayernorm"


class RobertaPreLayerNormAttention(BertAttention):
    output_class = RobertaPreLayerNormOutput

    def __init__(self, config):
        super().__init__(config)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        hidden_states_pre_layer_norm = self.LayerNorm(hidden_states)
        attention_output, weights = self.self(hidden_states_pre_layer_norm, attention_mask=attention_mask, **kwargs)
        attention_output = self.output(attention_output, hidden_states)
        return attention_output, weights


class RobertaPreLayerNormIntermediate(BertIntermediate):
    def __init__(self, config):
        nn.Module.__init__(self)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = ACT2FN[config.hidden_act]

    def forward(self, hidden_states):
        hidden_states = self.LayerNorm(hidden_states)
        hidden_states = self.dense(hidden_states)
        hidden_states = self.intermediate_act_fn(hidden_states)
        return hidden_states


class RobertaPreLayerNormLayer(BertLayer):
    attention_class, intermediate_class, output_class = RobertaPreLayerNormAttention, RobertaPreLayerNormIntermediate, RobertaPreLayerNormOutput


class RobertaPreLayerNormEncoder(BertEncoder):
    layer_class = RobertaPreLayerNormLayer


class OfPreLayerNorm:
    config_class, base_model_prefix = RobertaPreLayerNormConfig, "roberta_prelayernorm"


class RobertaPreLayerNormModel(OfPreLayerNorm, RobertaModel):
    encoded = RobertaPreLayerNormEncoder

    def __init__(self, config, add_pooling_layer=True):
        super().__init__(config, add_pooling_layer)
        pooler = self.pooler  # made last
        del self.pooler
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.pooler = pooler

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, use_cache=None, **kwargs):
        embedding_output = self.embeddings(input_ids=input_ids, position_ids=position_ids, token_type_ids=token_type_ids)
        attention_mask = self.mask(embedding_output, attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask, **kwargs)
        sequence_output = encoder_outputs.last_hidden_state
        sequence_output = self.LayerNorm(sequence_output)
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)


OfPreLayerNorm.body = RobertaPreLayerNormModel


class RobertaPreLayerNormForMaskedLM(OfPreLayerNorm, RobertaForMaskedLM):
    _tied_weights_keys = {"lm_head.decoder.weight": "roberta_prelayernorm.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}


class RobertaPreLayerNormForSequenceClassification(OfPreLayerNorm, RobertaForSequenceClassification):
    pass


class RobertaPreLayerNormForTokenClassification(OfPreLayerNorm, RobertaForTokenClassification):
    pass


class RobertaPreLayerNormForQuestionAnswering(OfPreLayerNorm, RobertaForQuestionAnswering):
    pass


OfPreLayerNorm.heads = {
    "masked_lm": RobertaPreLayerNormForMaskedLM, "classification": RobertaPreLayerNormForSequenceClassification,
    "token_classification": RobertaPreLayerNormForTokenClassification, "question_answering": RobertaPreLayerNormForQuestionAnswering,
    "embedding": RobertaPreLayerNormModel,
}
causal_lm = RobertaPreLayerNormForMaskedLM
