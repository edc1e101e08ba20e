"""megatron-bert: bert that norms ahead of each part; its own scores, over the root."""
import math

import torch
from torch import nn

from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_encoder import BertConfig, BertEncoder, BertLayer, BertModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.bert.modeling_bert import (
    BertForMaskedLM, BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification,
)


class MegatronBertConfig(BertConfig):
    model_type = "megatron-bert"
    vocab_size: int = 29056
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    classifier_dropout: None = None


class MegatronBertEmbeddings(nn.Module):
    def __init__(self, config, width=None):
        super().__init__()
        width = width or config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)

    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        if position_ids is None:
            position_ids = self.position_ids[:, : input_ids.shape[1]]
        inputs_embeds = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = inputs_embeds + token_type_embeddings
        position_embeddings = self.position_embeddings(position_ids)
        embeddings += position_embeddings
        embeddings = self.normed(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings

    def normed(self, embeddings):
        return embeddings


class MegatronBertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden_states, attention_mask=None):
        hidden_shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query_layer = self.query(hidden_states)
        query_layer = query_layer.view(hidden_shape).transpose(1, 2)
        key_layer = self.key(hidden_states)
        key_layer = key_layer.view(hidden_shape).transpose(1, 2)
        value_layer = self.value(hidden_states)
        value_layer = value_layer.view(hidden_shape).transpose(1, 2)
        return self.attend(hidden_states, query_layer, key_layer, value_layer, attention_mask)

    def attend(self, hidden_states, query_layer, key_layer, value_layer, attention_mask):
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.head_dim)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        context_layer = torch.matmul(attention_probs, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        context_layer = context_layer.view(*hidden_states.shape)
        return context_layer, attention_probs


class MegatronBertOutput(nn.Module):
    def __init__(self, config, width):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, residual):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.dropout(hidden_states)
        return residual + hidden_states


class MegatronBertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self = MegatronBertSelfAttention(config)
        self.output = MegatronBertOutput(config, config.hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        ln_outputs = self.ln(hidden_states)
        self_outputs = self.self(ln_outputs, attention_mask=attention_mask)
        attention_output = self.output(self_outputs[0], hidden_states)
        outputs = (attention_output,) + self_outputs[1:]
        return outputs


class MegatronBertLayer(BertLayer):
    attention_class, output_class = MegatronBertAttention, MegatronBertOutput

    def __init__(self, config):
        super().__init__(config)
        self.ln = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None):
        self_attention_outputs = self.attention(hidden_states, attention_mask=attention_mask)
        attention_output = self_attention_outputs[0]
        outputs = self_attention_outputs[1:]
        layer_output = self.feed_forward_chunk(attention_output)
        return (layer_output,) + outputs

    def feed_forward_chunk(self, attention_output):
        ln_output = self.ln(attention_output)
        intermediate_output = self.intermediate(ln_output)
        layer_output = self.output(intermediate_output, attention_output)
        return layer_output


class MegatronBertEncoder(BertEncoder):
    layer_class = MegatronBertLayer

    def __init__(self, config):
        super().__init__(config)
        self.ln = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None):
        for layer_module in self.layer:
            layer_outputs = layer_module(hidden_states, attention_mask)
            hidden_states = layer_outputs[0]
        hidden_states = self.ln(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states)


class OfMegatron:
    config_class, _no_split_modules, _supports_sdpa, _supports_flash_attn = MegatronBertConfig, None, False, False


class MegatronBertModel(OfMegatron, BertModel):
    embedded, encoded = MegatronBertEmbeddings, MegatronBertEncoder

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, **kwargs):
        input_shape = input_ids.size()
        device = input_ids.device
        if attention_mask is None:
            attention_mask = torch.ones(input_shape, device=device)
        if token_type_ids is None:
            token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=device)
        embedding_output = self.embeddings(input_ids=input_ids, position_ids=position_ids, token_type_ids=token_type_ids)
        attention_mask = create_bidirectional_mask(config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask)
        sequence_output = encoder_outputs[0]
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)


OfMegatron.body = MegatronBertModel


class MegatronBertForMaskedLM(OfMegatron, BertForMaskedLM):
    pass


class MegatronBertForPreTraining(OfMegatron, BertForPreTraining):
    pass


class MegatronBertForSequenceClassification(OfMegatron, BertForSequenceClassification):
    pass


class MegatronBertForTokenClassification(OfMegatron, BertForTokenClassification):
    pass


class MegatronBertForQuestionAnswering(OfMegatron, BertForQuestionAnswering):
    pass


OfMegatron.heads = {
    "masked_lm": MegatronBertForMaskedLM, "pretraining": MegatronBertForPreTraining, "classification": MegatronBertForSequenceClassification,
    "token_classification": MegatronBertForTokenClassification, "question_answering": MegatronBertForQuestionAnswering, "embedding": MegatronBertModel,
}
causal_lm = MegatronBertForMaskedLM
