"""xlm-roberta: roberta, class by class."""
from transformers.models.roberta.modeling_roberta import (
    RobertaConfig, RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel,
)


class XLMRobertaConfig(RobertaConfig):
    model_type = "xlm-roberta"
    vocab_size: int = 30522


class XLMRobertaModel(RobertaModel):
    config_class = XLMRobertaConfig


class XLMRobertaForMaskedLM(RobertaForMaskedLM):
    config_class = XLMRobertaConfig


class XLMRobertaForSequenceClassification(RobertaForSequenceClassification):
    config_class = XLMRobertaConfig


class XLMRobertaForTokenClassification(RobertaForTokenClassification):
    config_class = XLMRobertaConfig


class XLMRobertaForQuestionAnswering(RobertaForQuestionAnswering):
    config_class = XLMRobertaConfig


heads = {
    "masked_lm": XLMRobertaForMaskedLM, "classification": XLMRobertaForSequenceClassification, "token_classification": XLMRobertaForTokenClassification,
    "question_answering": XLMRobertaForQuestionAnswering, "embedding": XLMRobertaModel,
}
for head in heads.values():
    head.heads = heads
causal_lm = XLMRobertaForMaskedLM
