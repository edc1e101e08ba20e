import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PretrainedConfig, PreTrainedModel, GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.activations import ACT2FN
from transformers.utils import ModelOutput
from dataclasses import dataclass


class SoftcapConfig(PretrainedConfig):
    model_type = "softcap_lm"
    attribute_map = {"n_layers": "num_hidden_layers"}
    def __init__(self, vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, intermediate_size=640,
                 sliding_window=64, softcap=50.0, final_softcap=30.0, hidden_activation="gelu_pytorch_tanh", max_position_embeddings=2048, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.intermediate_size = intermediate_size
        self.sliding_window = sliding_window
        self.softcap, self.final_softcap = softcap, final_softcap
        self.hidden_activation = hidden_activation
        self.max_position_embeddings = max_position_embeddings
        self.layer_types = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(num_hidden_layers)]
        self.tie_word_embeddings = True


@dataclass
class SoftcapOutput(ModelOutput):
    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None


class Norm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))
    def forward(self, x):
        out = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        out = out * (1.0 + self.weight.float())
        return out.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        self.config = config
        self.kind = config.layer_types[i]
        self.d = config.hidden_size // config.num_attention_heads
        self.q = nn.Linear(config.hidden_size, config.num_attention_heads * self.d, bias=True)
        self.kv = nn.Linear(config.hidden_size, 2 * config.num_key_value_heads * self.d, bias=False)
        self.o = nn.Linear(config.hidden_size, config.hidden_size)
        self.sink = nn.Parameter(torch.zeros(config.num_attention_heads))
    def forward(self, x, masks):
        b, t, c = x.shape
        q = self.q(x).view(b, t, -1, self.d).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, -1, self.d).permute(2, 0, 3, 1, 4)
        k = torch.repeat_interleave(k, q.shape[1] // k.shape[1], dim=1)
        v = torch.repeat_interleave(v, q.shape[1] // v.shape[1], dim=1)
        w = torch.einsum("bhid,bhjd->bhij", q, k) / self.d ** 0.5
        w = torch.tanh(w / self.config.softcap) * self.config.softcap
        mask = masks[self.kind]
        if mask is not None:
            w = w.masked_fill(~mask, torch.finfo(w.dtype).min) if mask.dtype == torch.bool else w + mask
        w = F.softmax(w, dim=-1)
        w = F.dropout(w, p=0.1, training=self.training)
        y = torch.einsum("bhij,bhjd->bhid", w, v)
        y = y.transpose(1, 2).contiguous().view(b, t, c)
        return self.o(y)


class Layer(GradientCheckpointingLayer):
    def __init__(self, config, i):
        super().__init__()
        self.attn = Attention(config, i)
        self.fc1 = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act = ACT2FN[config.hidden_activation]
        self.norms = nn.ModuleDict({k: Norm(config.hidden_size) for k in ("pre", "post", "pre_ff", "post_ff")})
    def forward(self, x, masks=None):
        x = x + self.norms["post"](self.attn(self.norms["pre"](x), masks))
        g, u = self.fc1(self.norms["pre_ff"](x)).chunk(2, dim=-1)
        return x + self.norms["post_ff"](self.fc2(self.act(g) * u))


class SoftcapForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = SoftcapConfig
    config: SoftcapConfig
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["Layer"]
    _tied_weights_keys = {"lm_head.weight": "embed_tokens.weight"}
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, labels=None, **kwargs):
        x = self.embed_tokens(input_ids)
        normalizer = torch.tensor(self.config.hidden_size ** 0.5, dtype=x.dtype, device=x.device)
        x = x * normalizer
        if position_ids is None:
            position_ids = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        args = dict(config=self.config, inputs_embeds=x, attention_mask=attention_mask, past_key_values=None, position_ids=position_ids)
        masks = {"full_attention": create_causal_mask(**args), "sliding_attention": create_sliding_window_causal_mask(**args)}
        for layer in self.layers:
            x = layer(x, masks=masks)
        logits = self.lm_head(self.norm(x))
        if self.config.final_softcap is not None:
            logits = logits / self.config.final_softcap
            logits = torch.tanh(logits)
            logits = logits * self.config.final_softcap
        loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs) if labels is not None else None
        return SoftcapOutput(loss=loss, logits=logits)
