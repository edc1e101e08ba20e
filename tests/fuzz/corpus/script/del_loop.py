
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from transformers import PretrainedConfig


class C(PretrainedConfig):
    model_type = "h"

    def __init__(self, vocab_size=100, hidden_size=64, **kw):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        super().__init__(**kw)
class D:
    def __del__(s): D()
D()
class M(PreTrainedModel):
    config_class = C
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        pass
    def forward(self, input_ids, labels=None, **kwargs):
        x = self.embed_tokens(input_ids)
        pass
        logits = self.lm_head(x)
        loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
