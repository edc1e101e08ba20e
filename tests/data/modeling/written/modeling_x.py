import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class WrittenConfig(PretrainedConfig):
    model_type = "written_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=2, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(**kwargs)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.out = nn.Linear(d, d)

    def forward(self, x):
        h = self.out(x)
        h[:, :5] += self.out(x)[:, :5]
        h[..., 3:20] = x[..., 3:20]
        h.view(-1, 64).mul_(0.5)
        g = h.transpose(1, 2)
        g[:, 1].mul_(x[..., 2])
        z = torch.zeros_like(x)
        half = z[:, 7:]
        for i in range(4):
            z[:, i] = h[:, i] * 2
        z[:, 5:7].copy_(h[:, 5:7])
        z[:, 0, 3] = 1.5
        h.narrow(1, 2, 4).zero_()
        h[..., :8].masked_fill_(x[..., :8] > 0, 0.0)
        h[:, 3:4] = x[:, :1]
        return x + h + z + g.transpose(1, 2) + F.pad(half, (0, 0, 7, 0))


class WrittenModel(PreTrainedModel):
    config_class = WrittenConfig
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


class WrittenForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = WrittenConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = WrittenModel(config)
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
