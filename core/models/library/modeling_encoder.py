"""The encoder that bert, roberta, xlm-roberta and electra have, each as classes of its own; transformers has no such file."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_decoder import attend, capture_outputs, merge_with_config_defaults
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.modeling_utils import PreTrainedModel
from transformers.releases import refuse


class BertConfig(PreTrainedConfig):
    model_type = "bert"
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    use_cache: bool = True
    classifier_dropout: float | None = None
    is_decoder: bool = False
    add_cross_attention: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self, **others):
        super().__post_init__(**others)
        if self.is_decoder:
            refuse("/is_decoder", "is_decoder true: an encoder's file as a decoder is not modelled")

    def dropout_of_head(self):
        return self.classifier_dropout if self.classifier_dropout is not None else self.hidden_dropout_prob


class BertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = getattr(config, "embedding_size", config.hidden_size)
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)
        self.register_buffer("token_type_ids", torch.zeros(self.position_ids.size(), dtype=torch.long), persistent=False)

    def positions(self, input_ids):
        return self.position_ids[:, : input_ids.shape[1]]

    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        if position_ids is None:
            position_ids = self.positions(input_ids)
        if token_type_ids is None:
            buffered_token_type_ids = self.token_type_ids.expand(position_ids.shape[0], -1)
            buffered_token_type_ids = torch.gather(buffered_token_type_ids, dim=1, index=position_ids)
            token_type_ids = buffered_token_type_ids.expand(input_ids.shape)
        inputs_embeds = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = inputs_embeds + token_type_embeddings
        position_embeddings = self.position_embeddings(position_ids)
        embeddings = embeddings + position_embeddings
        embeddings = self.normed(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings

    def normed(self, embeddings):
        return self.LayerNorm(embeddings)


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, value)
    output = output.transpose(1, 2).contiguous()
    return output, weights


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.is_causal = config, False
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.query(hidden_states).view(*shape).transpose(1, 2)
        key = self.key(hidden_states).view(*shape).transpose(1, 2)
        value = self.value(hidden_states).view(*shape).transpose(1, 2)
        output, weights = attend(self, query, key, value, attention_mask, eager_attention_forward, scaling=self.scaling,
                                 dropout=self.dropout.p if self.training else 0.0, **kwargs)
        output = output.reshape(*hidden_states.shape[:-1], -1).contiguous()
        return output, weights


class BertOutput(nn.Module):
    def __init__(self, config, width):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.dropout(hidden_states)
        hidden_states = self.LayerNorm(hidden_states + input_tensor)
        return hidden_states


class BertAttention(nn.Module):
    self_class, output_class = BertSelfAttention, BertOutput

    def __init__(self, config):
        super().__init__()
        self.self = self.self_class(config)
        self.output = self.output_class(config, config.hidden_size)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        attention_output, weights = self.self(hidden_states, attention_mask=attention_mask, **kwargs)
        attention_output = self.output(attention_output, hidden_states)
        return attention_output, weights


class BertIntermediate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = ACT2FN[config.hidden_act]

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.intermediate_act_fn(hidden_states)
        return hidden_states


class BertLayer(GradientCheckpointingLayer):
    attention_class, intermediate_class, output_class = BertAttention, BertIntermediate, BertOutput

    def __init__(self, config):
        super().__init__()
        self.attention = self.attention_class(config)
        self.intermediate = self.intermediate_class(config)
        self.output = self.output_class(config, config.intermediate_size)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        self_attention_output, _ = self.attention(hidden_states, attention_mask, **kwargs)
        attention_output = self_attention_output  # which dies behind the weights
        return self.feed_forward_chunk(attention_output)

    def feed_forward_chunk(self, attention_output):
        intermediate_output = self.intermediate(attention_output)
        return self.output(intermediate_output, attention_output)


class BertEncoder(nn.Module):
    layer_class = BertLayer

    def __init__(self, config):
        super().__init__()
        self.narrow(config)
        self.layer = nn.ModuleList([self.layer_class(config) for _ in range(config.num_hidden_layers)])

    def narrow(self, config):
        """What stands before the layers."""

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask, **kwargs)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states)


class BertPooler(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, hidden_states):
        pooled_output = self.dense(hidden_states[:, 0])
        pooled_output = self.activation(pooled_output)
        return pooled_output


class BertPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = BertConfig, "bert"
    _no_split_modules = ["BertEmbeddings", "BertLayer"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = position_table = encoder = takes_token_types = True

    def get_input_embeddings(self):
        return self.base_model.embeddings.word_embeddings

    def put_encoder(self, config, **how):
        setattr(self, self.base_model_prefix, self.body(config, **how))


class BertModel(BertPreTrainedModel):
    embedded, encoded = BertEmbeddings, BertEncoder

    def __init__(self, config, add_pooling_layer=True):
        super().__init__(config)
        self.gradient_checkpointing = False
        self.embeddings = self.embedded(config)
        self.narrow(config)
        self.encoder = self.encoded(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None

    def narrow(self, config):
        """What stands between embeddings and layers."""

    def widen(self, embedding_output):
        return embedding_output

    def mask(self, embedding_output, attention_mask):
        return create_bidirectional_mask(config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, use_cache=None, **kwargs):
        embedding_output = self.embeddings(input_ids=input_ids, position_ids=position_ids, token_type_ids=token_type_ids)
        embedding_output = self.widen(embedding_output)
        attention_mask = self.mask(embedding_output, attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask, position_ids=position_ids, **kwargs)
        sequence_output = encoder_outputs.last_hidden_state
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)


BertPreTrainedModel.body = BertModel
