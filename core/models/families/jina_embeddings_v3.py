"""jina_embeddings_v3: roberta that rotates queries and keys in the place of positions; heads are made before the encoder."""
from transformers.modeling_rotated_encoder import RotatedConfig, RotatedModel
from transformers.models.camembert.modeling_camembert import HeadFirst
from transformers.models.roberta.modeling_roberta import (
    RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification,
)


class JinaEmbeddingsV3Config(RotatedConfig):
    model_type, default_theta = "jina_embeddings_v3", 20000.0
    vocab_size: int = 250002
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    max_position_embeddings: int = 8194
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = 1


class OfJina:
    config_class, base_model_prefix, _no_split_modules, takes_token_types = JinaEmbeddingsV3Config, "roberta", ["RotatedEmbeddings", "RotatedLayer"], False


class JinaEmbeddingsV3Model(OfJina, RotatedModel):
    pass


OfJina.body = JinaEmbeddingsV3Model


class JinaEmbeddingsV3ForMaskedLM(OfJina, HeadFirst, RobertaForMaskedLM):
    pass


class JinaEmbeddingsV3ForSequenceClassification(OfJina, HeadFirst, RobertaForSequenceClassification):
    pass


class JinaEmbeddingsV3ForTokenClassification(OfJina, HeadFirst, RobertaForTokenClassification):
    pass


class JinaEmbeddingsV3ForQuestionAnswering(OfJina, HeadFirst, RobertaForQuestionAnswering):
    pass


OfJina.heads = {
    "masked_lm": JinaEmbeddingsV3ForMaskedLM, "classification": JinaEmbeddingsV3ForSequenceClassification,
    "token_classification": JinaEmbeddingsV3ForTokenClassification, "question_answering": JinaEmbeddingsV3ForQuestionAnswering,
    "embedding": JinaEmbeddingsV3Model,
}
causal_lm = JinaEmbeddingsV3ForMaskedLM
