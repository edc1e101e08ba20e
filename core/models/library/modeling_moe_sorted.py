"""Experts that are handed their rows sorted, one product each; transformers has them in files of models."""
import torch
from torch import nn

from transformers.modeling_moe import TopKRouter


def even(rows, parts):
    """tolist() of how many rows each expert has: the host is told, and experts are hit alike."""
    return [rows // parts + (1 if i < rows % parts else 0) for i in range(parts)]


class ParallelExperts(nn.Module):
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


def back_in_place(expert_outputs, batch_index, batch_gates, batch, length, bias=None):
    """What experts gave of each token, gated and summed where the token stood."""
    expert_outputs = expert_outputs * batch_gates[:, None]
    zeros = torch.zeros((batch * length, expert_outputs.size(-1)), dtype=expert_outputs.dtype, device=expert_outputs.device)
    layer_output = zeros.index_add(0, batch_index, expert_outputs)
    layer_output = layer_output.view(batch, length, -1)
    if bias is not None:
        layer_output = layer_output + bias
    return layer_output


class TopKGating(nn.Module):
    recorded, record = None, TopKRouter.record

    def __init__(self, input_size, num_experts, top_k):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.layer = nn.Linear(input_size, num_experts, bias=False)

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
