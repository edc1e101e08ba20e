"""granitemoe before 5.13: rows are sorted by expert, and each expert multiplies its own; before 5 forward upcasts what its loss is of."""
from transformers.activations import ACT2FN
from transformers.modeling_decoder import Decoder
from transformers.modeling_moe_sorted import ParallelExperts, TopKGating, back_in_place
from transformers.models.llama.modeling_llama import projected_first
from transformers.releases import of, quirks

if not quirks.granite_experts_grouped:

    @of(GraniteMoeMoE)
    def __init__(self, config):
        nn.Module.__init__(self)
        width, inner = config.hidden_size, config.intermediate_size
        self.activation = ACT2FN[config.hidden_act]
        self.input_linear = ParallelExperts(config.num_local_experts, width, inner * 2)
        self.output_linear = ParallelExperts(config.num_local_experts, inner, width)
        self.router = TopKGating(width, config.num_local_experts, config.num_experts_per_tok)

    @of(GraniteMoeMoE)
    def forward(self, layer_input):
        batch, length, width = layer_input.size()
        layer_input = layer_input.reshape(-1, width)
        order, batch_index, batch_gates, expert_size, router_logits = self.router(layer_input)
        if not quirks.granite_moe_on_its_own:
            order = None
        expert_inputs = layer_input[batch_index]
        hidden_states = self.input_linear(expert_inputs, expert_size)
        chunks = hidden_states.chunk(2, dim=-1)
        hidden_states = self.activation(chunks[0]) * chunks[1]
        layer_output = back_in_place(self.output_linear(hidden_states, expert_size), batch_index, batch_gates, batch, length)
        return (layer_output, router_logits) if quirks.granite_moe_on_its_own else layer_output


if quirks.granite_moe_on_its_own:

    @of(GraniteMoeAttention)
    def forward(self, hidden_states, position_ids=None, **kwargs):
        """Its function of attention is told no positions."""
        return LlamaAttention.forward(self, hidden_states, **kwargs)

    def born_after(layer, *names):
        """Those modules behind all others."""
        for name in names:
            module = getattr(layer, name)
            delattr(layer, name)
            setattr(layer, name, module)

    of_layer = GraniteMoeDecoderLayer.__init__

    @of(GraniteMoeDecoderLayer)
    def __init__(self, config, layer_idx):
        of_layer(self, config, layer_idx)
        born_after(self, "input_layernorm", "post_attention_layernorm")

    GraniteMoeModel.scaled, GraniteMoeModel.embedded = GraniteMoeModel.embedded, Decoder.embedded
    GraniteMoeAttention.project = projected_first


if quirks.granite_moe_upcasts:

    @of(GraniteMoeForCausalLM)
    def logits(self, x):
        logits = self.lm_head(x)
        logits = logits / self.config.logits_scaling
        if self.training:
            logits = logits.float()
        return logits
