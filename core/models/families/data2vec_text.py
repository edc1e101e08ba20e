"""data2vec-text: roberta, class by class."""
from transformers.models.roberta.modeling_roberta import (
    RobertaConfig, RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel,
)


class Data2VecTextConfig(RobertaConfig):
    model_type = "data2vec-text"
    vocab_size: int = 30522


class OfData2Vec:
    config_class, base_model_prefix = Data2VecTextConfig, "data2vec_text"


class Data2VecTextModel(OfData2Vec, RobertaModel):
    pass


OfData2Vec.body = Data2VecTextModel


class Data2VecTextForMaskedLM(OfData2Vec, RobertaForMaskedLM):
    _tied_weights_keys = {"lm_head.decoder.weight": "data2vec_text.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}


class Data2VecTextForSequenceClassification(OfData2Vec, RobertaForSequenceClassification):
    pass


class Data2VecTextForTokenClassification(OfData2Vec, RobertaForTokenClassification):
    pass


class Data2VecTextForQuestionAnswering(OfData2Vec, RobertaForQuestionAnswering):
    pass


OfData2Vec.heads = {
    "masked_lm": Data2VecTextForMaskedLM, "classification": Data2VecTextForSequenceClassification, "token_classification": Data2VecTextForTokenClassification,
    "question_answering": Data2VecTextForQuestionAnswering, "embedding": Data2VecTextModel,
}
causal_lm = Data2VecTextForMaskedLM
