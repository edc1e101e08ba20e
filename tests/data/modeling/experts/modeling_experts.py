"""A mixture of experts of nobody's: two ways of routing, sorted tokens, grouped products, largest along a dimension, sinks, clamped gates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PreTrainedModel, PretrainedConfig
from transformers.modeling_outputs import CausalLMOutput


class ExpertsConfig(PretrainedConfig):
    model_type = "experts_lm"

    def __init__(self, vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_experts=8, top_k=2, width=96, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_experts = num_experts
        self.top_k = top_k
        self.width = width


class Router(nn.Module):
    def __init__(self, config, by_sigmoid):
        super().__init__()
        self.top_k = config.top_k
        self.groups = 2
        self.by_sigmoid = by_sigmoid
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))

    def forward(self, x):
        logits = F.linear(x, self.weight)
        if not self.by_sigmoid:
            values, places = torch.topk(F.softmax(logits.float(), dim=-1), self.top_k, dim=-1)
            values /= values.sum(dim=-1, keepdim=True)
            return values, places
        scores = logits.float().sigmoid()
        group = scores.view(-1, self.groups, scores.shape[-1] // self.groups).topk(2, dim=-1)[0].sum(dim=-1)
        chosen = torch.topk(group, k=1, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(group)
        mask.scatter_(1, chosen, 1)
        mask = mask.unsqueeze(-1).expand(-1, self.groups, scores.shape[-1] // self.groups).reshape(-1, scores.shape[-1])
        places = torch.topk(scores.masked_fill(~mask.bool(), float("-inf")), k=self.top_k, dim=-1, sorted=False)[1]
        return scores.gather(1, places), places


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        n = config.num_experts
        self.up = nn.Parameter(torch.empty(n, 2 * config.width, config.hidden_size))
        self.down = nn.Parameter(torch.empty(n, config.width, config.hidden_size))
        self.bias = nn.Parameter(torch.empty(n, config.hidden_size))
        self.n = n

    def forward(self, x, values, places):
        ids, order = torch.sort(places.reshape(-1))
        rows = x[order // places.size(-1)]
        weights = values.reshape(-1)[order]
        counts = torch.histc(ids.int(), bins=self.n, min=0, max=self.n - 1)
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
        gate, up = F.grouped_mm(rows.to(self.up.dtype), self.up.transpose(-2, -1), offs=ends).chunk(2, dim=-1)
        gate = gate.clamp(min=None, max=7.0)
        up = up.clamp(min=-7.0, max=7.0)
        out = F.grouped_mm((F.silu(gate) * up).to(self.down.dtype), self.down, offs=ends)
        out.add_(self.bias[ids])
        out = out * weights.unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.size(0), device=order.device)
        return out[back].view(x.shape[0], places.size(-1), -1).sum(dim=1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.heads = config.num_attention_heads
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.o = nn.Linear(config.hidden_size, config.hidden_size)
        self.sinks = nn.Parameter(torch.empty(config.num_attention_heads))
        self.router = Router(config, index % 2 == 1)
        self.experts = Experts(config)

    def forward(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
        scores = torch.cat([scores, sinks], dim=-1)
        scores = scores - scores.max(dim=-1, keepdim=True).values
        out = torch.matmul(F.softmax(scores, dim=-1)[..., :-1], v)
        x = x + self.o(out.transpose(1, 2).reshape(x.shape))
        flat = x.reshape(-1, x.shape[-1])
        values, places = self.router(flat)
        return x + self.experts(flat, values, places).reshape(x.shape)


class ExpertsForCausalLM(PreTrainedModel):
    config_class = ExpertsConfig
    _no_split_modules = ["Layer"]

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config, i) for i in range(config.num_hidden_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        pass

    def get_input_embeddings(self):
        return self.embed_tokens

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]).float(), labels[:, 1:].reshape(-1))
        return CausalLMOutput(loss=loss, logits=logits)
