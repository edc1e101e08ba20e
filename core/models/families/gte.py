"""gte: nomic_bert with biases, and a dropout within its gated feed-forward."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_rotated_encoder import RotatedConfig, RotatedLayer, RotatedModel
from transformers.models.bert.modeling_bert import BertForSequenceClassification, BertForTokenClassification
from transformers.models.roberta.modeling_roberta import LMHeadWithoutBias, RobertaForMaskedLM


class GteConfig(RotatedConfig):
    model_type, default_theta = "gte", 160000.0
    vocab_size: int = 250048
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    type_vocab_size: int = 1
    pad_token_id: int | None = 1


class GteEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size) if config.type_vocab_size else None
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids=None):
        embeddings = self.word_embeddings(input_ids)
        if self.token_type_embeddings is not None:
            if token_type_ids is None:
                token_type_ids = torch.zeros(embeddings.shape[:-1], dtype=torch.long, device=embeddings.device)
            embeddings = embeddings + self.token_type_embeddings(token_type_ids)
        embeddings = self.LayerNorm(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings


class GteMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=True)
        self.act_fn = ACT2FN[config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x):
        hidden_states = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
        hidden_states = self.dropout(hidden_states)
        down_proj = self.down_proj(hidden_states)
        return down_proj


class GteLayer(RotatedLayer):
    feed_forward = GteMLP


class OfGte:
    config_class, base_model_prefix, _no_split_modules, takes_token_types = GteConfig, "gte", ["GteEmbeddings", "GteLayer"], False


class GteModel(OfGte, RotatedModel):
    embedded, layer_class = GteEmbeddings, GteLayer

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config, add_pooling_layer)


OfGte.body = GteModel


class GteForMaskedLM(OfGte, RobertaForMaskedLM):
    _tied_weights_keys = {"lm_head.decoder.weight": "gte.embeddings.word_embeddings.weight"}
    head_class = LMHeadWithoutBias


class GteForSequenceClassification(OfGte, BertForSequenceClassification):
    def put_encoder(self, config):
        self.gte = self.body(config, add_pooling_layer=True)


class GteForTokenClassification(OfGte, BertForTokenClassification):
    pass


OfGte.heads = {
    "masked_lm": GteForMaskedLM, "classification": GteForSequenceClassification, "token_classification": GteForTokenClassification, "embedding": GteModel,
}
causal_lm = GteForMaskedLM
