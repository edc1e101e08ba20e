"""Rows of several sequences: positions that start anew tell where each begins, and a mask keeps them apart."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class PackedConfig(PretrainedConfig):
    model_type = "packed_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=3, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(**kwargs)


class Layer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.qkv, self.o = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, mask):
        b, t, h = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 4, h // 4).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return x + self.o(out.transpose(1, 2).reshape(b, t, h))


class PackedForCausalLM(PreTrainedModel):
    config_class = PackedConfig
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids, attention_mask=None, position_ids=None, labels=None):
        x = self.wte(input_ids)
        t = x.shape[1]
        mask = None
        if position_ids is None:
            position_ids = torch.arange(t, device=x.device).unsqueeze(0)
        if not (torch.diff(position_ids) == 1).all():
            document = (position_ids == 0).cumsum(-1)
            causal = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            mask = (document[:, None, :, None] == document[:, None, None, :]) & causal
        for layer in self.layers:
            x = layer(x, mask)
        logits = self.head(x)
        loss = F.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.view(-1)) if labels is not None else None
        return CausalLMOutput(loss=loss, logits=logits)
