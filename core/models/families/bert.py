"""bert: an encoder that adds and then norms, with the heads that its file has."""
import torch
from torch import nn
from torch.nn import CrossEntropyLoss

from transformers.activations import ACT2FN
from transformers.modeling_encoder import *
from transformers.modeling_encoder import BertConfig, BertModel, BertPreTrainedModel
from transformers.modeling_heads import HeadOutput, MaskedHead, QuestionHead, SequenceHead, TokenHead, can_return_tuple


class BertPredictionHeadTransform(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = ACT2FN[config.hidden_act]
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        hidden_states = self.transform_act_fn(hidden_states)
        hidden_states = self.LayerNorm(hidden_states)
        return hidden_states


class BertLMPredictionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=True)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states):
        hidden_states = self.transform(hidden_states)
        return self.decoder(hidden_states)


class BertOnlyMLMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)

    def forward(self, sequence_output):
        return self.predictions(sequence_output)


class BertPreTrainingHeads(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, sequence_output, pooled_output):
        return self.predictions(sequence_output), self.seq_relationship(pooled_output)


class BertForMaskedLM(MaskedHead, BertPreTrainedModel):
    _tied_weights_keys = {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
                          "cls.predictions.decoder.bias": "cls.predictions.bias"}
    head_class = BertOnlyMLMHead

    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.cls = self.head_class(config)

    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    def predict(self, sequence_output):
        return self.cls(sequence_output)


class BertForPreTraining(BertPreTrainedModel):
    _tied_weights_keys = BertForMaskedLM._tied_weights_keys

    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config)
        self.cls = BertPreTrainingHeads(config)

    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, next_sentence_label=None, **kwargs):
        outputs = self.base_model(input_ids, attention_mask=attention_mask, **kwargs)
        sequence_output, pooled_output = outputs[:2]
        prediction_scores, seq_relationship_score = self.cls(sequence_output, pooled_output)
        total_loss = None
        if labels is not None and next_sentence_label is not None:
            masked_lm_loss = CrossEntropyLoss()(prediction_scores.view(-1, self.config.vocab_size), labels.view(-1))
            next_sentence_loss = CrossEntropyLoss()(seq_relationship_score.view(-1, 2), next_sentence_label.view(-1))
            total_loss = masked_lm_loss + next_sentence_loss
        return HeadOutput(loss=total_loss, logits=prediction_scores, end_logits=seq_relationship_score)


class BertForSequenceClassification(SequenceHead, BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config)
        self.dropout = nn.Dropout(config.dropout_of_head())
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def classify(self, outputs):
        pooled_output = self.dropout(outputs[1])
        return self.classifier(pooled_output)


class BertForTokenClassification(TokenHead, BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.dropout_of_head())
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)


class BertForQuestionAnswering(QuestionHead, BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.put_encoder(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, config.num_labels)


BertPreTrainedModel.heads = {
    "masked_lm": BertForMaskedLM, "pretraining": BertForPreTraining, "classification": BertForSequenceClassification,
    "token_classification": BertForTokenClassification, "question_answering": BertForQuestionAnswering, "embedding": BertModel,
}
causal_lm = BertForMaskedLM
