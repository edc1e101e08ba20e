"""camembert: roberta, class by class; heads are made before the encoder."""
from transformers.models.roberta.modeling_roberta import (
    RobertaConfig, RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel,
)


class CamembertConfig(RobertaConfig):
    model_type = "camembert"
    vocab_size: int = 30522


class HeadFirst:
    config_class = CamembertConfig

    def __init__(self, config):
        super().__init__(config)
        self.order()

    def order(self):
        roberta = self.roberta
        del self.roberta
        self.roberta = roberta


class CamembertModel(RobertaModel):
    config_class = CamembertConfig


class CamembertForMaskedLM(HeadFirst, RobertaForMaskedLM):
    pass


class CamembertForSequenceClassification(HeadFirst, RobertaForSequenceClassification):
    pass


class CamembertForTokenClassification(HeadFirst, RobertaForTokenClassification):
    pass


class CamembertForQuestionAnswering(HeadFirst, RobertaForQuestionAnswering):
    pass


heads = {
    "masked_lm": CamembertForMaskedLM, "classification": CamembertForSequenceClassification, "token_classification": CamembertForTokenClassification,
    "question_answering": CamembertForQuestionAnswering, "embedding": CamembertModel,
}
for head in heads.values():
    head.heads = heads
causal_lm = CamembertForMaskedLM
