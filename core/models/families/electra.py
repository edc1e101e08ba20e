"""electra: bert with narrower embeddings, as a discriminator of tokens or their generator."""
from torch import nn

from transformers.activations import get_activation
from transformers.modeling_encoder import BertConfig, BertModel, BertPreTrainedModel
from transformers.modeling_heads import MaskedHead, QuestionHead, SequenceHead, TokenHead
from transformers.models.roberta.modeling_roberta import RobertaClassificationHead


class ElectraConfig(BertConfig):
    model_type = "electra"
    embedding_size: int = 128
    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024


class ElectraPreTrainedModel(BertPreTrainedModel):
    config_class, base_model_prefix = ElectraConfig, "electra"


class ElectraModel(BertModel, ElectraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config, add_pooling_layer=False)

    def narrow(self, config):
        if config.embedding_size != config.hidden_size:
            self.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size)

    def widen(self, embedding_output):
        return self.embeddings_project(embedding_output) if hasattr(self, "embeddings_project") else embedding_output


class ElectraGeneratorPredictions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.activation = get_activation("gelu")
        self.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.activation(hidden_states)
        hidden_states = self.LayerNorm(hidden_states)
        return hidden_states


class ElectraClassificationHead(RobertaClassificationHead):
    activation = "gelu"


class ElectraForMaskedLM(MaskedHead, ElectraPreTrainedModel):
    _tied_weights_keys = {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.electra = ElectraModel(config)
        self.generator_predictions = ElectraGeneratorPredictions(config)
        self.generator_lm_head = nn.Linear(config.embedding_size, config.vocab_size)

    def get_output_embeddings(self):
        return self.generator_lm_head

    def predict(self, sequence_output):
        prediction_scores = self.generator_predictions(sequence_output)
        return self.generator_lm_head(prediction_scores)


class ElectraForSequenceClassification(SequenceHead, ElectraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.electra = ElectraModel(config)
        self.classifier = ElectraClassificationHead(config)

    def classify(self, outputs):
        return self.classifier(outputs[0])


class ElectraForTokenClassification(TokenHead, ElectraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.electra = ElectraModel(config)
        self.dropout = nn.Dropout(config.dropout_of_head())
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)


class ElectraForQuestionAnswering(QuestionHead, ElectraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.electra = ElectraModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, config.num_labels)


ElectraPreTrainedModel.heads = {
    "masked_lm": ElectraForMaskedLM, "classification": ElectraForSequenceClassification, "token_classification": ElectraForTokenClassification,
    "question_answering": ElectraForQuestionAnswering, "embedding": ElectraModel,
}
causal_lm = ElectraForMaskedLM
