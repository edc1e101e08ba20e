"""ernie: bert, class by class; kinds of tasks where the config has them."""
import torch
from torch import nn

from transformers.modeling_encoder import BertConfig, BertEmbeddings, BertModel
from transformers.models.bert.modeling_bert import (
    BertForMaskedLM, BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification,
)


class ErnieConfig(BertConfig):
    model_type = "ernie"
    task_type_vocab_size: int = 3
    use_task_id: bool = False


class ErnieEmbeddings(BertEmbeddings):
    def __init__(self, config):
        super().__init__(config)
        if config.use_task_id:
            self.task_type_embeddings = nn.Embedding(config.task_type_vocab_size, config.hidden_size)

    def normed(self, embeddings):
        if hasattr(self, "task_type_embeddings"):
            task_type_ids = torch.zeros(embeddings.shape[:2], dtype=torch.long, device=self.position_ids.device)
            embeddings += self.task_type_embeddings(task_type_ids)
        return self.LayerNorm(embeddings)


class OfErnie:
    config_class, base_model_prefix, _no_split_modules = ErnieConfig, "ernie", ["BertLayer"]


class ErnieModel(OfErnie, BertModel):
    embedded = ErnieEmbeddings


OfErnie.body = ErnieModel


class ErnieForMaskedLM(OfErnie, BertForMaskedLM):
    _tied_weights_keys = {"cls.predictions.decoder.weight": "ernie.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias": "cls.predictions.bias"}


class ErnieForPreTraining(OfErnie, BertForPreTraining):
    _tied_weights_keys = ErnieForMaskedLM._tied_weights_keys


class ErnieForSequenceClassification(OfErnie, BertForSequenceClassification):
    pass


class ErnieForTokenClassification(OfErnie, BertForTokenClassification):
    pass


class ErnieForQuestionAnswering(OfErnie, BertForQuestionAnswering):
    pass


OfErnie.heads = {
    "masked_lm": ErnieForMaskedLM, "pretraining": ErnieForPreTraining, "classification": ErnieForSequenceClassification,
    "token_classification": ErnieForTokenClassification, "question_answering": ErnieForQuestionAnswering, "embedding": ErnieModel,
}
causal_lm = ErnieForMaskedLM
