import math
from contextlib import nullcontext
from collections import OrderedDict, namedtuple
import torch
import torch.nn as nn
import torch.nn.functional as F
from einops import rearrange, repeat
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class DiffAttnConfig(PretrainedConfig):
    model_type = "diffattn"

    def __init__(self, vocab_size=500, hidden_size=128, num_hidden_layers=2, num_heads=4, num_kv=2, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.num_heads, self.num_kv = vocab_size, hidden_size, num_hidden_layers, num_heads, num_kv
        super().__init__(**kwargs)


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class MultiheadDiffAttn(nn.Module):
    def __init__(self, c, depth):
        super().__init__()
        self.h, self.kv = c.num_heads, c.num_kv
        self.d = c.hidden_size // c.num_heads // 2
        self.q_proj = nn.Linear(c.hidden_size, c.hidden_size, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.hidden_size * c.num_kv // c.num_heads, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.hidden_size * c.num_kv // c.num_heads, bias=False)
        self.out_proj = nn.Linear(c.hidden_size, c.hidden_size, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        for n in ("q1", "k1", "q2", "k2"):
            self.register_parameter("lambda_" + n, nn.Parameter(torch.zeros(self.d).normal_(mean=0, std=0.1)))
        self.subln = nn.RMSNorm(2 * self.d, eps=1e-5, elementwise_affine=True)

    def forward(self, x, bias):
        q = rearrange(self.q_proj(x), "b n (h two d) -> b (h two) n d", h=self.h, two=2)
        k = rearrange(self.k_proj(x), "b n (h two d) -> b (h two) n d", h=self.kv, two=2)
        v = rearrange(self.v_proj(x), "b n (h d) -> b h n d", h=self.kv)
        k = repeat(k, "b h n d -> b (h r) n d", r=self.h // self.kv)
        v = repeat(v, "b h n d -> b (h r) n d", r=self.h // self.kv)
        q = q * self.d**-0.5
        w = torch.matmul(q, k.transpose(-1, -2))
        w = torch.nan_to_num(w)
        w += bias
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        l1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1, dim=-1).float()).type_as(q)
        l2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2, dim=-1).float()).type_as(q)
        full = l1 - l2 + self.lambda_init
        w = rearrange(w, "b (h two) n m -> b h two n m", two=2)
        w = w[:, :, 0] - full * w[:, :, 1]
        a = torch.matmul(w, v)
        a = self.subln(a) * (1 - self.lambda_init)
        return self.out_proj(rearrange(a, "b h n d -> b n (h d)"))


class DiffAttnForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = DiffAttnConfig

    def __init__(self, c):
        super().__init__(c)
        self.emb = nn.Embedding(c.vocab_size, c.hidden_size)
        self.blocks = nn.ModuleList([
            nn.ModuleDict(OrderedDict(n1=nn.RMSNorm(c.hidden_size), attn=MultiheadDiffAttn(c, i), n2=nn.RMSNorm(c.hidden_size),
                                      ff=nn.Sequential(nn.Linear(c.hidden_size, 512), nn.Mish(), nn.Linear(512, c.hidden_size))))
            for i in range(c.num_hidden_layers)])
        self.norm = nn.RMSNorm(c.hidden_size)
        self.post_init()

    def get_input_embeddings(self):
        return self.emb

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.emb(input_ids)
        n = x.shape[1]
        bias = torch.triu(torch.zeros([n, n]).float().fill_(float("-inf")).type_as(x), 1)
        for b in self.blocks:
            x = x + b.attn(b.n1(x), bias)
            x = x + b["ff"](b["n2"](x))
        logits = torch.einsum("bnd,vd->bnv", self.norm(x), self.emb.weight)
        loss = F.cross_entropy(rearrange(logits[:, :-1], "b n v -> (b n) v"), rearrange(labels[:, 1:], "b n -> (b n)")) if labels is not None else None
        return CausalLMOutputWithPast(loss=loss, logits=logits)
