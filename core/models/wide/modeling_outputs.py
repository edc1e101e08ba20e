"""Output classes that no family of ours returns, and files import all the same."""


@dataclass
class CausalLMOutput(ModelOutput):
    loss: object = None
    logits: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None


@dataclass
class MaskedLMOutput(CausalLMOutput):
    pass


@dataclass
class SequenceClassifierOutput(CausalLMOutput):
    pass


@dataclass
class TokenClassifierOutput(CausalLMOutput):
    pass


@dataclass
class SequenceClassifierOutputWithPast(CausalLMOutputWithPast):
    pass


@dataclass
class QuestionAnsweringModelOutput(ModelOutput):
    loss: object = None
    start_logits: object = None
    end_logits: object = None
    hidden_states: tuple | None = None
    attentions: tuple | None = None
