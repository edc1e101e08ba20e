"""granitemoeshared: granitemoe with one expert that all tokens share."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.models.granitemoe.modeling_granitemoe import GraniteMoeConfig, GraniteMoeDecoderLayer, GraniteMoeForCausalLM, GraniteMoeModel, given


class GraniteMoeSharedConfig(GraniteMoeConfig):
    model_type = "granitemoeshared"
    shared_intermediate_size: int = 0


class GraniteMoeSharedMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.shared_intermediate_size
        self.activation = ACT2FN[config.hidden_act]
        self.input_linear = nn.Linear(width, inner * 2, bias=False)
        self.output_linear = nn.Linear(inner, width, bias=False)

    def forward(self, hidden_states):
        hidden_states = self.input_linear(hidden_states)
        chunks = hidden_states.chunk(2, dim=-1)
        hidden_states = self.activation(chunks[0]) * chunks[1]
        hidden_states = self.output_linear(hidden_states)
        return hidden_states


class GraniteMoeSharedDecoderLayer(GraniteMoeDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.shared_mlp = None if config.shared_intermediate_size == 0 else GraniteMoeSharedMLP(config)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states * self.multiplier
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        sparse, *_logits = given(self.block_sparse_moe(hidden_states))
        hidden_states = sparse if self.shared_mlp is None else sparse + self.shared_mlp(hidden_states)
        hidden_states = residual + hidden_states * self.multiplier
        return hidden_states


class GraniteMoeSharedModel(GraniteMoeModel):
    layer = GraniteMoeSharedDecoderLayer


class GraniteMoeSharedForCausalLM(GraniteMoeForCausalLM):
    config_class, decoder, _no_split_modules = GraniteMoeSharedConfig, GraniteMoeSharedModel, ["GraniteMoeSharedDecoderLayer"]


causal_lm = GraniteMoeSharedForCausalLM
