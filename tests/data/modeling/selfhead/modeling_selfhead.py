"""As MPT's own file has it: the head is the embedding, called with unembed; submodules cast themselves; tensors of mixed numbers; a list of slices as an index."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class SelfTokenizer(AutoTokenizer):
    pass


class SelfConfig(PretrainedConfig):
    model_type = "selfhead"

    def __init__(self, vocab_size=500, d_model=64, **kwargs):
        self.vocab_size, self.d_model = vocab_size, d_model
        super().__init__(**kwargs)


class SharedEmbedding(nn.Embedding):
    def forward(self, input, unembed=False):
        if unembed:
            return F.linear(input, self.weight)
        return super().forward(input)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.d_model
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(d, d)
        scale = [1 if i < 64 else math.log(i, 64) for i in range(1, 256)]
        self.register_buffer("scale", torch.tensor(scale)[None, :, None], persistent=False)
        self.register_buffer("late", None)
        with torch.no_grad():
            place = [slice(None)] * self.up.weight.ndim
            place[0] = slice(0, d)
            self.up.weight[place].normal_()

    def forward(self, x):
        h = self.norm(x) * self.scale[:, : x.shape[1]].to(x.dtype)
        a, b = self.up(h).chunk(2, dim=-1)
        return x + self.down(F.silu(a) * b)


class SelfForCausalLM(PreTrainedModel):
    config_class = SelfConfig
    _tied_weights_keys = {"wte.weight": "wte.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.wte = SharedEmbedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList([Block(config) for _ in range(2)])
        self.blocks.bfloat16()
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.wte

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        for block in self.blocks:
            x = block(x)
        logits = self.wte(x, unembed=True)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1)) if labels is not None else None
        return CausalLMOutputWithPast(loss=loss, logits=logits)


SelfConfig.register_for_auto_class()
SelfForCausalLM.register_for_auto_class("AutoModelForCausalLM")
