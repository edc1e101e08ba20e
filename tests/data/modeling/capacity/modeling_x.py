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

from torch.distributions.normal import Normal


class Router(nn.Module):
    def __init__(self, d, n_exp, top_k, use_noisy, capacity_factor):
        super().__init__()
        self.top_k, self.n_exp, self.use_noisy_top_k, self.capacity_factor = top_k, n_exp, use_noisy, capacity_factor
        self.w_g = nn.Linear(d, n_exp, bias=False)
        self.w_noise = nn.Linear(d, n_exp, bias=False) if use_noisy else None

    def compute_aux_loss(self, expert_probs, indices):
        with torch.no_grad():
            one_hot_indices = F.one_hot(indices, num_classes=self.n_exp)
            one_hot_indices = torch.sum(one_hot_indices.float(), dim=2)
            tokens_per_expert = torch.mean(one_hot_indices.float(), dim=(0, 1))
        prob_per_expert = torch.mean(expert_probs.float(), dim=(0, 1))
        return self.n_exp * torch.sum(prob_per_expert * tokens_per_expert)

    def compute_router_z_loss(self, logits):
        z_loss = torch.logsumexp(logits, dim=-1) ** 2.0
        return torch.mean(z_loss)

    def get_capacity(self, tokens_per_batch):
        capacity = math.floor(self.top_k * self.capacity_factor * tokens_per_batch / self.n_exp)
        capacity += capacity % 2
        return max(int(capacity), 4)

    def forward(self, x):
        with torch.amp.autocast(device_type="cuda", enabled=False):
            B, T, _ = x.size()
            num_tokens = B * T
            logits = F.linear(x.float(), self.w_g.weight.float())
            if self.use_noisy_top_k:
                noise = F.softplus(F.linear(x.float(), self.w_noise.weight.float()))
                noise = noise * torch.randn_like(noise)
                logits = logits + noise
            self.z = self.compute_router_z_loss(logits)
            top_k_logits, top_k_indices = logits.topk(self.top_k, dim=-1)
            router_probs = torch.full_like(logits, float("-inf"))
            router_probs.scatter_(-1, top_k_indices, top_k_logits)
            router_probs = F.softmax(router_probs, dim=-1)
            self.aux = self.compute_aux_loss(router_probs, top_k_indices)
            exp_capacity = self.get_capacity(num_tokens)
            exp_mask = F.one_hot(top_k_indices, num_classes=self.n_exp)
            exp_mask = exp_mask.view(num_tokens, self.top_k, self.n_exp)
            exp_mask = exp_mask.permute(1, 0, 2)
            exp_rank = exp_mask.reshape(self.top_k * num_tokens, self.n_exp)
            exp_rank = torch.cumsum(exp_rank, dim=0) - 1
            exp_rank = exp_rank.reshape(self.top_k, num_tokens, self.n_exp)
            exp_mask *= torch.lt(exp_rank, exp_capacity)
            used_capacity = torch.sum(exp_mask, dim=(0, 1))
            exp_rank = torch.sum(exp_mask * exp_rank, dim=-1)
            router_probs = router_probs.view(num_tokens, self.n_exp)[None, :]
            exp_weights = exp_mask * router_probs
            exp_rank_sc = F.one_hot(exp_rank, num_classes=exp_capacity)
            cb_weight = torch.sum(exp_weights.unsqueeze(3) * exp_rank_sc.unsqueeze(2), dim=0)
            sec_mask = cb_weight.bool()
            return used_capacity, cb_weight, sec_mask


class MLPExperts(nn.Module):
    def __init__(self, d, n_exp):
        super().__init__()
        self.c_fc = nn.Parameter(torch.empty(n_exp, d, 4 * d))
        self.c_proj = nn.Parameter(torch.empty(n_exp, 4 * d, d))
        self.fc_bias = nn.Parameter(torch.empty(n_exp, 1, 4 * d))
        self.gelu = nn.GELU()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = torch.bmm(x, self.c_fc)
        x += self.fc_bias
        x = self.gelu(x)
        x = torch.bmm(x, self.c_proj)
        return self.dropout(x)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.router = Router(d, 4, 2, True, 1.25)
        self.experts = MLPExperts(d, 4)
        self.ln = nn.LayerNorm(d)

    def forward(self, x):
        residual = x
        x = self.ln(x)
        B, T, n_embd = x.size()
        num_tokens = B * T
        used_capacity, exp_weight, exp_mask = self.router(x)
        x = x.view(num_tokens, n_embd)
        exp_batches = exp_mask.permute(1, 2, 0).type_as(x) @ x
        exp_out = self.experts(exp_batches)
        exp_weight = exp_weight.view(num_tokens, -1)
        exp_out = exp_out.view(-1, n_embd)
        output = exp_weight.to(exp_out.dtype) @ exp_out
        output = output.view(B, T, n_embd)
        return residual + output + 0.01 * (self.router.aux + self.router.z).to(output.dtype)


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
