"""eurobert: llama's layers as an encoder."""
import torch
from torch import nn
from torch.nn import CrossEntropyLoss

from transformers.loss.loss_utils import fixed_cross_entropy
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_decoder import capture_outputs, merge_with_config_defaults
from transformers.modeling_heads import HeadOutput, can_return_tuple, labelled_loss
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.modeling_utils import PreTrainedModel
from transformers.releases import refuse


class EuroBertConfig(LlamaConfig):
    model_type = "eurobert"
    vocab_size: int = 128256
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    max_position_embeddings: int = 8192
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 128001
    classifier_pooling: str = "late"

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.hidden_size % self.num_attention_heads:
            refuse("/config/hidden_size", "EuroBertConfig wants a multiple of num_attention_heads")


class EuroBertAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.is_causal = False


class EuroBertDecoderLayer(LlamaDecoderLayer):
    attention = EuroBertAttention


class EuroBertPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, encoder, _no_split_modules = EuroBertConfig, "model", True, ["EuroBertDecoderLayer"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = _supports_attention_backend = True


class EuroBertModel(EuroBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([EuroBertDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **kwargs):
        inputs_embeds = self.embed_tokens(input_ids)
        if position_ids is None:
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)
        bidirectional_mask = create_bidirectional_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask)
        hidden_states = inputs_embeds
        position_embeddings = self.rotary_emb(hidden_states, position_ids=position_ids)
        for encoder_layer in self.layers:
            hidden_states = encoder_layer(
                hidden_states, attention_mask=bidirectional_mask, position_embeddings=position_embeddings, position_ids=position_ids, **kwargs)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutput(last_hidden_state=hidden_states)


def masked_loss(logits, labels, vocab_size, num_items_in_batch=None, **kwargs):
    logits = logits.float()
    return fixed_cross_entropy(logits.view(-1, vocab_size), labels.view(-1), num_items_in_batch)


class EuroBertForMaskedLM(EuroBertPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = EuroBertModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, config.mlp_bias)
        self.post_init()

    def get_output_embeddings(self):
        return self.lm_head

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = masked_loss(logits, labels, self.config.vocab_size, **kwargs)
        return HeadOutput(loss=loss, logits=logits)


class EuroBertForSequenceClassification(EuroBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = EuroBertModel(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.GELU()
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        encoder_output = self.model(input_ids, attention_mask=attention_mask, **kwargs)
        last_hidden_state = encoder_output[0]
        if self.config.classifier_pooling in ["bos", "mean"]:
            if self.config.classifier_pooling == "bos":
                pooled_output = last_hidden_state[:, 0]
            elif attention_mask is None:
                pooled_output = last_hidden_state.mean(dim=1)
            else:
                pooled_output = (last_hidden_state * attention_mask.unsqueeze(-1)).sum(dim=1)
                pooled_output /= attention_mask.sum(dim=1, keepdim=True)
            pooled_output = self.dense(pooled_output)
            pooled_output = self.activation(pooled_output)
            logits = self.classifier(pooled_output)
        else:
            x = self.dense(last_hidden_state)
            x = self.activation(x)
            logits = self.classifier(x)
            if attention_mask is None:
                logits = logits.mean(dim=1)
            else:
                logits = (logits * attention_mask.unsqueeze(-1)).sum(dim=1)
                logits /= attention_mask.sum(dim=1, keepdim=True)
        loss = None
        if labels is not None:
            loss = labelled_loss(self.config, logits, labels)
        return HeadOutput(loss=loss, logits=logits)


class EuroBertForTokenClassification(EuroBertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = EuroBertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.model(input_ids, attention_mask=attention_mask, **kwargs)
        sequence_output = outputs[0]
        logits = self.classifier(sequence_output)
        loss = None
        if labels is not None:
            loss = CrossEntropyLoss()(logits.view(-1, self.config.num_labels), labels.view(-1))
        return HeadOutput(loss=loss, logits=logits)


EuroBertPreTrainedModel.heads = {"masked_lm": EuroBertForMaskedLM, "classification": EuroBertForSequenceClassification,
                                 "token_classification": EuroBertForTokenClassification, "embedding": EuroBertModel}
causal_lm = EuroBertForMaskedLM
