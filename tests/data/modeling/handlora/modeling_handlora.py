import torch
from torch import nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class HandLoraConfig(PretrainedConfig):
    model_type = "handlora"

    def __init__(self, vocab_size=700, width=128, layers=3, heads=8, kv_heads=2, rank=8, alpha=16, train_norms=True, **kwargs):
        super().__init__(**kwargs)
        for name, value in dict(vocab_size=vocab_size, width=width, layers=layers, heads=heads, kv_heads=kv_heads, rank=rank, alpha=alpha,
                                train_norms=train_norms).items():
            setattr(self, name, value)
        self.hidden_size, self.num_hidden_layers = width, layers


class LoRALinear(nn.Module):
    def __init__(self, in_features, out_features, rank, alpha, dropout=0.05):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features), requires_grad=False)
        self.lora_a = nn.Parameter(torch.empty(rank, in_features))
        self.lora_b = nn.Parameter(torch.zeros(out_features, rank))
        self.scale = alpha / rank
        self.drop = nn.Dropout(dropout) if dropout > 0.0 else nn.Identity()
        nn.init.kaiming_uniform_(self.lora_a, a=5**0.5)

    def forward(self, x):
        base = F.linear(x, self.weight)
        return base + (self.drop(x) @ self.lora_a.T @ self.lora_b.T) * self.scale

    def extra_repr(self) -> str:
        return f"rank={self.lora_a.shape[0]}, scale={self.scale:.2f}"


class Rope(nn.Module):
    def __init__(self, dim, base=10000.0, max_len=512):
        super().__init__()
        freqs = base ** (-torch.arange(0, dim, 2).float() / dim)
        t = torch.outer(torch.arange(max_len).float(), freqs)
        self.register_buffer("cos", t.cos()[None, None], persistent=False)
        self.register_buffer("sin", t.sin()[None, None], persistent=False)

    def forward(self, x):
        T = x.shape[-2]
        c, s = self.cos[..., :T, :], self.sin[..., :T, :]
        x1, x2 = x.float().chunk(2, -1)
        return torch.cat([x1 * c - x2 * s, x1 * s + x2 * c], -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, cfg, rope):
        super().__init__()
        make = lambda o: LoRALinear(cfg.width, o, cfg.rank, cfg.alpha)
        self.dh = cfg.width // cfg.heads
        self.h, self.g = cfg.heads, cfg.kv_heads
        self.q, self.kv, self.o = make(cfg.width), make(2 * self.dh * cfg.kv_heads), make(cfg.width)
        self.up = nn.Linear(cfg.width, 4 * cfg.width, bias=False)
        self.down = nn.Linear(4 * cfg.width, cfg.width, bias=False)
        self.n1, self.n2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.rope = rope

    def forward(self, x):
        b, t, _ = x.shape
        y = self.n1(x)
        q = self.q(y).unflatten(-1, (self.h, self.dh)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, self.g, self.dh)).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        q, k = self.rope(q), self.rope(k)
        k = k.repeat_interleave(self.h // self.g, dim=1)
        v = v.repeat_interleave(self.h // self.g, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(-2))
        return x + self.down(F.relu(self.up(self.n2(x))) ** 2)


class HandLoraForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = HandLoraConfig

    def __init__(self, cfg):
        super().__init__(cfg)
        rope = Rope(cfg.width // cfg.heads)
        self.embed = nn.Embedding(cfg.vocab_size, cfg.width)
        self.layers = nn.ModuleList(Layer(cfg, rope) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.vocab_size, bias=False)
        for name, p in self.named_parameters():
            p.requires_grad_("lora_" in name or (cfg.train_norms and isinstance(self.get_submodule(name.rpartition(".")[0]), nn.LayerNorm)))
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(0, 1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
