"""scaled_dot_product_attention where no kernel takes its operands as they are, and masks that want a gradient."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class WaysConfig(PretrainedConfig):
    model_type = "ways_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=8, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(**kwargs)


class Layer(nn.Module):
    def __init__(self, heads, kv, width):
        super().__init__()
        self.heads, self.kv, self.width = heads, kv, width
        self.q, self.k, self.v = nn.Linear(64, heads * width), nn.Linear(64, kv * width), nn.Linear(64, kv * width)
        self.o = nn.Linear(heads * width, 64)

    def forward(self, x):
        b, n, _ = x.shape
        y = self.attend(*(t.view(b, n, -1, self.width).transpose(1, 2) for t in (self.q(x), self.k(x), self.v(x))))
        return x + self.o(y.transpose(1, 2).reshape(b, n, self.heads * self.width))


class Strided(Layer):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q.transpose(2, 3).contiguous().transpose(2, 3), k, v, is_causal=True)


class Hidden(Layer):
    def attend(self, q, k, v):
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=0.1, scale=0.3)


class Causal(Layer):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv)


class Rows(Layer):
    def attend(self, q, k, v):
        return torch.stack([F.scaled_dot_product_attention(a, b, c, is_causal=True) for a, b, c in zip(q, k, v)])


class Learned(Layer):
    def __init__(self, heads, kv, width):
        super().__init__(heads, kv, width)
        self.bias = nn.Parameter(torch.zeros(heads, 128, 128))

    def attend(self, q, k, v):
        bias = self.bias[None, :, : q.shape[2], : k.shape[2]].to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=self.heads != self.kv)


class Spread(Layer):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


LAYERS = ((Strided, 4, 4, 16), (Hidden, 4, 4, 12), (Causal, 4, 4, 12), (Causal, 4, 2, 16), (Rows, 4, 4, 16), (Learned, 4, 4, 16), (Learned, 4, 2, 16), (Spread, 4, 1, 16))


class WaysModel(PreTrainedModel):
    config_class = WaysConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([kind(*sizes) for kind, *sizes in LAYERS])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing else layer(x)
        return x


class WaysForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = WaysConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = WaysModel(config)
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
