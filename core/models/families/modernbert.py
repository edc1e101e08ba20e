"""modernbert: an encoder that rotates queries and keys, norms ahead of each part, a gated feed-forward, a window in two of three layers."""
import torch
from torch import nn
from torch.nn import CrossEntropyLoss

from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_bidirectional_mask, create_bidirectional_sliding_window_mask
from transformers.loss.loss_utils import fixed_cross_entropy
from transformers.modeling_decoder import capture_outputs, merge_with_config_defaults
from transformers.modeling_heads import HeadOutput, MaskedHead, labelled_loss
from transformers.modeling_modern_encoder import ModernBertBody, ModernBertPredictionHead
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.releases import refuse
from transformers.utils.generic import can_return_tuple


class ModernBertConfig(PreTrainedConfig):
    model_type = "modernbert"
    vocab_size: int = 50368
    hidden_size: int = 768
    intermediate_size: int = 1152
    num_hidden_layers: int = 22
    num_attention_heads: int = 12
    hidden_activation: str = "gelu"
    max_position_embeddings: int = 8192
    norm_eps: float = 1e-5
    norm_bias: bool = False
    pad_token_id: int | None = 50283
    attention_bias: bool = False
    attention_dropout: float = 0.0
    layer_types: list | None = None
    rope_parameters: dict | None = None
    local_attention: int = 128
    embedding_dropout: float = 0.0
    mlp_bias: bool = False
    mlp_dropout: float = 0.0
    decoder_bias: bool = True
    classifier_pooling: str = "cls"
    classifier_dropout: float = 0.0
    classifier_bias: bool = False
    classifier_activation: str = "gelu"
    sparse_prediction: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            every = kwargs.get("global_attn_every_n_layers", 3)
            self.layer_types = ["sliding_attention" if i % every else "full_attention" for i in range(self.num_hidden_layers)]
        if self.sparse_prediction:
            refuse("/config/sparse_prediction", "how many tokens are masked is not known")
        self.sliding_window = self.local_attention // 2
        super().__post_init__(**kwargs)

    def _rope(self, others):
        self.rope_by_kind(others, others.pop("global_rope_theta", 160000.0), others.pop("local_rope_theta", 10000.0))


class ModernBertPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, encoder = ModernBertConfig, "model", True
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = _supports_attention_backend = True
    _no_split_modules = ["ModernBertEmbeddings", "ModernBertEncoderLayer"]


class ModernBertModel(ModernBertBody, ModernBertPreTrainedModel):
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        hidden_states = self.embeddings(input_ids)
        of = {"config": self.config, "inputs_embeds": hidden_states, "attention_mask": attention_mask}
        masks = {"full_attention": create_bidirectional_mask(**of), "sliding_attention": create_bidirectional_sliding_window_mask(**of)}
        tables = {kind: self.rotary_emb(hidden_states, position_ids, kind) for kind in sorted(set(self.config.layer_types))}
        for layer, kind in zip(self.layers, self.config.layer_types):
            hidden_states = layer(hidden_states, attention_mask=masks[kind], position_embeddings=tables[kind], **kwargs)
        hidden_states = self.final_norm(hidden_states)
        return BaseModelOutput(last_hidden_state=hidden_states)


class ModernBertForMaskedLM(MaskedHead, ModernBertPreTrainedModel):
    _tied_weights_keys = {"decoder.weight": "model.embeddings.tok_embeddings.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = ModernBertModel(config)
        self.head = ModernBertPredictionHead(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=config.decoder_bias)
        self.post_init()

    def get_output_embeddings(self):
        return self.decoder

    def masked_loss(self, logits, labels, num_items_in_batch=None, **kwargs):
        logits = logits.float()
        return fixed_cross_entropy(logits.view(-1, self.config.vocab_size), labels.view(-1), num_items_in_batch)

    def predict(self, sequence_output):
        return self.decoder(self.head(sequence_output))


class OfLabels(ModernBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = ModernBertModel(config)
        self.head = ModernBertPredictionHead(config)
        self.drop = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class ModernBertForSequenceClassification(OfLabels):
    def pooled(self, hidden_states, attention_mask):
        if self.config.classifier_pooling == "cls":
            return hidden_states[:, 0]
        if attention_mask is None:
            attention_mask = torch.ones(hidden_states.shape[:2], device=hidden_states.device, dtype=torch.bool)
        return (hidden_states * attention_mask.unsqueeze(-1)).sum(dim=1) / attention_mask.sum(dim=1, keepdim=True)

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        last_hidden_state = self.pooled(outputs[0], attention_mask)
        pooled_output = self.head(last_hidden_state)
        pooled_output = self.drop(pooled_output)
        logits = self.classifier(pooled_output)
        loss = None
        if labels is not None:
            loss = labelled_loss(self.config, logits, labels)
        return HeadOutput(loss=loss, logits=logits)


class ModernBertForTokenClassification(OfLabels):
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        last_hidden_state = self.head(outputs[0])
        last_hidden_state = self.drop(last_hidden_state)
        logits = self.classifier(last_hidden_state)
        loss = None
        if labels is not None:
            loss = CrossEntropyLoss()(logits.view(-1, self.config.num_labels), labels.view(-1))
        return HeadOutput(loss=loss, logits=logits)


class ModernBertForQuestionAnswering(OfLabels):
    @staticmethod
    def answers_loss(start_logits, end_logits, start_positions, end_positions):
        length = start_logits.size(1)
        start_positions = start_positions.clamp(0, length)
        end_positions = end_positions.clamp(0, length)
        start_loss = fixed_cross_entropy(start_logits, start_positions, ignore_index=length)
        end_loss = fixed_cross_entropy(end_logits, end_positions, ignore_index=length)
        return (start_loss + end_loss) / 2

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, start_positions=None, end_positions=None, **kwargs):
        outputs = self.model(input_ids, attention_mask=attention_mask, **kwargs)
        last_hidden_state = self.head(outputs[0])
        last_hidden_state = self.drop(last_hidden_state)
        logits = self.classifier(last_hidden_state)
        start_logits, end_logits = logits.split(1, dim=-1)
        start_logits = start_logits.squeeze(-1).contiguous()
        end_logits = end_logits.squeeze(-1).contiguous()
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.answers_loss(start_logits, end_logits, start_positions, end_positions)
        return HeadOutput(loss=loss, logits=start_logits, end_logits=end_logits)


ModernBertPreTrainedModel.heads = {"masked_lm": ModernBertForMaskedLM, "classification": ModernBertForSequenceClassification,
                                   "token_classification": ModernBertForTokenClassification, "question_answering": ModernBertForQuestionAnswering,
                                   "embedding": ModernBertModel}
causal_lm = ModernBertForMaskedLM
