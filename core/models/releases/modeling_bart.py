"""The layer of opt and biogpt by earlier releases: a class each kernel, heads that were copies until there was a cache class."""
import torch

from transformers.integrations.flash_attention import flash_attention_forward
from transformers.modeling_gpt import drops_weights, sdpa_of_class
from transformers.releases import of, quirks, refuse


def positions_of(mask):
    row = torch.cumsum(mask, dim=1)
    return (row * mask - 1).long()


if not quirks.opt_interface:

    @of(LearnedPositionalEmbedding)
    def forward(self, position_ids, attention_mask=None, seen=0):
        if position_ids is None:
            mask = attention_mask.long()
            position_ids = (torch.cumsum(mask, dim=1).type_as(mask) * mask).long() - 1
            position_ids = position_ids[:, seen:]
        return nn.Embedding.forward(self, position_ids + self.offset)

    BartAttention.clamps = True  # and scales the query itself, which biogpt leaves to some kernels

    @of(BartAttention)
    def _heads(self, x):
        return x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)

    @of(BartAttention)
    def _shape(self, x):
        return self._heads(x).contiguous()

    @of(BartAttention)
    def products(self, q, k, v, attention_mask, batch):
        """bmm() of [batch * heads, seq, head_dim]; and what lives as long as the attention"""
        weights = torch.bmm(q, k.transpose(1, 2))
        shape = weights.shape
        if attention_mask is not None:
            weights = weights.view(batch, -1, *shape[1:]) + attention_mask
            if self.clamps:
                weights = torch.max(weights, torch.tensor(torch.finfo(weights.dtype).min, device=weights.device))
            weights = weights.view(shape)
        if self.clamps and weights.dtype == torch.float16:
            weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(torch.float16)
        else:
            weights = F.softmax(weights, dim=-1)
        probs = F.dropout(weights, p=self.dropout, training=self.training)
        return torch.bmm(probs, v).view(batch, -1, shape[1], self.head_dim).transpose(1, 2), (weights, probs)

    @of(BartAttention)
    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        """Classes of each kernel: heads are copies until there was a cache class"""
        kernel, dropout, views, kept, beside = self.config._attn_implementation, self.dropout if self.training else 0.0, quirks.opt_cache_class, None, None
        rows = hidden_states.shape[:-1]
        scales = kernel == "eager" and (self.clamps or not views) or kernel == "sdpa" and self.clamps and not views
        q = self.q_proj(hidden_states) * self.scaling if scales else self.q_proj(hidden_states)
        if views:
            q = self._heads(q)
            if kernel == "eager" and not self.clamps:
                q = q * self.scaling
            k = self.k_proj(hidden_states)
            v = self.v_proj(hidden_states)
            k, v = self._heads(k), self._heads(v)
        else:
            if kernel == "sdpa" and self.clamps:
                q = self._shape(q)
            k = self._shape(self.k_proj(hidden_states))
            v = self._shape(self.v_proj(hidden_states))
            beside = k, v
        if past_key_values is not None:
            if not views and past_key_values.get_seq_length(self.layer_idx):
                refuse("/stack/transformers", "this class keeps a tuple of keys and values in this release: its generate() is not modelled yet")
            k, v = past_key_values.update(k, v, self.layer_idx)
        if kernel == "flash_attention_2":
            q = q if views else self._heads(q)
            output, kept = flash_attention_forward(self, q, k, v, attention_mask, dropout=dropout, position_ids=kwargs.get("position_ids"))
        elif kernel == "sdpa":
            if not views and not self.clamps:
                q = self._shape(q)
            if views and not self.clamps and attention_mask is not None:
                q = q.contiguous()
                k = k.contiguous()
                v = v.contiguous()
            output = sdpa_of_class(q, k, v, attention_mask, dropout)
        elif views and self.clamps:
            weights = torch.matmul(q, k.transpose(3, 2))
            if attention_mask is not None:
                weights = weights + attention_mask
            weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
            beside = F.dropout(weights, p=self.dropout, training=self.training)
            output = torch.matmul(beside, v)
            output = output.transpose(1, 2).contiguous()
        else:
            batch, each = rows[0], (-1, rows[1], self.head_dim)
            q = q.reshape(each) if views else self._shape(q).view(each)
            k = k.reshape(each)
            v = v.reshape(each)
            output, kept = self.products(q, k, v, attention_mask, batch)
        output = output.reshape(*rows, -1)
        if kernel == "flash_attention_2":
            kept = output
        output = self.out_proj(output)
        return output, beside

elif not quirks.opt_returns_weights:
    drops_weights(BartAttention)
