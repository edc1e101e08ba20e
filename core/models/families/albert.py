"""albert: bert whose layers are one group's, run again and again, with narrow embeddings."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import attend, capture_outputs, merge_with_config_defaults
from transformers.modeling_encoder import BertConfig, BertEmbeddings, BertModel, BertPreTrainedModel, eager_attention_forward
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling
from transformers.models.bert.modeling_bert import BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification


class AlbertConfig(BertConfig):
    model_type = "albert"
    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_groups: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    inner_group_num: int = 1
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1

    def dropout_of_head(self):
        return self.classifier_dropout_prob if self.classifier_dropout_prob is not None else self.hidden_dropout_prob


class AlbertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.is_causal = config, False
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.attention_dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.output_dropout = nn.Dropout(config.hidden_dropout_prob)
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.query(hidden_states).view(*shape).transpose(1, 2)
        key = self.key(hidden_states).view(*shape).transpose(1, 2)
        value = self.value(hidden_states).view(*shape).transpose(1, 2)
        output, weights = attend(self, query, key, value, attention_mask, eager_attention_forward, scaling=self.scaling,
                                 dropout=self.attention_dropout.p if self.training else 0.0, **kwargs)
        output = output.reshape(*hidden_states.shape[:-1], -1).contiguous()
        output = self.dense(output)
        output = self.output_dropout(output)
        output = self.LayerNorm(hidden_states + output)
        return output, weights


class AlbertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.full_layer_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = AlbertAttention(config)
        self.ffn = nn.Linear(config.hidden_size, config.intermediate_size)
        self.ffn_output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        attention_output, _ = self.attention(hidden_states, attention_mask, **kwargs)
        ffn_output = self.ff_chunk(attention_output)
        hidden_states = self.full_layer_layer_norm(ffn_output + attention_output)
        return hidden_states

    def ff_chunk(self, attention_output):
        ffn_output = self.ffn(attention_output)
        ffn_output = self.activation(ffn_output)
        ffn_output = self.ffn_output(ffn_output)
        return ffn_output


class AlbertLayerGroup(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.albert_layers = nn.ModuleList([AlbertLayer(config) for _ in range(config.inner_group_num)])

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        for albert_layer in self.albert_layers:
            hidden_states = albert_layer(hidden_states, attention_mask, **kwargs)
        return hidden_states


class AlbertTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding_hidden_mapping_in = nn.Linear(config.embedding_size, config.hidden_size)
        self.albert_layer_groups = nn.ModuleList([AlbertLayerGroup(config) for _ in range(config.num_hidden_groups)])

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        hidden_states = self.embedding_hidden_mapping_in(hidden_states)
        for i in range(self.config.num_hidden_layers):
            group_idx = int(i / (self.config.num_hidden_layers / self.config.num_hidden_groups))
            hidden_states = self.albert_layer_groups[group_idx](hidden_states, attention_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class OfAlbert:
    config_class, base_model_prefix, _no_split_modules = AlbertConfig, "albert", None
    supports_gradient_checkpointing = takes_token_types = False


class AlbertModel(OfAlbert, BertModel):
    def __init__(self, config, add_pooling_layer=True):
        BertPreTrainedModel.__init__(self, config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = AlbertTransformer(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if add_pooling_layer else None
        self.pooler_activation = nn.Tanh() if add_pooling_layer else None

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, **kwargs):
        embedding_output = self.embeddings(input_ids, position_ids=position_ids, token_type_ids=token_type_ids)
        attention_mask = self.mask(embedding_output, attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask, position_ids=position_ids, **kwargs)
        sequence_output = encoder_outputs[0]
        pooled_output = self.pooler_activation(self.pooler(sequence_output[:, 0])) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)


OfAlbert.body = AlbertModel


class AlbertMLMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.decoder = nn.Linear(config.embedding_size, config.vocab_size)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.activation(hidden_states)
        hidden_states = self.LayerNorm(hidden_states)
        hidden_states = self.decoder(hidden_states)
        prediction_scores = hidden_states
        return prediction_scores


class AlbertForMaskedLM(OfAlbert, BertForMaskedLM):
    _tied_weights_keys = {"predictions.decoder.weight": "albert.embeddings.word_embeddings.weight", "predictions.decoder.bias": "predictions.bias"}

    def __init__(self, config):
        BertPreTrainedModel.__init__(self, config)
        self.put_encoder(config, add_pooling_layer=False)
        self.predictions = AlbertMLMHead(config)

    def get_output_embeddings(self):
        return self.predictions.decoder

    def predict(self, sequence_output):
        return self.predictions(sequence_output)


class AlbertForSequenceClassification(OfAlbert, BertForSequenceClassification):
    pass


class AlbertForTokenClassification(OfAlbert, BertForTokenClassification):
    pass


class AlbertForQuestionAnswering(OfAlbert, BertForQuestionAnswering):
    pass


OfAlbert.heads = {
    "masked_lm": AlbertForMaskedLM, "classification": AlbertForSequenceClassification, "token_classification": AlbertForTokenClassification,
    "question_answering": AlbertForQuestionAnswering, "embedding": AlbertModel,
}
causal_lm = AlbertForMaskedLM
