"""xlm-roberta-xl: roberta whose layers norm ahead of each part, and once more behind the last."""
import torch
from torch import nn
from torch.nn import CrossEntropyLoss

from transformers.modeling_encoder import BertAttention, BertEncoder, BertLayer
from transformers.modeling_heads import HeadOutput, can_return_tuple
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.roberta.modeling_roberta import (
    RobertaConfig, RobertaEmbeddings, RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel,
)


class XLMRobertaXLConfig(RobertaConfig):
    model_type = "xlm-roberta-xl"
    vocab_size: int = 250880
    hidden_size: int = 2560
    num_hidden_layers: int = 36
    num_attention_heads: int = 32
    intermediate_size: int = 10240
    max_position_embeddings: int = 514
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5


class XLMRobertaXLEmbeddings(RobertaEmbeddings):
    def __init__(self, config):
        super().__init__(config)
        del self.LayerNorm

    def normed(self, embeddings):
        return embeddings


class XLMRobertaXLSelfOutput(nn.Module):
    def __init__(self, config, width):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.dropout(hidden_states)
        hidden_states = hidden_states + input_tensor
        return hidden_states


class XLMRobertaXLAttention(BertAttention):
    output_class = XLMRobertaXLSelfOutput

    def __init__(self, config):
        super().__init__(config)
        self.self_attn_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.order()

    def order(self):
        """The norm comes first."""
        parts = [(name, getattr(self, name)) for name in ("self", "output")]
        for name, part in parts:
            delattr(self, name)
            setattr(self, name, part)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        intermediate = self.self_attn_layer_norm(hidden_states)
        attention_output, weights = self.self(intermediate, attention_mask=attention_mask, **kwargs)
        attention_output = self.output(attention_output, hidden_states)
        return attention_output, weights


class XLMRobertaXLOutput(nn.Module):
    def __init__(self, config, width):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dense(hidden_states)
        hidden_states = hidden_states + input_tensor
        return hidden_states


class XLMRobertaXLLayer(BertLayer):
    attention_class, output_class = XLMRobertaXLAttention, XLMRobertaXLOutput

    def __init__(self, config):
        super().__init__(config)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def feed_forward_chunk(self, attention_output):
        intermediate_output = self.LayerNorm(attention_output)
        intermediate_output = self.intermediate(intermediate_output)
        return self.output(intermediate_output, attention_output)


class XLMRobertaXLEncoder(BertEncoder):
    layer_class = XLMRobertaXLLayer

    def __init__(self, config):
        super().__init__(config)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask, **kwargs)
        hidden_states = self.LayerNorm(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states)


class OfXL:
    config_class, _no_split_modules = XLMRobertaXLConfig, None


class XLMRobertaXLModel(OfXL, RobertaModel):
    embedded, encoded = XLMRobertaXLEmbeddings, XLMRobertaXLEncoder


OfXL.body = XLMRobertaXLModel


class XLMRobertaXLForMaskedLM(OfXL, RobertaForMaskedLM):
    pass


class XLMRobertaXLForSequenceClassification(OfXL, RobertaForSequenceClassification):
    pass


class XLMRobertaXLForTokenClassification(OfXL, RobertaForTokenClassification):
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.roberta(input_ids, attention_mask=attention_mask, **kwargs)
        sequence_output = outputs[0]
        sequence_output = self.dropout(sequence_output)
        logits = self.classifier(sequence_output)
        loss = None
        if labels is not None:
            loss_fct = CrossEntropyLoss()
            if attention_mask is not None:
                active_loss = attention_mask.view(-1) == 1
                active_logits = logits.view(-1, self.config.num_labels)
                active_labels = torch.where(active_loss, labels.view(-1), torch.tensor(-100).type_as(labels))
                loss = loss_fct(active_logits, active_labels)
            else:
                loss = loss_fct(logits.view(-1, self.config.num_labels), labels.view(-1))
        return HeadOutput(loss=loss, logits=logits)


class XLMRobertaXLForQuestionAnswering(OfXL, RobertaForQuestionAnswering):
    pass


OfXL.heads = {
    "masked_lm": XLMRobertaXLForMaskedLM, "classification": XLMRobertaXLForSequenceClassification, "token_classification": XLMRobertaXLForTokenClassification,
    "question_answering": XLMRobertaXLForQuestionAnswering, "embedding": XLMRobertaXLModel,
}
causal_lm = XLMRobertaXLForMaskedLM
