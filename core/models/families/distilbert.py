"""distilbert: bert without kinds of tokens and without a pooler."""
import torch
from torch import nn

from transformers.activations import get_activation
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_decoder import attend, capture_outputs, merge_with_config_defaults
from transformers.modeling_encoder import eager_attention_forward
from transformers.modeling_heads import MaskedHead, QuestionHead, SequenceHead, TokenHead
from transformers.modeling_layers import GradientCheckpointingLayer
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


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.dim, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.dim)
        self.LayerNorm = nn.LayerNorm(config.dim, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)

    def forward(self, input_ids, position_ids=None):
        inputs_embeds = self.word_embeddings(input_ids)
        if position_ids is None:
            position_ids = self.position_ids[:, : inputs_embeds.size(1)]
        position_embeddings = self.position_embeddings(position_ids)
        embeddings = inputs_embeds + position_embeddings
        embeddings = self.LayerNorm(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings


class DistilBertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.is_causal = config, False
        self.head_dim = config.dim // config.n_heads
        self.scaling = self.head_dim**-0.5
        self.q_lin = nn.Linear(config.dim, config.dim)
        self.k_lin = nn.Linear(config.dim, config.dim)
        self.v_lin = nn.Linear(config.dim, config.dim)
        self.out_lin = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(p=config.attention_dropout)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_lin(hidden_states).view(*shape).transpose(1, 2)
        key = self.k_lin(hidden_states).view(*shape).transpose(1, 2)
        value = self.v_lin(hidden_states).view(*shape).transpose(1, 2)
        output, weights = attend(self, query, key, value, attention_mask, eager_attention_forward, scaling=self.scaling,
                                 dropout=self.dropout.p if self.training else 0.0, **kwargs)
        output = output.reshape(*hidden_states.shape[:-1], -1).contiguous()
        output = self.out_lin(output)
        return output, weights


class FFN(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(p=config.dropout)
        self.lin1 = nn.Linear(config.dim, config.hidden_dim)
        self.lin2 = nn.Linear(config.hidden_dim, config.dim)
        self.activation = get_activation(config.activation)

    def forward(self, input):
        x = self.lin1(input)
        x = self.activation(x)
        x = self.lin2(x)
        x = self.dropout(x)
        return x


class TransformerBlock(GradientCheckpointingLayer):
    def __init__(self, config):
        super().__init__()
        self.attention = DistilBertSelfAttention(config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        self.ffn = FFN(config)
        self.output_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        attention_output, _ = self.attention(hidden_states, attention_mask=attention_mask, **kwargs)
        attention_output = self.sa_layer_norm(attention_output + hidden_states)
        ffn_output = self.ffn(attention_output)
        ffn_output = self.output_layer_norm(ffn_output + attention_output)
        return ffn_output


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList([TransformerBlock(config) for _ in range(config.n_layers)])

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


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
