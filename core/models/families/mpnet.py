"""mpnet: roberta without kinds of tokens, whose scores add a bias of distances that all layers share; its own scores, over the root."""
import math

import torch
from torch import nn

from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_encoder import BertConfig, BertIntermediate, BertModel, BertOutput
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling
from transformers.models.roberta.modeling_roberta import (
    RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification, RobertaForTokenClassification,
)


class MPNetConfig(BertConfig):
    model_type = "mpnet"
    vocab_size: int = 30527
    relative_attention_num_buckets: int = 32
    pad_token_id: int | None = 1
    classifier_dropout: None = None


class MPNetEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.padding_idx = 1
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=self.padding_idx)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size, padding_idx=self.padding_idx)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)

    def positions(self, input_ids):
        mask = input_ids.ne(self.padding_idx).int()
        incremental_indices = torch.cumsum(mask, dim=1).type_as(mask) * mask
        return incremental_indices.long() + self.padding_idx

    def forward(self, input_ids, position_ids=None):
        if position_ids is None:
            position_ids = self.positions(input_ids)
        inputs_embeds = self.word_embeddings(input_ids)
        position_embeddings = self.position_embeddings(position_ids)
        embeddings = inputs_embeds + position_embeddings
        embeddings = self.LayerNorm(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings


class MPNetSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.q = nn.Linear(config.hidden_size, config.hidden_size)
        self.k = nn.Linear(config.hidden_size, config.hidden_size)
        self.v = nn.Linear(config.hidden_size, config.hidden_size)
        self.o = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, position_bias=None):
        hidden_shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q(hidden_states).view(hidden_shape).transpose(1, 2)
        k = self.k(hidden_states).view(hidden_shape).transpose(1, 2)
        v = self.v(hidden_states).view(hidden_shape).transpose(1, 2)
        attention_scores = torch.matmul(q, k.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.head_dim)
        attention_scores += position_bias
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        c = torch.matmul(attention_probs, v)
        c = c.permute(0, 2, 1, 3).contiguous()
        c = c.view(*hidden_states.shape)
        o = self.o(c)
        return (o,)


class MPNetAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = MPNetSelfAttention(config)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, position_bias=None):
        self_outputs = self.attn(hidden_states, attention_mask, position_bias)
        attention_output = self.LayerNorm(self.dropout(self_outputs[0]) + hidden_states)
        outputs = (attention_output,) + self_outputs[1:]
        return outputs


class MPNetLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = MPNetAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config, config.intermediate_size)

    def forward(self, hidden_states, attention_mask=None, position_bias=None):
        self_attention_outputs = self.attention(hidden_states, attention_mask, position_bias=position_bias)
        attention_output = self_attention_outputs[0]
        outputs = self_attention_outputs[1:]
        intermediate_output = self.intermediate(attention_output)
        layer_output = self.output(intermediate_output, attention_output)
        outputs = (layer_output,) + outputs
        return outputs


class MPNetEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList([MPNetLayer(config) for _ in range(config.num_hidden_layers)])
        self.relative_attention_bias = nn.Embedding(config.relative_attention_num_buckets, config.num_attention_heads)

    def forward(self, hidden_states, attention_mask=None):
        position_bias = self.compute_position_bias(hidden_states)
        for layer_module in self.layer:
            layer_outputs = layer_module(hidden_states, attention_mask, position_bias)
            hidden_states = layer_outputs[0]
        return BaseModelOutput(last_hidden_state=hidden_states)

    def compute_position_bias(self, x, num_buckets=32):
        bsz, qlen, klen = x.size(0), x.size(1), x.size(1)
        context_position = torch.arange(qlen, dtype=torch.long, device=x.device)[:, None]
        memory_position = torch.arange(klen, dtype=torch.long, device=x.device)[None, :]
        relative_position = memory_position - context_position
        rp_bucket = relative_position_bucket(relative_position, num_buckets)
        values = self.relative_attention_bias(rp_bucket)
        values = values.permute([2, 0, 1]).unsqueeze(0)
        values = values.expand((bsz, -1, qlen, klen)).contiguous()
        return values


def relative_position_bucket(relative_position, num_buckets, max_distance=128):
    ret = 0
    n = -relative_position
    num_buckets //= 2
    ret += (n < 0).to(torch.long) * num_buckets
    n = torch.abs(n)
    max_exact = num_buckets // 2
    is_small = n < max_exact
    val_if_large = max_exact + (torch.log(n.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)).to(torch.long)
    val_if_large = torch.min(val_if_large, torch.full_like(val_if_large, num_buckets - 1))
    ret += torch.where(is_small, n, val_if_large)
    return ret


class OfMPNet:
    config_class, base_model_prefix, _no_split_modules, takes_token_types = MPNetConfig, "mpnet", None, False
    _supports_sdpa = _supports_flash_attn = supports_gradient_checkpointing = False


class MPNetModel(OfMPNet, BertModel):
    embedded, encoded = MPNetEmbeddings, MPNetEncoder

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **kwargs):
        embedding_output = self.embeddings(input_ids=input_ids, position_ids=position_ids)
        attention_mask = create_bidirectional_mask(config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask)
        sequence_output = encoder_outputs[0]
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)


OfMPNet.body = MPNetModel


class MPNetForMaskedLM(OfMPNet, RobertaForMaskedLM):
    _tied_weights_keys = {"lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}


class MPNetForSequenceClassification(OfMPNet, RobertaForSequenceClassification):
    pass


class MPNetForTokenClassification(OfMPNet, RobertaForTokenClassification):
    pass


class MPNetForQuestionAnswering(OfMPNet, RobertaForQuestionAnswering):
    pass


OfMPNet.heads = {
    "masked_lm": MPNetForMaskedLM, "classification": MPNetForSequenceClassification, "token_classification": MPNetForTokenClassification,
    "question_answering": MPNetForQuestionAnswering, "embedding": MPNetModel,
}
causal_lm = MPNetForMaskedLM
