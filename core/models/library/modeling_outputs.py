"""What models return: dataclasses that are dicts of the fields that are set."""
from dataclasses import dataclass

from transformers.utils.generic import ModelOutput


@dataclass
class BaseModelOutput(ModelOutput):
    last_hidden_state: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None


@dataclass
class BaseModelOutputWithPooling(ModelOutput):
    last_hidden_state: object = None
    pooler_output: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None


@dataclass
class BaseModelOutputWithPast(ModelOutput):
    last_hidden_state: object = None
    past_key_values: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None


@dataclass
class BaseModelOutputWithPastAndCrossAttentions(ModelOutput):
    last_hidden_state: object = None
    past_key_values: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None
    cross_attentions: tuple | None = None


@dataclass
class CausalLMOutputWithPast(ModelOutput):
    loss: object = None
    logits: object = None
    past_key_values: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None


@dataclass
class CausalLMOutputWithCrossAttentions(ModelOutput):
    loss: object = None
    logits: object = None
    past_key_values: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None
    cross_attentions: tuple | None = None


@dataclass
class MoeModelOutputWithPast(ModelOutput):
    last_hidden_state: object = None
    past_key_values: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None
    router_logits: tuple | None = None


@dataclass
class MoeCausalLMOutputWithPast(ModelOutput):
    loss: object = None
    aux_loss: object = None
    logits: object = None
    past_key_values: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None
    router_logits: tuple | None = None
