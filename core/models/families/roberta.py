"""roberta: bert whose positions follow the tokens that are not padding; heads without the pooler."""
import torch
from torch import nn

from transformers.activations import get_activation
from transformers.modeling_encoder import BertConfig, BertEmbeddings, BertModel, BertPreTrainedModel
from transformers.modeling_heads import MaskedHead, QuestionHead, SequenceHead, TokenHead


class RobertaConfig(BertConfig):
    model_type = "roberta"
    vocab_size: int = 50265
    pad_token_id: int | None = 1


class RobertaEmbeddings(BertEmbeddings):
    def __init__(self, config):
        super().__init__(config)
        self.padding_idx = config.pad_token_id
        self.order()

    def order(self):
        positions = self.position_embeddings  # made last
        del self.position_embeddings
        self.position_embeddings = positions

    def positions(self, input_ids):
        mask = input_ids.ne(self.padding_idx).int()
        incremental_indices = (torch.cumsum(mask, dim=1).type_as(mask) + 0) * mask
        return incremental_indices.long() + self.padding_idx


class RobertaPreTrainedModel(BertPreTrainedModel):
    config_class, base_model_prefix, takes_token_types = RobertaConfig, "roberta", False


class RobertaModel(BertModel, RobertaPreTrainedModel):
    embedded = RobertaEmbeddings


RobertaPreTrainedModel.body = RobertaModel


class LMHeadWithoutBias(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, features):
        x = self.dense(features)
        x = nn.functional.gelu(x)
        x = self.layer_norm(x)
        x = self.decoder(x)
        return x


class RobertaLMHead(LMHeadWithoutBias):
    def __init__(self, config):
        super().__init__(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))


class RobertaClassificationHead(nn.Module):
    activation = "tanh"

    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout_of_head())
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)
        self.act = get_activation(self.activation)

    def forward(self, features):
        x = features[:, 0, :]
        x = self.dropout(x)
        x = self.dense(x)
        x = self.act(x)
        x = self.dropout(x)
        x = self.out_proj(x)
        return x


class RobertaForMaskedLM(MaskedHead, RobertaPreTrainedModel):
    _tied_weights_keys = {"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}
    head_class = RobertaLMHead

    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.lm_head = self.head_class(config)

    def get_output_embeddings(self):
        return self.lm_head.decoder

    def predict(self, sequence_output):
        return self.lm_head(sequence_output)


class RobertaForSequenceClassification(SequenceHead, RobertaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.classifier = RobertaClassificationHead(config)

    def classify(self, outputs):
        return self.classifier(outputs[0])


class RobertaForTokenClassification(TokenHead, RobertaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.dropout_of_head())
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)


class RobertaForQuestionAnswering(QuestionHead, RobertaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, config.num_labels)


RobertaPreTrainedModel.heads = {
    "masked_lm": RobertaForMaskedLM, "classification": RobertaForSequenceClassification, "token_classification": RobertaForTokenClassification,
    "question_answering": RobertaForQuestionAnswering, "embedding": RobertaModel,
}
causal_lm = RobertaForMaskedLM
