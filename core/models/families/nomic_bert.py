"""nomic_bert: bert that rotates queries and keys in the place of positions, with a gated feed-forward and few biases."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_rotated_encoder import RotatedAttention, RotatedConfig, RotatedLayer, RotatedModel
from transformers.models.bert.modeling_bert import BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification
from transformers.models.llama.modeling_llama import LlamaMLP


class NomicBertConfig(RotatedConfig):
    model_type, default_theta = "nomic_bert", 1000.0
    vocab_size: int = 30528
    hidden_act: str = "silu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 2048


class NomicBertAttention(RotatedAttention):
    bias = False


class NomicBertLayer(RotatedLayer):
    attention, feed_forward = NomicBertAttention, LlamaMLP


class OfNomic:
    config_class, base_model_prefix, _no_split_modules = NomicBertConfig, "nomic_bert", ["RotatedEmbeddings", "NomicBertLayer"]


class NomicBertModel(OfNomic, RotatedModel):
    layer_class, tells_places = NomicBertLayer, True

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config, add_pooling_layer)


OfNomic.body = NomicBertModel


class NomicBertPredictionHeadTransform(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = ACT2FN[config.hidden_act]
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.transform_act_fn(hidden_states)
        hidden_states = self.layer_norm(hidden_states)
        return hidden_states


class NomicBertForMaskedLM(OfNomic, BertForMaskedLM):
    _tied_weights_keys = {"cls.predictions.decoder.weight": "nomic_bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias": "cls.predictions.bias"}

    def __init__(self, config):
        super().__init__(config)
        self.cls.predictions.transform = NomicBertPredictionHeadTransform(config)


class NomicBertForSequenceClassification(OfNomic, BertForSequenceClassification):
    def put_encoder(self, config):
        self.nomic_bert = self.body(config, add_pooling_layer=True)


class NomicBertForTokenClassification(OfNomic, BertForTokenClassification):
    pass


OfNomic.heads = {
    "masked_lm": NomicBertForMaskedLM, "classification": NomicBertForSequenceClassification, "token_classification": NomicBertForTokenClassification,
    "embedding": NomicBertModel,
}
causal_lm = NomicBertForMaskedLM
