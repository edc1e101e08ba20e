"""deberta-v2: an encoder whose scores add what contents and distances say of each other."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_disentangled import ContextPooler, DebertaV2Embeddings, DebertaV2Encoder
from transformers.modeling_heads import HeadOutput, MaskedHead, QuestionHead, TokenHead, can_return_tuple, labelled_loss
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.models.bert.modeling_bert import BertOnlyMLMHead
from transformers.releases import refuse


class DebertaV2Config(PreTrainedConfig):
    model_type = "deberta-v2"
    vocab_size: int = 128100
    hidden_size: int = 1536
    num_hidden_layers: int = 24
    num_attention_heads: int = 24
    intermediate_size: int = 6144
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-7
    relative_attention: bool = False
    max_relative_positions: int = -1
    position_buckets: int = -1
    norm_rel_ebd: str = "none"
    share_att_key: bool = False
    attention_head_size: int | None = None
    embedding_size: int | None = None
    conv_kernel_size: int = 0
    conv_groups: int = 1
    pad_token_id: int | None = 0
    position_biased_input: bool = True
    pos_att_type: str | list[str] | None = None
    pooler_dropout: float = 0.0
    pooler_hidden_act: str = "gelu"
    pooler_hidden_size: int | None = None
    cls_dropout: float | None = None
    legacy: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if isinstance(self.pos_att_type, str):
            self.pos_att_type = [x.strip() for x in self.pos_att_type.lower().split("|")]
        self.pos_att_type = self.pos_att_type or []
        self.embedding_size = self.embedding_size or self.hidden_size
        self.attention_head_size = self.attention_head_size or self.hidden_size // self.num_attention_heads
        self.pooler_hidden_size = self.pooler_hidden_size or self.hidden_size
        if self.max_relative_positions < 1:
            self.max_relative_positions = self.max_position_embeddings
        self.span = self.position_buckets if self.position_buckets > 0 else self.max_relative_positions
        super().__post_init__(**kwargs)


class DebertaV2PreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = DebertaV2Config, "deberta"
    supports_gradient_checkpointing = position_table = encoder = takes_token_types = True

    def get_input_embeddings(self):
        return self.base_model.embeddings.word_embeddings


class DebertaV2Model(DebertaV2PreTrainedModel):
    embedded, encoded = DebertaV2Embeddings, DebertaV2Encoder

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = self.embedded(config)
        self.encoder = self.encoded(config)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **kwargs):
        if attention_mask is None:
            attention_mask = torch.ones(input_ids.size(), device=input_ids.device)
        if token_type_ids is None:
            token_type_ids = torch.zeros(input_ids.size(), dtype=torch.long, device=input_ids.device)
        embedding_output = self.embeddings(input_ids, token_type_ids, attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask)
        encoded_layers = encoder_outputs[1]
        return BaseModelOutput(last_hidden_state=encoded_layers[-1])


DebertaV2PreTrainedModel.body = DebertaV2Model


class DebertaV2ForMaskedLM(MaskedHead, DebertaV2PreTrainedModel):
    _tied_weights_keys = {"cls.predictions.decoder.weight": "deberta.embeddings.word_embeddings.weight",
                          "cls.predictions.decoder.bias": "cls.predictions.bias"}

    def __init__(self, config):
        super().__init__(config)
        if not config.legacy:
            refuse("/config/legacy", "legacy false: another head of masked tokens is not modelled yet")
        self.deberta = self.body(config)
        self.cls = BertOnlyMLMHead(config)

    def get_output_embeddings(self):
        return self.cls.predictions.decoder

    def predict(self, sequence_output):
        return self.cls(sequence_output)


class DebertaV2ForSequenceClassification(DebertaV2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.deberta = self.body(config)
        self.pooler = ContextPooler(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.dropout = nn.Dropout(config.hidden_dropout_prob if config.cls_dropout is None else config.cls_dropout)

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.deberta(input_ids, attention_mask=attention_mask, **kwargs)
        encoder_layer = outputs[0]
        pooled_output = self.pooler(encoder_layer)
        pooled_output = self.dropout(pooled_output)
        logits = self.classifier(pooled_output)
        loss = None
        if labels is not None:
            if self.config.problem_type is not None:
                loss = labelled_loss(self.config, logits, labels)
            elif self.config.num_labels == 1:
                logits = logits.view(-1).to(labels.dtype)
                loss = nn.MSELoss()(logits, labels.view(-1))
            else:
                loss = self.labelled(logits, labels)
        return HeadOutput(loss=loss, logits=logits)

    def labelled(self, logits, labels):
        """Rows that have a label are picked where the config does not say what kind of labels these are."""
        label_index = torch._nonzero(labels >= 0, labels.size(0))
        labels = labels.long()
        labeled_logits = torch.gather(logits, 0, label_index.expand(label_index.size(0), logits.size(1)))
        labels = torch.gather(labels, 0, label_index.view(-1))
        return nn.CrossEntropyLoss()(labeled_logits.view(-1, self.config.num_labels).float(), labels.view(-1))


class DebertaV2ForTokenClassification(TokenHead, DebertaV2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.deberta = self.body(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)


class DebertaV2ForQuestionAnswering(QuestionHead, DebertaV2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.deberta = self.body(config)
        self.qa_outputs = nn.Linear(config.hidden_size, config.num_labels)


DebertaV2PreTrainedModel.heads = {
    "masked_lm": DebertaV2ForMaskedLM, "classification": DebertaV2ForSequenceClassification,
    "token_classification": DebertaV2ForTokenClassification, "question_answering": DebertaV2ForQuestionAnswering, "embedding": DebertaV2Model,
}
causal_lm = DebertaV2ForMaskedLM
