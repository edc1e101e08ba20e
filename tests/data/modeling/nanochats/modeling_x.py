import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class RandomConfig(PretrainedConfig):
    model_type = "random_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=2, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(**kwargs)

def norm(x):
    return F.rms_norm(x, (x.size(-1),))


def apply_rotary_emb(x, cos, sin):
    assert x.ndim == 4
    d = x.shape[3] // 2
    x1, x2 = x[..., :d], x[..., d:]
    y1 = x1 * cos + x2 * sin
    y2 = x1 * (-sin) + x2 * cos
    out = torch.cat([y1, y2], 3)
    return out.to(x.dtype)


class Block(nn.Module):
    def __init__(self, d, heads=4, kv=2):
        super().__init__()
        self.n_head, self.n_kv_head, self.head_dim = heads, kv, d // heads
        self.c_q, self.c_k, self.c_v = nn.Linear(d, d, bias=False), nn.Linear(d, kv * self.head_dim, bias=False), nn.Linear(d, kv * self.head_dim, bias=False)
        self.c_proj = nn.Linear(d, d, bias=False)
        self.ve_gate = nn.Linear(32, kv, bias=False)
        self.value_embeds = nn.Embedding(64, kv * self.head_dim)
        self.resid_lambda, self.x0_lambda = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))
        self.c_fc, self.c_out = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        ch = torch.arange(0, self.head_dim, 2, dtype=torch.float32)
        freqs = torch.outer(torch.arange(128, dtype=torch.float32), 1.0 / (10000 ** (ch / self.head_dim)))
        cos, sin = freqs.cos()[None, :, None, :], freqs.sin()[None, :, None, :]
        self.register_buffer("cos", cos.bfloat16(), persistent=False)
        self.register_buffer("sin", sin.bfloat16(), persistent=False)

    def forward(self, x):
        B, T, C = x.size()
        x0 = norm(x)
        x = self.resid_lambda * x + self.x0_lambda * x0
        h = norm(x)
        q = self.c_q(h).view(B, T, self.n_head, self.head_dim)
        k = self.c_k(h).view(B, T, self.n_kv_head, self.head_dim)
        v = self.c_v(h).view(B, T, self.n_kv_head, self.head_dim)
        idx = torch.arange(T, device=x.device) % 64
        ve = self.value_embeds(idx).view(1, T, self.n_kv_head, self.head_dim)
        gate = 2 * torch.sigmoid(self.ve_gate(h[..., :32]))
        v = v + gate.unsqueeze(-1) * ve
        cos, sin = self.cos[:, :T], self.sin[:, :T]
        q, k = apply_rotary_emb(q, cos, sin), apply_rotary_emb(k, cos, sin)
        q, k = norm(q), norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2).to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.n_head != self.n_kv_head)
        y = y.transpose(1, 2).contiguous().view(B, T, -1)
        x = x + self.c_proj(y)
        h = self.c_fc(norm(x))
        h = F.relu(h).square()
        x = x + self.c_out(h)
        softcap = 15
        return softcap * torch.tanh(x / softcap)


class RandomModel(PreTrainedModel):
    config_class = RandomConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing else layer(x)
        return x


class RandomForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = RandomConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = RandomModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        logits = self.lm_head(self.model(input_ids))
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1)) if labels is not None else None
        return CausalLMOutputWithPast(loss=loss, logits=logits)
