"""roformer: bert whose queries and keys are rotated by a table of sines that is no parameter to train; its own scores, over the root."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_encoder import BertConfig, BertEncoder, BertModel, BertPreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bert.modeling_bert import BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification
from transformers.models.megatron_bert.modeling_megatron_bert import MegatronBertSelfAttention
from transformers.models.rembert.modeling_rembert import RemBertAttention, RemBertLayer


class RoFormerConfig(BertConfig):
    model_type = "roformer"
    vocab_size: int = 50000
    embedding_size: int | None = None
    max_position_embeddings: int = 1536
    rotary_value: bool = False

    def __post_init__(self, **kwargs):
        self.embedding_size = self.embedding_size or self.hidden_size
        super().__post_init__(**kwargs)


class RoFormerSinusoidalPositionalEmbedding(nn.Module):
    def __init__(self, num_positions, embedding_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_positions, embedding_dim), requires_grad=False)

    @torch.no_grad()
    def forward(self, input_ids_shape):
        position_ids = torch.arange(0, input_ids_shape[1], dtype=torch.long, device=self.weight.device)
        return nn.functional.embedding(position_ids, self.weight)


class RoFormerEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.embedding_size)
        self.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids):
        inputs_embeds = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = inputs_embeds + token_type_embeddings
        embeddings = self.LayerNorm(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings


def rotated(sinusoidal_pos, query_layer, key_layer, value_layer=None):
    sin, cos = sinusoidal_pos.chunk(2, dim=-1)
    sin_pos = torch.stack([sin, sin], dim=-1).reshape_as(sinusoidal_pos)
    cos_pos = torch.stack([cos, cos], dim=-1).reshape_as(sinusoidal_pos)
    rotate_half_query_layer = torch.stack([-query_layer[..., 1::2], query_layer[..., ::2]], dim=-1).reshape_as(query_layer)
    query_layer = query_layer * cos_pos + rotate_half_query_layer * sin_pos
    rotate_half_key_layer = torch.stack([-key_layer[..., 1::2], key_layer[..., ::2]], dim=-1).reshape_as(key_layer)
    key_layer = key_layer * cos_pos + rotate_half_key_layer * sin_pos
    if value_layer is not None:
        rotate_half_value_layer = torch.stack([-value_layer[..., 1::2], value_layer[..., ::2]], dim=-1).reshape_as(value_layer)
        value_layer = value_layer * cos_pos + rotate_half_value_layer * sin_pos
        return query_layer, key_layer, value_layer
    return query_layer, key_layer


class RoFormerSelfAttention(MegatronBertSelfAttention):
    def __init__(self, config):
        super().__init__(config)
        self.rotary_value = config.rotary_value

    def forward(self, hidden_states, attention_mask=None, sinusoidal_pos=None):
        hidden_shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query_layer = self.query(hidden_states).view(hidden_shape).transpose(1, 2)
        key_layer = self.key(hidden_states).view(hidden_shape).transpose(1, 2)
        value_layer = self.value(hidden_states).view(hidden_shape).transpose(1, 2)
        if self.rotary_value:
            query_layer, key_layer, value_layer = rotated(sinusoidal_pos, query_layer, key_layer, value_layer)
        else:
            query_layer, key_layer = rotated(sinusoidal_pos, query_layer, key_layer)
        return self.attend(hidden_states, query_layer, key_layer, value_layer, attention_mask)


class RoFormerAttention(RemBertAttention):
    self_class = RoFormerSelfAttention

    def forward(self, hidden_states, attention_mask=None, sinusoidal_pos=None):
        self_outputs = self.self(hidden_states, attention_mask=attention_mask, sinusoidal_pos=sinusoidal_pos)
        attention_output = self.output(self_outputs[0], hidden_states)
        outputs = (attention_output,) + self_outputs[1:]
        return outputs


class RoFormerLayer(RemBertLayer):
    attention_class = RoFormerAttention

    def forward(self, hidden_states, attention_mask=None, sinusoidal_pos=None):
        self_attention_outputs = self.attention(hidden_states, attention_mask=attention_mask, sinusoidal_pos=sinusoidal_pos)
        attention_output = self_attention_outputs[0]
        outputs = self_attention_outputs[1:]
        layer_output = self.feed_forward_chunk(attention_output)
        return (layer_output,) + outputs


class RoFormerEncoder(BertEncoder):
    layer_class = RoFormerLayer

    def narrow(self, config):
        self.embed_positions = RoFormerSinusoidalPositionalEmbedding(config.max_position_embeddings, config.hidden_size // config.num_attention_heads)

    def forward(self, hidden_states, attention_mask=None):
        sinusoidal_pos = self.embed_positions(hidden_states.shape[:-1])[None, None, :, :]
        for layer_module in self.layer:
            layer_outputs = layer_module(hidden_states, attention_mask, sinusoidal_pos)
            hidden_states = layer_outputs[0]
        return BaseModelOutput(last_hidden_state=hidden_states)


class OfRoFormer:
    config_class, base_model_prefix, _no_split_modules, _supports_sdpa, _supports_flash_attn = RoFormerConfig, "roformer", None, False, False


class RoFormerModel(OfRoFormer, BertModel):
    def __init__(self, config, add_pooling_layer=False):
        BertPreTrainedModel.__init__(self, config)
        self.embeddings = RoFormerEmbeddings(config)
        if config.embedding_size != config.hidden_size:
            self.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size)
        self.encoder = RoFormerEncoder(config)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **kwargs):
        input_shape, device = input_ids.size(), input_ids.device
        if attention_mask is None:
            attention_mask = torch.ones(input_shape, device=device)
        if token_type_ids is None:
            token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=device)
        embedding_output = self.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        if hasattr(self, "embeddings_project"):
            embedding_output = self.embeddings_project(embedding_output)
        attention_mask = create_bidirectional_mask(config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask)
        sequence_output = encoder_outputs[0]
        return BaseModelOutput(last_hidden_state=sequence_output)


OfRoFormer.body = RoFormerModel


class RoFormerClassificationHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, features):
        x = features[:, 0, :]
        x = self.dropout(x)
        x = self.dense(x)
        x = self.activation(x)
        x = self.dropout(x)
        x = self.out_proj(x)
        return x


class RoFormerForMaskedLM(OfRoFormer, BertForMaskedLM):
    _tied_weights_keys = {"cls.predictions.decoder.weight": "roformer.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias": "cls.predictions.bias"}

    def __init__(self, config):
        super().__init__(config)
        width, head = config.embedding_size, self.cls.predictions
        if width != config.hidden_size:
            head.transform.dense = nn.Linear(config.hidden_size, width)
            head.transform.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
            head.decoder = nn.Linear(width, config.vocab_size, bias=True)


class RoFormerForSequenceClassification(OfRoFormer, BertForSequenceClassification):
    def __init__(self, config):
        BertPreTrainedModel.__init__(self, config)
        self.put_encoder(config)
        self.classifier = RoFormerClassificationHead(config)

    def classify(self, outputs):
        return self.classifier(outputs[0])


class RoFormerForTokenClassification(OfRoFormer, BertForTokenClassification):
    pass


class RoFormerForQuestionAnswering(OfRoFormer, BertForQuestionAnswering):
    def __init__(self, config):
        config.num_labels = 2
        super().__init__(config)


OfRoFormer.heads = {
    "masked_lm": RoFormerForMaskedLM, "classification": RoFormerForSequenceClassification, "token_classification": RoFormerForTokenClassification,
    "question_answering": RoFormerForQuestionAnswering, "embedding": RoFormerModel,
}
causal_lm = RoFormerForMaskedLM
