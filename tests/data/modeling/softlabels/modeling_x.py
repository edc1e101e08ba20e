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
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, d)
        self.attend = nn.MultiheadAttention(d, 4, batch_first=True, device=None, dtype=None)

    def forward(self, x):
        y = torch.special.expit(self.w(x))
        rows = y.flatten(0, 1)
        wanted = torch.softmax(x.detach().flatten(0, 1), -1)
        told = F.cross_entropy(rows, wanted)
        smoothed = F.cross_entropy(rows, wanted, label_smoothing=0.1, reduction="sum")
        each = F.cross_entropy(rows, wanted, reduction="none").view(x.shape[:2])
        z, _ = self.attend(y, y, y, need_weights=False)
        z = z + torch.diff(y, dim=1, prepend=y[:, :1]) + torch.diff(y, n=2, dim=1, append=y[:, :2])
        return x + z * told + y * smoothed + each.unsqueeze(-1)


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
