import math
from dataclasses import dataclass
from typing import Optional, Tuple, List

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput, CausalLMOutputWithPast


class ToyConfig(PretrainedConfig):
    model_type = "toy_lm"

    def __init__(self, vocab_size=503, n_embd=64, n_layer=2, n_head=4, block_size=256, dropout=0.0, bias=True, **kwargs):
        self.vocab_size = vocab_size
        self.n_embd = n_embd
        self.n_layer = n_layer
        self.n_head = n_head
        self.block_size = block_size
        self.dropout = dropout
        self.bias = bias
        super().__init__(**kwargs)

    @property
    def hidden_size(self):
        return self.n_embd

    @property
    def num_hidden_layers(self):
        return self.n_layer


import functools
from collections import OrderedDict, defaultdict, namedtuple
from enum import Enum, auto
from dataclasses import field
from typing import Callable, ClassVar, Literal, NamedTuple, Union, Any, Generic, TypeVar
from contextlib import nullcontext

T = TypeVar("T")
Shape = namedtuple("Shape", "b t d")


class Act(str, Enum):
    GELU = "gelu"
    RELU2 = "relu2"
    SWISH = "swish"


class Kind(Enum):
    MIX = auto()
    MLP = auto()


class Out(NamedTuple):
    y: torch.Tensor
    aux: Optional[torch.Tensor] = None


@dataclass(frozen=True)
class Spec(Generic[T]):
    width: int
    act: Act = Act.GELU
    extras: dict = field(default_factory=dict)
    LIMIT: ClassVar[int] = 3

    def __post_init__(self):
        assert self.width > 0

    @property
    def inner(self) -> int:
        return self.width * (self.extras.get("mult", 2))


_REGISTRY: dict[str, Callable[..., nn.Module]] = {}


def register(name):
    def deco(cls):
        _REGISTRY[name] = cls
        return cls
    return deco


def act_fn(kind):
    match kind:
        case Act.GELU:
            return functools.partial(F.gelu, approximate="tanh")
        case Act.RELU2 | Act.SWISH as k if k is Act.RELU2:
            return lambda t: F.relu(t).pow(2)
        case Act.SWISH:
            return F.silu
        case _:
            raise ValueError(kind)


@register("mlp")
class FFN(nn.Module):
    def __init__(self, spec: Spec, *, bias: bool = True):
        super().__init__()
        self.up = nn.Linear(spec.width, spec.inner, bias=bias)
        self.down = nn.Linear(spec.inner, spec.width, bias=bias)
        self.act = act_fn(spec.act)

    def forward(self, x, **_) -> Out:
        return Out(self.down(self.act(self.up(x))))


@register("mix")
class Mix(nn.Module):
    def __init__(self, spec, **kw):
        super().__init__()
        self.w = nn.ParameterDict({f"w{i}": nn.Parameter(torch.zeros(spec.width)) for i in range(3)})
        self.proj = nn.Linear(spec.width, spec.width)

    def shifts(self, x):
        for i, (name, w) in enumerate(self.w.items()):
            yield F.pad(x, (0, 0, i, 0))[:, : x.shape[1]] * w.sigmoid()

    def forward(self, x, *, scale=1.0) -> Out:
        s = Shape(*x.shape)
        total = sum(self.shifts(x))
        if (n := s.d) > 8 and scale:
            total = total / n ** 0.5
        return Out(y=self.proj(total), aux=total.mean())


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        specs = [Spec(config.n_embd, a, {"mult": m}) for a, m in zip(Act, (2, 3, 4))]
        self.parts = nn.ModuleDict(OrderedDict((f"{k.name.lower()}_{s.act.value}", _REGISTRY[k.name.lower()](s)) for s in specs for k in Kind))
        self.norms = nn.ModuleList(nn.LayerNorm(config.n_embd) for _ in self.parts)
        self.lookup = {k: i for i, k in enumerate(self.parts.keys())}

    def forward(self, x):
        aux = defaultdict(list)
        with nullcontext():
            for name, part in self.parts.items():
                y, a = part(self.norms[self.lookup[name]](x), **({"scale": 0.5} if name.startswith("mix") else {}))
                x = x + y
                if a is not None:
                    aux[name].append(a)
        total = functools.reduce(lambda u, v: u + v, (t for ts in aux.values() for t in ts), 0)
        return x * (1 + total * 0.0)


class ToyForCausalLM(PreTrainedModel):
    config_class = ToyConfig
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                x = self._gradient_checkpointing_func(block.__call__, x)
            else:
                x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
        return CausalLMOutput(loss=loss, logits=logits)
