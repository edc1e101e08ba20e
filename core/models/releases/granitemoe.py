"""granitemoe before 5.13: rows are sorted by expert, and each expert multiplies its own; before 5 forward upcasts what its loss is of."""
from transformers.activations import ACT2FN
from transformers.modeling_decoder import Decoder
from transformers.models.llama.modeling_llama import projected_first
from transformers.releases import of, quirks

if not quirks.granite_experts_grouped:

    def even(rows, parts):
        """tolist() of how many rows each expert has: the host is told, and experts are hit alike."""
        return [rows // parts + (1 if i < rows % parts else 0) for i in range(parts)]

    class GraniteMoeParallelExperts(nn.Module):
        def __init__(self, num_experts, input_size, output_size):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(num_experts, output_size, input_size))
            self.num_experts = num_experts

        def forward(self, inputs, expert_size):
            input_list = inputs.split(expert_size, dim=0)
            output_list = []
            for i in range(self.num_experts):
                output_list.append(nn.functional.linear(input_list[i], self.weight[i]))
            results = torch.cat(output_list, dim=0)
            return results

    class GraniteMoeTopKGating(nn.Module):
        recorded, record = None, TopKRouter.record

        def __init__(self, config):
            super().__init__()
            self.num_experts, self.top_k = config.num_local_experts, config.num_experts_per_tok
            self.layer = nn.Linear(config.hidden_size, self.num_experts, bias=False)

        def forward(self, hidden_states):
            logits = self.layer(hidden_states).float()
            top_k_logits, top_k_indices = logits.topk(self.top_k, dim=1)
            top_k_gates = torch.softmax(top_k_logits, dim=1).type_as(hidden_states)
            zeros = torch.zeros([top_k_gates.size(0), self.num_experts], dtype=top_k_gates.dtype, device=top_k_gates.device)
            gates = zeros.scatter(1, top_k_indices, 1)
            expert_size = gates.long().sum(0)
            expert_size = even(top_k_gates.numel(), self.num_experts)
            top_k_experts = top_k_indices.flatten()
            _, index_sorted_experts = top_k_experts.sort(0)
            batch_index = index_sorted_experts.div(self.top_k, rounding_mode="trunc")
            top_k_gates = top_k_gates.flatten()
            batch_gates = top_k_gates[index_sorted_experts]
            self.record(logits)
            return index_sorted_experts, batch_index, batch_gates, expert_size, logits

    @of(GraniteMoeMoE)
    def __init__(self, config):
        nn.Module.__init__(self)
        width, inner = config.hidden_size, config.intermediate_size
        self.activation = ACT2FN[config.hidden_act]
        self.input_linear = GraniteMoeParallelExperts(config.num_local_experts, width, inner * 2)
        self.output_linear = GraniteMoeParallelExperts(config.num_local_experts, inner, width)
        self.router = GraniteMoeTopKGating(config)

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
        expert_outputs = self.output_linear(hidden_states, expert_size)
        expert_outputs = expert_outputs * batch_gates[:, None]
        zeros = torch.zeros((batch * length, width), dtype=expert_outputs.dtype, device=expert_outputs.device)
        layer_output = zeros.index_add(0, batch_index, expert_outputs)
        layer_output = layer_output.view(batch, length, width)
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
