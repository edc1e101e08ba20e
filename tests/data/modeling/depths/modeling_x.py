import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "x_lm"

    def __init__(self, vocab_size=503, hidden_size=96, num_hidden_layers=3, heads=4, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.heads = vocab_size, hidden_size, num_hidden_layers, heads
        super().__init__(**kwargs)


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        t = x.float()
        return (t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


class Block(nn.Module):
    """Mixture of depths: a router picks half of the tokens, the block works on those, they are put back."""

    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.router = nn.Linear(d, 1, bias=False)
        self.norm, self.qkv, self.out = Norm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(Norm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.heads = config.heads

    def forward(self, x):
        b, n, d = x.shape
        k = n // 2
        weights = self.router(x).squeeze(-1)
        top, index = weights.topk(k, dim=1, sorted=False)
        index, order = index.sort(dim=1)
        top = torch.sigmoid(top.gather(1, order))
        spread = index.unsqueeze(-1).expand(-1, -1, d)
        part = x.gather(1, spread)
        q, k_, v = self.qkv(self.norm(part)).view(b, k, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k_, v, is_causal=True).transpose(1, 2).reshape(b, k, d)
        part = part + self.out(y)
        part = part + self.mlp(part)
        return x.scatter_add(1, spread, part * top.unsqueeze(-1))


class XModel(PreTrainedModel):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing and self.training else layer(x)
        return self.norm(x)


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        logits = self.lm_head(self.model(input_ids, attention_mask)).float()
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[..., :-1, :].flatten(0, -2), labels[..., 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits)
