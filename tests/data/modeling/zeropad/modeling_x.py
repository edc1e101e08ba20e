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


class Block(nn.Module):
    """An adapter of some columns, padded to all of them."""

    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, 3 * d, bias=False)
        self.a = nn.Linear(d, 8, bias=False)
        self.b = nn.Linear(8, 2 * d, bias=False)
        self.o = nn.Linear(3 * d, d, bias=False)

    def pad(self, x):
        index = torch.arange(x.shape[-1], device=x.device)
        rows = x.reshape(-1, x.shape[-1])
        wide = rows.new_zeros(rows.shape[0], 3 * x.shape[-1] // 2)
        return wide.index_copy(1, index, rows).view(*x.shape[:-1], -1)

    def forward(self, x):
        return x + self.o(self.w(x) + self.pad(self.b(self.a(x))) * 2.0)


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
