import math
import typing as tp

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MoeCausalLMOutputWithPast


class TopkMoeConfig(PretrainedConfig):
    model_type = "topkmoe"

    def __init__(self, vocab_size=512, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_experts=4, top_k=2, intermediate_size=96,
                 capacity_factor=1.25, router_aux_loss_coef=0.01, router_z_loss_coef=0.001, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_experts, self.top_k, self.intermediate_size = num_experts, top_k, intermediate_size
        self.capacity_factor = capacity_factor
        self.router_aux_loss_coef, self.router_z_loss_coef = router_aux_loss_coef, router_z_loss_coef


class Experts(nn.Module):
    def __init__(self, n, d, h):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(n, d, h))
        self.w2 = nn.Parameter(torch.empty(n, h, d))
        self.b1 = nn.Parameter(torch.zeros(n, 1, h))
        for w in (self.w1, self.w2):
            nn.init.normal_(w, std=1 / math.sqrt(w.shape[1]))

    def forward(self, x):
        x = torch.baddbmm(self.b1, x, self.w1)
        x = F.gelu(x, approximate="tanh")
        return torch.bmm(x, self.w2)


class DenseDispatchMoe(nn.Module):
    """Capacity-bound dispatch by one-hot and einsum, as Switch and GShard write it."""

    def __init__(self, c: TopkMoeConfig):
        super().__init__()
        self.n, self.k, self.factor = c.num_experts, c.top_k, c.capacity_factor
        self.router = nn.Linear(c.hidden_size, c.num_experts, bias=False)
        self.experts = Experts(c.num_experts, c.hidden_size, c.intermediate_size)

    def forward(self, x: torch.Tensor) -> tp.Tuple[torch.Tensor, tp.Dict[str, torch.Tensor]]:
        b, t, d = x.shape
        flat = x.reshape(-1, d)
        tokens = flat.shape[0]
        logits = self.router(flat).float()
        probs = logits.softmax(dim=-1)
        top, index = probs.topk(self.k, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        gates = torch.zeros_like(probs).scatter(-1, index, top)
        capacity = min(tokens, int(math.ceil(tokens * self.k / self.n * self.factor)))
        mask = (gates > 0).to(torch.int32)
        position = torch.cumsum(mask, dim=0) * mask - 1
        keep = (position >= 0) & (position < capacity)
        dispatch = F.one_hot(position.clamp(min=0).long(), capacity).to(x.dtype) * keep.unsqueeze(-1).to(x.dtype)
        combine = dispatch * gates.unsqueeze(-1).to(x.dtype)
        inputs = torch.einsum("tec,td->ecd", dispatch, flat)
        outputs = self.experts(inputs)
        y = torch.einsum("tec,ecd->td", combine, outputs)
        density = mask.float().mean(0)
        aux = (density * probs.mean(0)).sum() * self.n
        z = torch.logsumexp(logits, dim=-1).square().mean()
        return y.view(b, t, d), {"aux": aux, "z": z}


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.mha_q, self.mha_k, self.mha_v, self.mha_o = (nn.Linear(c.hidden_size, c.hidden_size, bias=False) for _ in range(4))
        self.heads = c.num_attention_heads

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.mha_q, self.mha_k, self.mha_v))
        att = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(d // self.heads)
        att = att + mask[:t, :t]
        att = F.softmax(att, dim=-1, dtype=torch.float32).type_as(q)
        return self.mha_o((att @ v).transpose(1, 2).reshape(b, t, d))


class TopkMoeForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = TopkMoeConfig
    supports_gradient_checkpointing = True

    def __init__(self, c):
        super().__init__(c)
        self.tok = nn.Embedding(c.vocab_size, c.hidden_size)
        self.attns = nn.ModuleList([Attn(c) for _ in range(c.num_hidden_layers)])
        self.moes = nn.ModuleList([DenseDispatchMoe(c) for _ in range(c.num_hidden_layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(c.hidden_size) for _ in range(2 * c.num_hidden_layers + 1)])
        self.out = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.tok

    def forward(self, input_ids, attention_mask=None, labels=None, **_):
        x = self.tok(input_ids)
        t = input_ids.size(1)
        mask = torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        aux, z = [], []
        norms = iter(self.norms)
        for attn, moe in zip(self.attns, self.moes):
            x = x + attn(next(norms)(x), mask)
            y, losses = moe(next(norms)(x))
            x = x + y
            aux.append(losses["aux"])
            z.append(losses.pop("z"))
        x = next(norms)(x)
        logits = self.out(x)
        loss, aux_loss = None, sum(aux) / len(aux)
        if labels is not None:
            lm = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)).float(), labels[:, 1:].reshape(-1))
            loss = lm + self.config.router_aux_loss_coef * aux_loss + self.config.router_z_loss_coef * torch.stack(z).mean()
        return MoeCausalLMOutputWithPast(loss=loss, aux_loss=aux_loss, logits=logits)
