"""Loops over experts as people write them: over all, over those hit, by a list of how many rows each has."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class LoopsConfig(PretrainedConfig):
    model_type = "loops_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=3, num_experts=8, num_experts_per_tok=2, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_experts, self.num_experts_per_tok = num_experts, num_experts_per_tok
        super().__init__(**kwargs)


class Expert(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(hidden, 2 * hidden, bias=False), nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n, self.k = config.num_experts, config.num_experts_per_tok
        self.gate = nn.Linear(config.hidden_size, self.n, bias=False)
        self.experts = nn.ModuleList([Expert(config.hidden_size) for _ in range(self.n)])

    def route(self, x):
        weights = F.softmax(self.gate(x), dim=-1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.k, dim=-1)
        return (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype), chosen


class OverAll(Mixture):
    """mistral-src"""

    def forward(self, x):
        weights, chosen = self.route(x)
        results = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            batch_idx, nth_expert = torch.where(chosen == i)
            results[batch_idx] += weights[batch_idx, nth_expert, None] * expert(x[batch_idx])
        return results


class OverHit(Mixture):
    def forward(self, x):
        weights, chosen = self.route(x)
        out = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=self.n).permute(2, 1, 0)
        for e in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            slot, token = torch.where(mask[e].squeeze(0))
            out.index_add_(0, token, self.experts[e](x[None, token].reshape(-1, x.shape[-1])) * weights[token, slot, None])
        return out


class BySizes(Mixture):
    def forward(self, x):
        weights, chosen = self.route(x)
        flat = chosen.view(-1)
        order = flat.argsort()
        sizes = torch.bincount(flat, minlength=self.n).tolist()
        rows = x[order // self.k].split(sizes)
        out = torch.cat([expert(part) for expert, part in zip(self.experts, rows)])
        out = out * weights.view(-1)[order].unsqueeze(-1)
        return torch.zeros_like(x).index_add(0, order // self.k, out)


KINDS = [OverAll, OverHit, BySizes]



class LoopsForCausalLM(PreTrainedModel):
    config_class = LoopsConfig

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([KINDS[i % len(KINDS)](config) for i in range(config.num_hidden_layers)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids, attention_mask=None, labels=None):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = x + layer(x.view(-1, x.shape[-1])).view(x.shape)
        logits = self.head(x)
        loss = F.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.view(-1)) if labels is not None else None
        return CausalLMOutput(loss=loss, logits=logits)
