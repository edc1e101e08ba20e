"""The encoder of DeBERTa: scores of contents, of contents and distances, of distances and contents."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_encoder import BertIntermediate, BertOutput
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.releases import refuse


def make_log_bucket_position(relative_pos, bucket_size, max_position):
    sign = torch.sign(relative_pos)
    mid = bucket_size // 2
    abs_pos = torch.where((relative_pos < mid) & (relative_pos > -mid), torch.tensor(mid - 1).type_as(relative_pos), torch.abs(relative_pos))
    log_pos = torch.ceil(torch.log(abs_pos / mid) / torch.log(torch.tensor((max_position - 1) / mid)) * (mid - 1)) + mid
    bucket_pos = torch.where(abs_pos <= mid, relative_pos.type_as(log_pos), log_pos * sign)
    return bucket_pos


def build_relative_position(query_layer, key_layer, bucket_size=-1, max_position=-1):
    query_size = query_layer.size(-2)
    key_size = key_layer.size(-2)
    q_ids = torch.arange(query_size, dtype=torch.long, device=query_layer.device)
    k_ids = torch.arange(key_size, dtype=torch.long, device=key_layer.device)
    rel_pos_ids = q_ids[:, None] - k_ids[None, :]
    if bucket_size > 0 and max_position > 0:
        rel_pos_ids = make_log_bucket_position(rel_pos_ids, bucket_size, max_position)
    rel_pos_ids = rel_pos_ids.to(torch.long)
    rel_pos_ids = rel_pos_ids[:query_size, :]
    rel_pos_ids = rel_pos_ids.unsqueeze(0)
    return rel_pos_ids


def scaled_size_sqrt(query_layer, scale_factor):
    return torch.sqrt(torch.tensor(query_layer.size(-1), dtype=torch.float) * scale_factor)


class DisentangledSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.heads, self.kinds = config, config.num_attention_heads, config.pos_att_type
        width = self.heads * config.attention_head_size
        self.query_proj = nn.Linear(config.hidden_size, width)
        self.key_proj = nn.Linear(config.hidden_size, width)
        self.value_proj = nn.Linear(config.hidden_size, width)
        self.relative, self.shared, self.span = config.relative_attention, config.share_att_key, config.span
        if self.relative:
            self.pos_dropout = nn.Dropout(config.hidden_dropout_prob)
            if not self.shared and "c2p" in self.kinds:
                self.pos_key_proj = nn.Linear(config.hidden_size, width)
            if not self.shared and "p2c" in self.kinds:
                self.pos_query_proj = nn.Linear(config.hidden_size, width)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def by_head(self, x):
        x = x.view(*x.size()[:-1], self.heads, -1)
        return x.permute(0, 2, 1, 3).contiguous().view(-1, x.size(1), x.size(-1))

    def forward(self, hidden_states, attention_mask, relative_pos=None, rel_embeddings=None):
        query = self.by_head(self.query_proj(hidden_states))
        key = self.by_head(self.key_proj(hidden_states))
        value = self.by_head(self.value_proj(hidden_states))
        rel_att = None
        factor = 1 + ("c2p" in self.kinds) + ("p2c" in self.kinds)
        scale = scaled_size_sqrt(query, factor)
        scores = torch.bmm(query, key.transpose(-1, -2) / scale.to(dtype=query.dtype))
        if self.relative:
            rel_embeddings = self.pos_dropout(rel_embeddings)
            rel_att = self.bias_of_distance(query, key, relative_pos, rel_embeddings, factor)
        if rel_att is not None:
            scores = scores + rel_att
        scores = scores.view(-1, self.heads, scores.size(-2), scores.size(-1))
        attention_mask = attention_mask.bool()
        scores = scores.masked_fill(~(attention_mask), torch.finfo(query.dtype).min)
        probs = nn.functional.softmax(scores, dim=-1)
        probs = self.dropout(probs)
        context = torch.bmm(probs.view(-1, probs.size(-2), probs.size(-1)), value)
        context = context.view(-1, self.heads, context.size(-2), context.size(-1)).permute(0, 2, 1, 3).contiguous()
        context = context.view(*context.size()[:-2], -1)
        return context, None

    def bias_of_distance(self, query, key, relative_pos, rel_embeddings, factor):
        relative_pos = relative_pos.unsqueeze(1)
        relative_pos = relative_pos.to(device=query.device, dtype=torch.long)
        rel_embeddings = rel_embeddings[0 : self.span * 2, :].unsqueeze(0)
        rows = query.size(0) // self.heads
        if self.shared:
            pos_query = self.by_head(self.query_proj(rel_embeddings)).repeat(rows, 1, 1)
            pos_key = self.by_head(self.key_proj(rel_embeddings)).repeat(rows, 1, 1)
        else:
            if "c2p" in self.kinds:
                pos_key = self.by_head(self.pos_key_proj(rel_embeddings)).repeat(rows, 1, 1)
            if "p2c" in self.kinds:
                pos_query = self.by_head(self.pos_query_proj(rel_embeddings)).repeat(rows, 1, 1)
        score = 0
        if "c2p" in self.kinds:
            scale = scaled_size_sqrt(pos_key, factor)
            c2p_att = torch.bmm(query, pos_key.transpose(-1, -2))
            c2p_pos = torch.clamp(relative_pos + self.span, 0, self.span * 2 - 1)
            index = c2p_pos.squeeze(0).expand([query.size(0), query.size(1), relative_pos.size(-1)])
            c2p_att = torch.gather(c2p_att, dim=-1, index=index)
            score += c2p_att / scale.to(dtype=c2p_att.dtype)
        if "p2c" in self.kinds:
            scale = scaled_size_sqrt(pos_query, factor)
            p2c_pos = torch.clamp(-relative_pos + self.span, 0, self.span * 2 - 1)
            p2c_att = torch.bmm(key, pos_query.transpose(-1, -2))
            index = p2c_pos.squeeze(0).expand([query.size(0), key.size(-2), key.size(-2)])
            p2c_att = torch.gather(p2c_att, dim=-1, index=index).transpose(-1, -2)
            score += p2c_att / scale.to(dtype=p2c_att.dtype)
        return score


class DebertaV2Attention(nn.Module):
    self_class, output_class = DisentangledSelfAttention, BertOutput

    def __init__(self, config):
        super().__init__()
        self.self = self.self_class(config)
        self.output = self.output_class(config, config.hidden_size)

    def forward(self, hidden_states, attention_mask, relative_pos=None, rel_embeddings=None):
        self_output, att_matrix = self.self(hidden_states, attention_mask, relative_pos=relative_pos, rel_embeddings=rel_embeddings)
        attention_output = self.output(self_output, hidden_states)
        return attention_output, None


class DebertaV2Layer(GradientCheckpointingLayer):
    attention_class, output_class = DebertaV2Attention, BertOutput

    def __init__(self, config):
        super().__init__()
        self.attention = self.attention_class(config)
        self.intermediate = BertIntermediate(config)
        self.output = self.output_class(config, config.intermediate_size)

    def forward(self, hidden_states, attention_mask, relative_pos=None, rel_embeddings=None):
        attention_output, _ = self.attention(hidden_states, attention_mask, relative_pos=relative_pos, rel_embeddings=rel_embeddings)
        intermediate_output = self.intermediate(attention_output)
        layer_output = self.output(intermediate_output, attention_output)
        return layer_output, None


class ConvLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.conv = nn.Conv1d(config.hidden_size, config.hidden_size, config.conv_kernel_size, groups=config.conv_groups)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, *args):
        refuse("/config/conv_kernel_size", "a convolution over neighbours is not modelled yet: its parameters are")


class DebertaV2Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.embedding_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width) if config.position_biased_input else None
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size > 0 else None
        self.embed_proj = nn.Linear(width, config.hidden_size, bias=False) if width != config.hidden_size else None
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)

    def forward(self, input_ids, token_type_ids, mask):
        position_ids = self.position_ids[:, : input_ids.shape[1]]
        inputs_embeds = self.word_embeddings(input_ids)
        position_embeddings = self.position_embeddings(position_ids.long()) if self.position_embeddings is not None else torch.zeros_like(inputs_embeds)
        embeddings = inputs_embeds
        if self.position_embeddings is not None:
            embeddings = embeddings + position_embeddings
        if self.token_type_embeddings is not None:
            token_type_embeddings = self.token_type_embeddings(token_type_ids)
            embeddings = embeddings + token_type_embeddings
        if self.embed_proj is not None:
            embeddings = self.embed_proj(embeddings)
        embeddings = self.LayerNorm(embeddings)
        mask = mask.unsqueeze(2).to(embeddings.dtype)
        embeddings = embeddings * mask
        embeddings = self.dropout(embeddings)
        return embeddings


class DebertaV2Encoder(nn.Module):
    layer_class = DebertaV2Layer

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layer = nn.ModuleList([self.layer_class(config) for _ in range(config.num_hidden_layers)])
        if config.relative_attention:
            self.rel_embeddings = nn.Embedding(config.span * 2, config.hidden_size)
        if "layer_norm" in config.norm_rel_ebd:
            self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.conv = ConvLayer(config) if config.conv_kernel_size > 0 else None

    def run(self, layer, hidden_states, attention_mask, **by_name):
        return layer(hidden_states, attention_mask, **by_name)

    def forward(self, hidden_states, attention_mask):
        input_mask = attention_mask
        extended = attention_mask.unsqueeze(1).unsqueeze(2)
        attention_mask = extended * extended.squeeze(-2).unsqueeze(-1)
        relative_pos = rel_embeddings = None
        if self.config.relative_attention:
            relative_pos = build_relative_position(hidden_states, hidden_states, self.config.position_buckets, self.config.max_relative_positions)
            rel_embeddings = self.rel_embeddings.weight
            if "layer_norm" in self.config.norm_rel_ebd:
                rel_embeddings = self.LayerNorm(rel_embeddings)
        all_hidden_states = (hidden_states,)
        output_states = hidden_states
        for i, layer in enumerate(self.layer):
            output_states, _ = self.run(layer, output_states, attention_mask, relative_pos=relative_pos, rel_embeddings=rel_embeddings)
            if i == 0 and self.conv is not None:
                output_states = self.conv(hidden_states, output_states, input_mask)
            all_hidden_states = all_hidden_states + (output_states,)
        return BaseModelOutput(last_hidden_state=output_states, hidden_states=all_hidden_states)


class ContextPooler(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.pooler_hidden_size, config.pooler_hidden_size)
        self.dropout = nn.Dropout(config.pooler_dropout)
        self.act = ACT2FN[config.pooler_hidden_act]

    def forward(self, hidden_states):
        context_token = hidden_states[:, 0]
        context_token = self.dropout(context_token)
        pooled_output = self.dense(context_token)
        pooled_output = self.act(pooled_output)
        return pooled_output
