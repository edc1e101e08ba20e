"""deberta: deberta-v2's ancestor, whose queries, keys and values are one product and whose norms are written out."""
import torch
from torch import nn

from transformers.modeling_disentangled import DebertaV2Attention, DebertaV2Embeddings, DebertaV2Encoder, DebertaV2Layer, scaled_size_sqrt
from transformers.modeling_encoder import BertOutput
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.deberta_v2.modeling_deberta_v2 import (
    DebertaV2Config, DebertaV2ForMaskedLM, DebertaV2ForQuestionAnswering, DebertaV2ForSequenceClassification, DebertaV2ForTokenClassification, DebertaV2Model,
)
from transformers.releases import refuse


class DebertaConfig(DebertaV2Config):
    model_type = "deberta"
    vocab_size: int = 50265
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.span = self.max_relative_positions
        self.conv_kernel_size, self.norm_rel_ebd = 0, "none"
        if kwargs.get("talking_head"):
            refuse("/config/talking_head", "talking_head true: heads that talk are not modelled yet")


class DebertaLayerNorm(nn.Module):
    def __init__(self, size, eps=1e-12):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_type = hidden_states.dtype
        hidden_states = hidden_states.float()
        mean = hidden_states.mean(-1, keepdim=True)
        variance = (hidden_states - mean).pow(2).mean(-1, keepdim=True)
        hidden_states = (hidden_states - mean) / torch.sqrt(variance + self.variance_epsilon)
        hidden_states = hidden_states.to(input_type)
        y = self.weight * hidden_states + self.bias
        return y


class DebertaOutput(BertOutput):
    def __init__(self, config, width):
        super().__init__(config, width)
        self.LayerNorm = DebertaLayerNorm(config.hidden_size, config.layer_norm_eps)


def build_relative_position(query_layer, key_layer):
    query_size = query_layer.size(-2)
    key_size = key_layer.size(-2)
    q_ids = torch.arange(query_size, dtype=torch.long, device=query_layer.device)
    k_ids = torch.arange(key_size, dtype=torch.long, device=key_layer.device)
    rel_pos_ids = q_ids[:, None] - k_ids.view(1, -1).repeat(query_size, 1)
    rel_pos_ids = rel_pos_ids[:query_size, :]
    rel_pos_ids = rel_pos_ids.unsqueeze(0)
    return rel_pos_ids


class DebertaSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kinds, self.relative, self.span = config.num_attention_heads, config.pos_att_type, config.relative_attention, config.span
        width = config.hidden_size
        self.in_proj = nn.Linear(width, width * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(width))
        self.v_bias = nn.Parameter(torch.zeros(width))
        if self.relative:
            self.pos_dropout = nn.Dropout(config.hidden_dropout_prob)
            if "c2p" in self.kinds:
                self.pos_proj = nn.Linear(width, width, bias=False)
            if "p2c" in self.kinds:
                self.pos_q_proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def by_head(self, x):
        x = x.view(x.size()[:-1] + (self.heads, -1))
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask, relative_pos=None, rel_embeddings=None):
        qp = self.in_proj(hidden_states)
        query, key, value = self.by_head(qp).chunk(3, dim=-1)
        query = query + self.by_head(self.q_bias[None, None, :])
        value = value + self.by_head(self.v_bias[None, None, :])
        rel_att = 0
        factor = 1 + len(self.kinds)
        scale = scaled_size_sqrt(query, factor)
        query = query / scale.to(dtype=query.dtype)
        scores = torch.matmul(query, key.transpose(-1, -2))
        if self.relative:
            rel_embeddings = self.pos_dropout(rel_embeddings)
            rel_att = self.bias_of_distance(query, key, relative_pos, rel_embeddings, factor)
        scores = scores + rel_att
        attention_mask = attention_mask.bool()
        if scores.dtype != query.dtype:
            refuse("/training/precision", "deberta's masked_fill() of half scores with the least number of fp32 raises under autocast: modeling_deberta.py")
        scores = scores.masked_fill(~attention_mask, torch.finfo(query.dtype).min)
        probs = nn.functional.softmax(scores, dim=-1)
        probs = self.dropout(probs)
        context = torch.matmul(probs, value)
        context = context.permute(0, 2, 1, 3).contiguous()
        context = context.view(context.size()[:-2] + (-1,))
        return context, None

    def bias_of_distance(self, query, key, relative_pos, rel_embeddings, factor):
        relative_pos = relative_pos.unsqueeze(1)
        att_span = min(max(query.size(-2), key.size(-2)), self.span)
        relative_pos = relative_pos.long()
        rel_embeddings = rel_embeddings[self.span - att_span : self.span + att_span, :].unsqueeze(0)
        score = 0
        if "c2p" in self.kinds:
            pos_key = self.pos_proj(rel_embeddings)
            pos_key = self.by_head(pos_key)
            c2p_att = torch.matmul(query, pos_key.transpose(-1, -2))
            c2p_pos = torch.clamp(relative_pos + att_span, 0, att_span * 2 - 1)
            c2p_att = torch.gather(c2p_att, dim=-1, index=c2p_pos.expand([query.size(0), query.size(1), query.size(2), relative_pos.size(-1)]))
            score += c2p_att
        if "p2c" in self.kinds:
            pos_query = self.pos_q_proj(rel_embeddings)
            pos_query = self.by_head(pos_query)
            pos_query /= scaled_size_sqrt(pos_query, factor)
            p2c_pos = torch.clamp(-relative_pos + att_span, 0, att_span * 2 - 1)
            p2c_att = torch.matmul(key, pos_query.transpose(-1, -2).to(dtype=key.dtype))
            p2c_att = torch.gather(p2c_att, dim=-1, index=p2c_pos.expand([query.size(0), query.size(1), key.size(-2), key.size(-2)])).transpose(-1, -2)
            score += p2c_att
        return score


class DebertaAttention(DebertaV2Attention):
    self_class, output_class = DebertaSelfAttention, DebertaOutput


class DebertaLayer(DebertaV2Layer):
    attention_class, output_class = DebertaAttention, DebertaOutput


class DebertaEmbeddings(DebertaV2Embeddings):
    def __init__(self, config):
        super().__init__(config)
        self.LayerNorm = DebertaLayerNorm(config.hidden_size, config.layer_norm_eps)


class DebertaEncoder(DebertaV2Encoder):
    layer_class = DebertaLayer

    def forward(self, hidden_states, attention_mask):
        extended = attention_mask.unsqueeze(1).unsqueeze(2)
        attention_mask = extended * extended.squeeze(-2).unsqueeze(-1)
        relative_pos = rel_embeddings = None
        if self.config.relative_attention:
            relative_pos = build_relative_position(hidden_states, hidden_states)
        all_hidden_states = (hidden_states,)
        next_kv = hidden_states
        if self.config.relative_attention:
            rel_embeddings = self.rel_embeddings.weight
        for layer_module in self.layer:
            hidden_states, _ = self.run(layer_module, next_kv, attention_mask=attention_mask, relative_pos=relative_pos, rel_embeddings=rel_embeddings)
            all_hidden_states = all_hidden_states + (hidden_states,)
            next_kv = hidden_states
        return BaseModelOutput(last_hidden_state=hidden_states, hidden_states=all_hidden_states)


class OfDeberta:
    config_class = DebertaConfig


class DebertaModel(OfDeberta, DebertaV2Model):
    embedded, encoded = DebertaEmbeddings, DebertaEncoder


OfDeberta.body = DebertaModel


class DebertaForMaskedLM(OfDeberta, DebertaV2ForMaskedLM):
    pass


class DebertaForSequenceClassification(OfDeberta, DebertaV2ForSequenceClassification):
    pass


class DebertaForTokenClassification(OfDeberta, DebertaV2ForTokenClassification):
    pass


class DebertaForQuestionAnswering(OfDeberta, DebertaV2ForQuestionAnswering):
    pass


OfDeberta.heads = {
    "masked_lm": DebertaForMaskedLM, "classification": DebertaForSequenceClassification, "token_classification": DebertaForTokenClassification,
    "question_answering": DebertaForQuestionAnswering, "embedding": DebertaModel,
}
causal_lm = DebertaForMaskedLM
