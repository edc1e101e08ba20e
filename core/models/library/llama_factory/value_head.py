"""trl 0.24.0 models/modeling_value_head.py AutoModelForCausalLMWithValueHead: a causal model whose hidden states are all kept until it returns, beside it a head of one number a token."""
from dataclasses import dataclass

import torch
from torch import nn

from transformers.modeling_decoder import CausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.releases import refuse
from transformers.utils.generic import ModelOutput


@dataclass
class ValueHeadOutput(ModelOutput):
    """A tuple there."""

    lm_logits: object = None
    loss: object = None
    value: object = None


class Summary(nn.Module):
    """An nn.Linear that is neither adapted nor quantised: it is made when both are done."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, width, dtype=torch.float32))
        self.bias = nn.Parameter(torch.empty(1, dtype=torch.float32))

    def forward(self, input):
        return nn.functional.linear(input, self.weight, self.bias)


class ValueHead(nn.Module):
    def __init__(self, config, width):
        super().__init__()
        self.dropout = nn.Dropout(getattr(config, "summary_dropout_prob", 0.1))
        self.summary = Summary(width)

    def forward(self, hidden_states):
        output = self.dropout(hidden_states)
        if output.dtype != self.summary.weight.dtype:
            output = output.to(self.summary.weight.dtype)
        output = self.summary(output)
        return output


def valued(causal):
    if not issubclass(causal, CausalLM):
        refuse("/training/stage", "the value head that LLaMA-Factory sets beside a model is not modelled yet over this one")

    class Valued(causal):
        def __init__(self, config):
            super().__init__(config)
            self.v_head = ValueHead(config, self.get_input_embeddings().embedding_dim)
            self.kept = None
            for layer in self.modules():
                if isinstance(layer, GradientCheckpointingLayer):
                    layer.register_forward_pre_hook(self.keep_input)
            self.base_model.register_forward_hook(self.keep_last)

        def keep_input(self, layer, args):
            if self.kept is not None:
                self.kept.append(args[0])

        def keep_last(self, decoder, args, output):
            if self.kept is not None:
                self.kept.append(output.last_hidden_state)

        def forward(self, input_ids=None, attention_mask=None, **kwargs):
            self.kept = []
            base_model_output = super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            hidden_states = self.kept
            self.kept = None
            last_hidden_state = hidden_states[-1]
            lm_logits = base_model_output.logits
            loss = base_model_output.loss
            value = self.v_head(last_hidden_state).squeeze(-1)
            if lm_logits.dtype != torch.float32:
                lm_logits = lm_logits.float()
            return ValueHeadOutput(lm_logits=lm_logits, loss=loss, value=value)

    return Valued
