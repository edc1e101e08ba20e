"""A feed-forward of two projections around an activation; transformers says it again in each file."""
from torch import nn

from transformers.activations import ACT2FN


class PlainMLP(nn.Module):
    names = "fc1", "activation_fn", "fc2"

    def __init__(self, config):
        super().__init__()
        into, act, out = self.names
        setattr(self, into, nn.Linear(config.hidden_size, config.intermediate_size, bias=self.bias(config)))
        setattr(self, out, nn.Linear(config.intermediate_size, config.hidden_size, bias=self.bias(config)))
        setattr(self, act, ACT2FN[config.hidden_act])

    def bias(self, config):
        return True

    def forward(self, x):
        into, act, out = self.names
        return getattr(self, out)(getattr(self, act)(getattr(self, into)(x)))
