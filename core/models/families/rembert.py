"""rembert: bert with narrow embeddings that its head does not share; its own scores, over the root."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_encoder import BertAttention, BertConfig, BertEncoder, BertLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.bert.modeling_bert import BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification
from transformers.models.megatron_bert.modeling_megatron_bert import MegatronBertEmbeddings, MegatronBertModel, MegatronBertSelfAttention


class RemBertConfig(BertConfig):
    model_type = "rembert"
    vocab_size: int = 250300
    hidden_size: int = 1152
    num_hidden_layers: int = 32
    num_attention_heads: int = 18
    input_embedding_size: int = 256
    output_embedding_size: int = 1664
    intermediate_size: int = 4608
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1
    tie_word_embeddings: bool = False

    def dropout_of_head(self):
        return self.classifier_dropout_prob


class RemBertEmbeddings(MegatronBertEmbeddings):
    def __init__(self, config):
        super().__init__(config, config.input_embedding_size)
        self.LayerNorm = nn.LayerNorm(config.input_embedding_size, eps=config.layer_norm_eps)

    def normed(self, embeddings):
        return self.LayerNorm(embeddings)


class RemBertAttention(BertAttention):
    self_class = MegatronBertSelfAttention

    def forward(self, hidden_states, attention_mask=None):
        self_outputs = self.self(hidden_states, attention_mask=attention_mask)
        attention_output = self.output(self_outputs[0], hidden_states)
        outputs = (attention_output,) + self_outputs[1:]
        return outputs


class RemBertLayer(BertLayer):
    attention_class = RemBertAttention

    def forward(self, hidden_states, attention_mask=None):
        self_attention_outputs = self.attention(hidden_states, attention_mask=attention_mask)
        attention_output = self_attention_outputs[0]
        outputs = self_attention_outputs[1:]
        layer_output = self.feed_forward_chunk(attention_output)
        outputs = (layer_output,) + outputs
        return outputs

    def feed_forward_chunk(self, attention_output):
        intermediate_output = self.intermediate(attention_output)
        layer_output = self.output(intermediate_output, attention_output)
        return layer_output


class RemBertEncoder(BertEncoder):
    layer_class = RemBertLayer

    def narrow(self, config):
        self.embedding_hidden_mapping_in = nn.Linear(config.input_embedding_size, config.hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        hidden_states = self.embedding_hidden_mapping_in(hidden_states)
        for layer_module in self.layer:
            layer_outputs = layer_module(hidden_states, attention_mask)
            hidden_states = layer_outputs[0]
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states)


class RemBertLMPredictionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.output_embedding_size)
        self.decoder = nn.Linear(config.output_embedding_size, config.vocab_size)
        self.activation = ACT2FN[config.hidden_act]
        self.LayerNorm = nn.LayerNorm(config.output_embedding_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.activation(hidden_states)
        hidden_states = self.LayerNorm(hidden_states)
        hidden_states = self.decoder(hidden_states)
        return hidden_states


class RemBertOnlyMLMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = RemBertLMPredictionHead(config)

    def forward(self, sequence_output):
        return self.predictions(sequence_output)


class OfRemBert:
    config_class, base_model_prefix, _no_split_modules, takes_token_types = RemBertConfig, "rembert", None, False
    _supports_sdpa = _supports_flash_attn = False


class RemBertModel(OfRemBert, MegatronBertModel):
    embedded, encoded = RemBertEmbeddings, RemBertEncoder


OfRemBert.body = RemBertModel


class RemBertForMaskedLM(OfRemBert, BertForMaskedLM):
    _tied_weights_keys = {}  # whatever tie_word_embeddings says
    head_class = RemBertOnlyMLMHead


class RemBertForSequenceClassification(OfRemBert, BertForSequenceClassification):
    pass


class RemBertForTokenClassification(OfRemBert, BertForTokenClassification):
    pass


class RemBertForQuestionAnswering(OfRemBert, BertForQuestionAnswering):
    pass


OfRemBert.heads = {
    "masked_lm": RemBertForMaskedLM, "classification": RemBertForSequenceClassification, "token_classification": RemBertForTokenClassification,
    "question_answering": RemBertForQuestionAnswering, "embedding": RemBertModel,
}
causal_lm = RemBertForMaskedLM
