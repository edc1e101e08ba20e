"""distilbert: bert without kinds of tokens and without a pooler."""
import torch
from torch import nn

from transformers.activations import get_activation
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_decoder import capture_outputs, merge_with_config_defaults
from transformers.modeling_distilled_encoder import DistilBertSelfAttention, Embeddings, Transformer
from transformers.modeling_heads import MaskedHead, QuestionHead, SequenceHead, TokenHead
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import PreTrainedModel


class DistilBertConfig(PreTrainedConfig):
    model_type = "distilbert"
    attribute_map = {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}
    vocab_size: int = 30522
    max_position_embeddings: int = 512
    n_layers: int = 6
    n_heads: int = 12
    dim: int = 768
    hidden_dim: int = 4 * 768
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    qa_dropout: float = 0.1
    seq_classif_dropout: float = 0.2
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True


class DistilBertPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = DistilBertConfig, "distilbert", ["TransformerBlock"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = position_table = encoder = True

    def get_input_embeddings(self):
        return self.base_model.embeddings.word_embeddings


class DistilBertModel(DistilBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.transformer = Transformer(config)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **kwargs):
        embeddings = self.embeddings(input_ids, position_ids)
        attention_mask = create_bidirectional_mask(config=self.config, inputs_embeds=embeddings, attention_mask=attention_mask)
        return self.transformer(hidden_states=embeddings, attention_mask=attention_mask, **kwargs)


class DistilBertForMaskedLM(MaskedHead, DistilBertPreTrainedModel):
    _tied_weights_keys = {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.activation = get_activation(config.activation)
        self.distilbert = DistilBertModel(config)
        self.vocab_transform = nn.Linear(config.dim, config.dim)
        self.vocab_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        self.vocab_projector = nn.Linear(config.dim, config.vocab_size)

    def get_output_embeddings(self):
        return self.vocab_projector

    def predict(self, hidden_states):
        prediction_logits = self.vocab_transform(hidden_states)
        prediction_logits = self.activation(prediction_logits)
        prediction_logits = self.vocab_layer_norm(prediction_logits)
        return self.vocab_projector(prediction_logits)


class DistilBertForSequenceClassification(SequenceHead, DistilBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.distilbert = DistilBertModel(config)
        self.pre_classifier = nn.Linear(config.dim, config.dim)
        self.classifier = nn.Linear(config.dim, config.num_labels)
        self.dropout = nn.Dropout(config.seq_classif_dropout)

    def classify(self, outputs):
        pooled_output = outputs[0][:, 0]
        pooled_output = self.pre_classifier(pooled_output)
        pooled_output = nn.functional.relu(pooled_output)
        pooled_output = self.dropout(pooled_output)
        return self.classifier(pooled_output)


class DistilBertForQuestionAnswering(QuestionHead, DistilBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.distilbert = DistilBertModel(config)
        self.qa_outputs = nn.Linear(config.dim, config.num_labels)
        self.dropout = nn.Dropout(config.qa_dropout)

    def before_outputs(self, hidden_states):
        return self.dropout(hidden_states)


class DistilBertForTokenClassification(TokenHead, DistilBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.distilbert = DistilBertModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.dim, config.num_labels)


DistilBertPreTrainedModel.heads = {
    "masked_lm": DistilBertForMaskedLM, "classification": DistilBertForSequenceClassification, "token_classification": DistilBertForTokenClassification,
    "question_answering": DistilBertForQuestionAnswering, "embedding": DistilBertModel,
}
causal_lm = DistilBertForMaskedLM
