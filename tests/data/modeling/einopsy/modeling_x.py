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

from einops import rearrange, repeat, reduce, einsum, pack, unpack, parse_shape
from einops.layers.torch import Rearrange, Reduce, EinMix


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.to_qkv = nn.Sequential(nn.Linear(d, 3 * d, bias=False), Rearrange("b n (qkv h d) -> qkv b h n d", qkv=3, h=4))
        self.mem = nn.Parameter(torch.randn(2, d))
        self.pool = Reduce("b n (g d) -> b n g", "mean", g=4)
        self.mix = EinMix("b n (h c) -> b n (h o)", weight_shape="h c o", h=4, c=d // 4, o=d // 4)
        self.single = EinMix("b n c -> b n o", weight_shape="c o", c=d, o=d)
        self.gate = nn.Linear(4, d)

    def forward(self, x):
        b = parse_shape(x, "b _ _")["b"]
        mem = repeat(self.mem, "m d -> b m d", b=b)
        h, ps = pack([mem, self.norm(x)], "b * d")
        q, k, v = self.to_qkv(h)
        sim = einsum(q, k, "b h i d, b h j d -> b h i j") * q.shape[-1] ** -0.5
        attn = sim.softmax(-1)
        out = einsum(attn, v, "b h i j, b h j d -> b h i d")
        out = rearrange(out, "b h n d -> b n (h d)")
        mem, out = unpack(out, ps, "b * d")
        out = self.single(self.mix(out))
        g = reduce(out, "b n (g d) -> b n g", "max", g=4) + self.pool(out)
        s = reduce(out, "b (n w) d -> b n d", "sum", w=4)
        s = repeat(s, "b n d -> b (n 4) d")
        w = reduce(x, "b n d -> b 1 1", "min")
        t = rearrange([out, s], "k b n d -> b n d k").mean(-1)
        return x + t * self.gate(g).sigmoid() + w + mem.mean(1, keepdim=True)


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
