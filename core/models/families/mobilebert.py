"""mobilebert: bert with narrow layers between bottlenecks, norms that only scale and shift, several feed-forwards a layer."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import attend
from transformers.modeling_encoder import BertConfig, BertEncoder, BertIntermediate, BertModel, eager_attention_forward
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.bert.modeling_bert import (
    BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification, BertPredictionHeadTransform,
)


class MobileBertConfig(BertConfig):
    model_type = "mobilebert"
    hidden_size: int = 512
    num_hidden_layers: int = 24
    num_attention_heads: int = 4
    intermediate_size: int = 512
    hidden_act: str = "relu"
    hidden_dropout_prob: float = 0.0
    embedding_size: int = 128
    trigram_input: bool = True
    use_bottleneck: bool = True
    intra_bottleneck_size: int = 128
    use_bottleneck_attention: bool = False
    key_query_shared_bottleneck: bool = True
    num_feedforward_networks: int = 4
    normalization_type: str = "no_norm"
    classifier_activation: bool = True

    def __post_init__(self, **kwargs):
        self.true_hidden_size = self.intra_bottleneck_size if self.use_bottleneck else self.hidden_size
        super().__post_init__(**kwargs)


class NoNorm(nn.Module):
    def __init__(self, feat_size):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(feat_size))
        self.weight = nn.Parameter(torch.ones(feat_size))

    def forward(self, input_tensor):
        return input_tensor * self.weight + self.bias


def norm_of(config, width):
    return nn.LayerNorm(width, eps=config.layer_norm_eps) if config.normalization_type == "layer_norm" else NoNorm(width)


class MobileBertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.trigram_input, self.widens = config.trigram_input, config.trigram_input or config.embedding_size != config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.embedding_transformation = nn.Linear(config.embedding_size * (3 if self.trigram_input else 1), config.hidden_size)
        self.LayerNorm = norm_of(config, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)

    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        if position_ids is None:
            position_ids = self.position_ids[:, : input_ids.shape[1]]
        if token_type_ids is None:
            token_type_ids = torch.zeros(input_ids.size(), dtype=torch.long, device=self.position_ids.device)
        inputs_embeds = self.word_embeddings(input_ids)
        if self.trigram_input:
            inputs_embeds = torch.cat([
                nn.functional.pad(inputs_embeds[:, 1:], [0, 0, 0, 1, 0, 0], value=0.0), inputs_embeds,
                nn.functional.pad(inputs_embeds[:, :-1], [0, 0, 1, 0, 0, 0], value=0.0)], dim=2)
        if self.widens:
            inputs_embeds = self.embedding_transformation(inputs_embeds)
        position_embeddings = self.position_embeddings(position_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = inputs_embeds + position_embeddings + token_type_embeddings
        embeddings = self.LayerNorm(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings


class MobileBertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.is_causal, width = config, False, config.true_hidden_size
        self.head_dim = width // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width if config.use_bottleneck_attention else config.hidden_size, width)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, query_tensor, key_tensor, value_tensor, attention_mask=None, **kwargs):
        shape = (*query_tensor.shape[:-1], -1, self.head_dim)
        query = self.query(query_tensor).view(*shape).transpose(1, 2)
        key = self.key(key_tensor).view(*shape).transpose(1, 2)
        value = self.value(value_tensor).view(*shape).transpose(1, 2)
        output, weights = attend(self, query, key, value, attention_mask, eager_attention_forward, scaling=self.scaling,
                                 dropout=self.dropout.p if self.training else 0.0, **kwargs)
        output = output.reshape(*query_tensor.shape[:-1], -1).contiguous()
        return output, weights


class MobileBertSelfOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.true_hidden_size, config.true_hidden_size)
        self.LayerNorm = norm_of(config, config.true_hidden_size)
        self.dropout = None if config.use_bottleneck else nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, residual_tensor):
        layer_outputs = self.dense(hidden_states)
        if self.dropout is not None:
            layer_outputs = self.dropout(layer_outputs)
        layer_outputs = self.LayerNorm(layer_outputs + residual_tensor)
        return layer_outputs


class MobileBertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self = MobileBertSelfAttention(config)
        self.output = MobileBertSelfOutput(config)

    def forward(self, query_tensor, key_tensor, value_tensor, layer_input, attention_mask=None, **kwargs):
        attention_output, weights = self.self(query_tensor, key_tensor, value_tensor, attention_mask, **kwargs)
        attention_output = self.output(attention_output, layer_input)
        return attention_output, weights


class MobileBertIntermediate(BertIntermediate):
    def __init__(self, config):
        nn.Module.__init__(self)
        self.dense = nn.Linear(config.true_hidden_size, config.intermediate_size)
        self.intermediate_act_fn = ACT2FN[config.hidden_act]


class OutputBottleneck(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.true_hidden_size, config.hidden_size)
        self.LayerNorm = norm_of(config, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, residual_tensor):
        layer_outputs = self.dense(hidden_states)
        layer_outputs = self.dropout(layer_outputs)
        layer_outputs = self.LayerNorm(layer_outputs + residual_tensor)
        return layer_outputs


class MobileBertOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.use_bottleneck = config.use_bottleneck
        self.dense = nn.Linear(config.intermediate_size, config.true_hidden_size)
        self.LayerNorm = norm_of(config, config.true_hidden_size)
        if self.use_bottleneck:
            self.bottleneck = OutputBottleneck(config)
        else:
            self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, intermediate_states, residual_tensor_1, residual_tensor_2):
        layer_output = self.dense(intermediate_states)
        if not self.use_bottleneck:
            layer_output = self.dropout(layer_output)
            layer_output = self.LayerNorm(layer_output + residual_tensor_1)
        else:
            layer_output = self.LayerNorm(layer_output + residual_tensor_1)
            layer_output = self.bottleneck(layer_output, residual_tensor_2)
        return layer_output


class BottleneckLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intra_bottleneck_size)
        self.LayerNorm = norm_of(config, config.intra_bottleneck_size)

    def forward(self, hidden_states):
        layer_input = self.dense(hidden_states)
        layer_input = self.LayerNorm(layer_input)
        return layer_input


class Bottleneck(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.shared, self.all = config.key_query_shared_bottleneck, config.use_bottleneck_attention
        self.input = BottleneckLayer(config)
        if self.shared:
            self.attention = BottleneckLayer(config)

    def forward(self, hidden_states):
        bottlenecked_hidden_states = self.input(hidden_states)
        if self.all:
            return (bottlenecked_hidden_states,) * 4
        if self.shared:
            shared_attention_input = self.attention(hidden_states)
            return shared_attention_input, shared_attention_input, hidden_states, bottlenecked_hidden_states
        return hidden_states, hidden_states, hidden_states, bottlenecked_hidden_states


class FFNOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.intermediate_size, config.true_hidden_size)
        self.LayerNorm = norm_of(config, config.true_hidden_size)

    def forward(self, hidden_states, residual_tensor):
        layer_outputs = self.dense(hidden_states)
        layer_outputs = self.LayerNorm(layer_outputs + residual_tensor)
        return layer_outputs


class FFNLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.intermediate = MobileBertIntermediate(config)
        self.output = FFNOutput(config)

    def forward(self, hidden_states):
        intermediate_output = self.intermediate(hidden_states)
        layer_outputs = self.output(intermediate_output, hidden_states)
        return layer_outputs


class MobileBertLayer(GradientCheckpointingLayer):
    def __init__(self, config):
        super().__init__()
        self.feeds = config.num_feedforward_networks
        self.attention = MobileBertAttention(config)
        self.intermediate = MobileBertIntermediate(config)
        self.output = MobileBertOutput(config)
        self.bottleneck = Bottleneck(config) if config.use_bottleneck else None
        if self.feeds > 1:
            self.ffn = nn.ModuleList([FFNLayer(config) for _ in range(self.feeds - 1)])

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        if self.bottleneck is not None:
            query_tensor, key_tensor, value_tensor, layer_input = self.bottleneck(hidden_states)
        else:
            query_tensor, key_tensor, value_tensor, layer_input = [hidden_states] * 4
        self_attention_output, _ = self.attention(query_tensor, key_tensor, value_tensor, layer_input, attention_mask, **kwargs)
        attention_output = self_attention_output
        if self.feeds != 1:
            for ffn_module in self.ffn:
                attention_output = ffn_module(attention_output)
        intermediate_output = self.intermediate(attention_output)
        layer_output = self.output(intermediate_output, attention_output, hidden_states)
        return layer_output


class MobileBertEncoder(BertEncoder):
    layer_class = MobileBertLayer


class MobileBertPooler(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size) if config.classifier_activation else None

    def forward(self, hidden_states):
        first_token_tensor = hidden_states[:, 0]
        if self.dense is None:
            return first_token_tensor
        pooled_output = self.dense(first_token_tensor)
        pooled_output = torch.tanh(pooled_output)
        return pooled_output


class OfMobileBert:
    config_class, base_model_prefix, _no_split_modules = MobileBertConfig, "mobilebert", None


class MobileBertModel(OfMobileBert, BertModel):
    embedded, encoded = MobileBertEmbeddings, MobileBertEncoder

    def __init__(self, config, add_pooling_layer=True):
        super().__init__(config, add_pooling_layer=False)
        self.pooler = MobileBertPooler(config) if add_pooling_layer else None


OfMobileBert.body = MobileBertModel


class MobileBertLMPredictionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.dense = nn.Linear(config.vocab_size, config.hidden_size - config.embedding_size, bias=False)
        self.decoder = nn.Linear(config.embedding_size, config.vocab_size, bias=True)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states):
        hidden_states = self.transform(hidden_states)
        hidden_states = hidden_states.matmul(torch.cat([self.decoder.weight.t(), self.dense.weight], dim=0))
        hidden_states += self.decoder.bias
        return hidden_states


class MobileBertOnlyMLMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = MobileBertLMPredictionHead(config)

    def forward(self, sequence_output):
        prediction_scores = self.predictions(sequence_output)
        return prediction_scores


class MobileBertForMaskedLM(OfMobileBert, BertForMaskedLM):
    _tied_weights_keys = {"cls.predictions.decoder.weight": "mobilebert.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias": "cls.predictions.bias"}
    head_class = MobileBertOnlyMLMHead


class MobileBertForSequenceClassification(OfMobileBert, BertForSequenceClassification):
    pass


class MobileBertForTokenClassification(OfMobileBert, BertForTokenClassification):
    pass


class MobileBertForQuestionAnswering(OfMobileBert, BertForQuestionAnswering):
    pass


OfMobileBert.heads = {
    "masked_lm": MobileBertForMaskedLM, "classification": MobileBertForSequenceClassification, "token_classification": MobileBertForTokenClassification,
    "question_answering": MobileBertForQuestionAnswering, "embedding": MobileBertModel,
}
causal_lm = MobileBertForMaskedLM
