"""Weight-tied recurrent depth (after Geiping et al. 2025): prelude, a core run several times, coda; only the last steps have gradients."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput
from dataclasses import dataclass
from typing import Optional


class RecurDepthConfig(PretrainedConfig):
    model_type = "recurdepth"

    def __init__(self, vocab_size=600, n_embd=96, n_heads=6, n_prelude=1, n_core=2, n_coda=1, mean_recurrence=5, mean_backprop_depth=3,
                 injection_type="linear", tie_embeddings=True, **kwargs):
        self.vocab_size, self.n_embd, self.n_heads = vocab_size, n_embd, n_heads
        self.n_prelude, self.n_core, self.n_coda = n_prelude, n_core, n_coda
        self.mean_recurrence, self.mean_backprop_depth = mean_recurrence, mean_backprop_depth
        self.injection_type = injection_type
        self.hidden_size = n_embd
        self.num_hidden_layers = n_prelude + n_core + n_coda
        self.intermediate = 4 * n_embd
        super().__init__(tie_word_embeddings=tie_embeddings, **kwargs)


@dataclass
class RecurOutput(ModelOutput):
    loss: Optional[torch.Tensor] = None
    logits: Optional[torch.Tensor] = None
    latent_states: Optional[torch.Tensor] = None
    stats: Optional[dict] = None


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        with torch.autocast(enabled=False, device_type=x.device.type if x.device.type != "meta" else "cuda"):
            return self._norm(x.float()).type_as(x) * self.weight

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_heads
        self.head_dim = config.n_embd // config.n_heads
        self.Wqkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.qk_bias = nn.Parameter(torch.zeros(2, 1, self.n_head, self.head_dim))
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x, freqs):
        B, S, E = x.shape
        q, k, v = self.Wqkv(x).split(E, dim=2)
        q = q.view(B, S, self.n_head, self.head_dim)
        k = k.view(B, S, self.n_head, self.head_dim)
        v = v.view(B, S, self.n_head, self.head_dim)
        q_bias, k_bias = self.qk_bias.split(1, dim=0)
        q, k = (q + q_bias).to(q.dtype).squeeze(0) if False else (q + q_bias[0]).to(q.dtype), (k + k_bias[0]).to(q.dtype)
        q, k = apply_rotary_emb(q, k, freqs)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(B, S, E).contiguous()
        return self.proj(y)


def precompute_freqs(dim, end, theta=10000.0):
    with torch.no_grad():
        inv_freqs = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
        freqs = torch.outer(torch.arange(end, dtype=torch.float32), inv_freqs)
        return torch.stack([torch.cos(freqs)[None, :, None, :], torch.sin(freqs)[None, :, None, :]], dim=4)


def apply_rotary_emb(q, k, freqs_cis):
    with torch.autocast("cuda", enabled=False):
        qk_r2 = torch.cat([q, k], dim=2).unflatten(dim=-1, sizes=(-1, 2)).float()
        rotated = torch.stack([qk_r2[..., 0] * freqs_cis[..., 0] - qk_r2[..., 1] * freqs_cis[..., 1],
                               qk_r2[..., 1] * freqs_cis[..., 0] + qk_r2[..., 0] * freqs_cis[..., 1]], -1).flatten(3)
        rotated = rotated.type_as(q)
        return torch.split(rotated, q.shape[2], dim=2)


class GatedMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.n_embd, config.intermediate * 2, bias=False)
        self.proj = nn.Linear(config.intermediate, config.n_embd, bias=False)
        self.nonlin = nn.SiLU()

    def forward(self, x):
        x_fc_1, x_fc_2 = self.fc(x).chunk(2, dim=-1)
        x = self.nonlin(x_fc_1) * x_fc_2
        return self.proj(x)


class SandwichBlock(nn.Module):
    expanded = False

    def __init__(self, config, layer_id: int):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3, self.norm_4 = [RMSNorm(config.n_embd) for _ in range(4)]
        self.attn, self.mlp = SelfAttention(config), GatedMLP(config)
        self.layer_id = layer_id

    def forward(self, x, freqs):
        x = self.norm_2(self.attn(self.norm_1(x), freqs) + x)
        return self.norm_4(self.mlp(self.norm_3(x)) + x)


class RecurDepthForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = RecurDepthConfig
    _no_split_modules = ["SandwichBlock"]
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        prelude = nn.ModuleList(SandwichBlock(config, layer_id=i) for i in range(config.n_prelude))
        adapter = nn.Linear(config.n_embd * 2, config.n_embd, bias=False)
        core = nn.ModuleList(SandwichBlock(config, layer_id=i + config.n_prelude) for i in range(config.n_core))
        coda = nn.ModuleList(SandwichBlock(config, layer_id=-1) for i in range(config.n_coda))
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.n_embd), prelude=prelude, adapter=adapter, core_block=core, coda=coda,
            ln_f=RMSNorm(config.n_embd)))
        self.emb_scale = config.n_embd**0.5
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.register_buffer("freqs_cis", precompute_freqs(config.n_embd // config.n_heads, 256), persistent=True)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer.wte

    def get_output_embeddings(self):
        return self.lm_head

    def core(self, x, embeds, freqs):
        x = self.transformer.adapter(torch.cat([x, embeds.to(x.device)], dim=-1))
        for block in self.transformer.core_block:
            x = block(x, freqs)
        return x

    def initialize_state(self, embeds):
        x = torch.randn_like(embeds)
        std = (2 / (5 * embeds.shape[-1])) ** 0.5
        torch.nn.init.trunc_normal_(x, mean=0.0, std=std, a=-3 * std, b=3 * std)
        return x * self.emb_scale

    def iterate_forward(self, embeds, freqs):
        x = self.initialize_state(embeds)
        steps, grad_steps = self.config.mean_recurrence, self.config.mean_backprop_depth
        with torch.no_grad():
            for no_grad_step in range(steps - grad_steps):
                xk = x
                x = self.core(x, embeds, freqs)
        for _ in range(grad_steps):
            xk = x
            if self.gradient_checkpointing and self.training:
                x = checkpoint(self.core, x, embeds, freqs, use_reentrant=False)
            else:
                x = self.core(x, embeds, freqs)
        return self.transformer.ln_f(x), xk.detach()

    def forward(self, input_ids: torch.Tensor, attention_mask: Optional[torch.Tensor] = None, labels: Optional[torch.Tensor] = None, **kwargs):
        freqs = self.freqs_cis[:, : input_ids.shape[1]]
        x = self.transformer.wte(input_ids)
        if self.emb_scale != 1:
            x = x * self.emb_scale
        for block in self.transformer.prelude:
            x = block(x, freqs)
        x, xk = self.iterate_forward(x, freqs)
        latents = x.clone().detach()
        for block in self.transformer.coda:
            x = block(x, freqs)
        x = self.transformer.ln_f(x)
        logits = self.lm_head(x).float()
        if labels is not None:
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))
            log_ppl = loss.clone().detach()
        else:
            loss, log_ppl = torch.as_tensor(0.0), torch.as_tensor(0.0)
        return RecurOutput(loss=loss, logits=logits, latent_states=latents, stats={"log_ppl": log_ppl, "norm": (x - xk).norm(dim=-1).mean().detach()})
