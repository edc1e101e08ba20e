"""Attention whose queries and keys are normed; transformers says it again in each file. The first two stand first among an attention's bases."""
from transformers.modeling_decoder import attend
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRMSNorm


class NormedHeads:
    """Head by head, once they are cut and laid out."""

    norm = LlamaRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = self.norm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = self.norm(self.head_dim, eps=config.rms_norm_eps)

    def project(self, x):
        q, k, v = super().project(x)
        q = self.q_norm(q)
        k = self.k_norm(k)
        return q, k, v


class NormedWhole:
    """All heads at once, before they are cut."""

    norm = LlamaRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = self.norm(config.num_attention_heads * self.head_dim, config.rms_norm_eps)
        self.k_norm = self.norm(config.num_key_value_heads * self.head_dim, config.rms_norm_eps)

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_norm(self.q_proj(x))
        k = self.k_norm(self.k_proj(x))
        v = self.v_proj(x)
        return q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)


class NormedOnceTurned(LlamaAttention):
    """Head by head behind the rotation, in forward's own frame: a function would be called with what they were before."""

    norm, norms = LlamaRMSNorm, ("q_norm", "k_norm")

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        for name in self.norms:
            setattr(self, name, self.norm(self.head_dim, eps=config.rms_norm_eps))

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v = self.project(hidden_states)
        cos, sin = position_embeddings
        q, k = self.rotate(q, k, cos, sin)
        q = getattr(self, self.norms[0])(q)
        k = getattr(self, self.norms[1])(k)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, self.eager, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = getattr(self, self.out)(output)
        return output, weights
