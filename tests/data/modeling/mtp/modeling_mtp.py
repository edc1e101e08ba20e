import torch
import torch.nn as nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel, PretrainedConfig
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_attn_mask_utils import AttentionMaskConverter, _prepare_4d_causal_attention_mask
from typing import List, Optional


class MtpConfig(PretrainedConfig):
    model_type = "mtp"

    def __init__(self, vocab_size=900, hidden_size=96, num_hidden_layers=2, num_attention_heads=6, n_future=3, intermediate_size=256, mtp_weight=0.3, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.n_future = n_future
        self.intermediate_size = intermediate_size
        self.mtp_weight = mtp_weight
        super().__init__(**kwargs)


class MtpBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        h = config.hidden_size
        self.n_heads = config.num_attention_heads
        self.q_norm = nn.RMSNorm(h // self.n_heads, eps=1e-6)
        self.k_norm = nn.RMSNorm(h // self.n_heads, eps=1e-6)
        self.wq = nn.Linear(h, h, bias=False)
        self.wk = nn.Linear(h, h, bias=False)
        self.wv = nn.Linear(h, h, bias=False)
        self.wo = nn.Linear(h, h, bias=False)
        self.ffn = nn.ModuleDict({
            "gate": nn.Linear(h, config.intermediate_size, bias=False),
            "up": nn.Linear(h, config.intermediate_size, bias=False),
            "down": nn.Linear(config.intermediate_size, h, bias=False),
        })
        self.attention_norm = nn.RMSNorm(h, eps=1e-6)
        self.ffn_norm = nn.RMSNorm(h, eps=1e-6)

    def attention(self, x, mask):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = self.q_norm(xq.view(bsz, seqlen, self.n_heads, -1))
        xk = self.k_norm(xk.view(bsz, seqlen, self.n_heads, -1))
        xv = xv.view(bsz, seqlen, self.n_heads, -1)
        xq, keys, values = (t.transpose(1, 2) for t in (xq, xk, xv))
        output = F.scaled_dot_product_attention(xq, keys, values, attn_mask=mask, is_causal=mask is None)
        return self.wo(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))

    def forward(self, x, mask=None):
        h = x + self.attention(self.attention_norm(x), mask)
        y = self.ffn_norm(h)
        return h + self.ffn["down"](F.silu(self.ffn["gate"](y)) * self.ffn["up"](y))


class MtpHead(nn.Module):
    """DeepSeek-V3's: the norm of the stream beside the norm of the next token's embedding, projected, one more block."""

    def __init__(self, config):
        super().__init__()
        self.enorm = nn.RMSNorm(config.hidden_size)
        self.hnorm = nn.RMSNorm(config.hidden_size)
        self.eh_proj = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.block = MtpBlock(config)

    def forward(self, hidden, embeds, mask):
        return self.block(self.eh_proj(torch.cat([self.enorm(embeds), self.hnorm(hidden)], dim=-1)), mask)


class MtpForCausalLM(PreTrainedModel):
    config_class = MtpConfig
    _tied_weights_keys = {"shared_head.weight": "embed_tokens.weight"}
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([MtpBlock(config) for _ in range(config.num_hidden_layers)])
        self.mtp = nn.ModuleList([MtpHead(config) for _ in range(config.n_future)])
        self.norm = nn.RMSNorm(config.hidden_size)
        self.shared_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def get_output_embeddings(self):
        return self.shared_head

    def run(self, module, *args):
        if self.gradient_checkpointing and self.training:
            return self._gradient_checkpointing_func(module.__call__, *args)
        return module(*args)

    def forward(self, input_ids, attention_mask=None, labels=None, return_all: bool = False, **kwargs):
        embeds = self.embed_tokens(input_ids)
        b, t = input_ids.shape
        mask = _prepare_4d_causal_attention_mask(attention_mask, (b, t), embeds, 0)
        hidden = embeds
        for layer in self.layers:
            hidden = self.run(layer, hidden, mask)
        logits = self.shared_head(self.norm(hidden))
        if labels is None:
            return CausalLMOutputWithPast(logits=logits)
        losses: List[torch.Tensor] = [F.cross_entropy(logits[:, :-1].reshape(-1, self.config.vocab_size), labels[:, 1:].reshape(-1))]
        for depth, head in enumerate(self.mtp, start=1):
            shifted = torch.roll(input_ids, shifts=-depth, dims=1)
            hidden = self.run(head, hidden, self.embed_tokens(shifted), mask)
            extra = self.shared_head(self.norm(hidden[:, : -1 - depth]))
            losses.append(F.cross_entropy(extra.reshape(-1, self.config.vocab_size), labels[:, 1 + depth :].reshape(-1)))
            del extra
        loss = losses[0] + self.config.mtp_weight * torch.stack(losses[1:]).mean()
        return CausalLMOutputWithPast(loss=loss, logits=logits)
