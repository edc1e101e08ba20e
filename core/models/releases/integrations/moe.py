"""Experts as grouped products, by releases of transformers 5 before 5.18: what becomes of rows that experts of other ranks have."""
from transformers.releases import quirks

if quirks.expert_rows < 8:

    def grouped_linear(x, weight, offsets, bias=None, is_transposed=False):
        weight = weight if is_transposed else weight.transpose(-2, -1)
        out = torch.nn.functional.grouped_mm(x.to(weight.dtype), weight, offs=offsets)
        if bias is not None and quirks.expert_rows < 6:
            out = out + bias
        elif bias is not None:
            out.add_(bias)
        return out

    def back_in_order(order, device):
        back = torch.empty_like(order)
        back[order] = torch.arange(order.size(0), device=device)
        return back

    def taken_rows(self, hidden_states, experts, weights, top_k, device):
        """Rows, weights and experts in the order of experts, that order and the way back; and what else stays alive."""
        token = torch.arange(hidden_states.size(0), device=device).unsqueeze(1).expand(-1, top_k).reshape(-1)
        rows = hidden_states[token] if quirks.expert_rows < 4 else None
        mask = None
        if quirks.expert_rows == 5:
            mask = experts >= self.num_experts
            experts = experts.clamp(0, self.num_experts - 1)
        order = torch.argsort(experts)
        back = torch.argsort(order) if quirks.expert_rows < 3 else back_in_order(order, device)
        experts_sorted = experts[order]
        weights_sorted = weights[order]
        rows_sorted = rows[order] if rows is not None else hidden_states[token[order]]
        return rows_sorted, weights_sorted, experts_sorted, order, back, mask, (token, rows, experts)

    def rows_counted(experts_sorted, bins):
        """Where each expert's rows end, and what stays alive."""
        counted = experts_sorted.int() if quirks.expert_rows else None
        counts = torch.histc(experts_sorted.float() if counted is None else counted, bins=bins, min=0, max=bins - 1)
        return torch.cumsum(counts, dim=0, dtype=torch.int32), counted, counts

    def grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights):
        release, named = quirks.expert_rows, []  # what has a name of its own lives as long as the frame
        device, top_k, tokens, width = hidden_states.device, top_k_index.size(-1), hidden_states.size(0), hidden_states.size(-1)
        weights = top_k_weights.reshape(-1)
        experts = top_k_index.reshape(-1)
        mask = None
        if release < 6:
            rows, weights_sorted, experts_sorted, order, back, mask, _ = taken_rows(self, hidden_states, experts, weights, top_k, device)
        else:
            experts_sorted, order = torch.sort(experts)
            rows = hidden_states[order // top_k]
            weights_sorted = weights[order]
        first, first_bias = (self.gate_up_proj, "gate_up_proj_bias") if self.has_gate else (self.up_proj, "up_proj_bias")
        bias = next_bias = None
        if self.has_bias and release < 2:
            bias, next_bias = getattr(self, first_bias)[experts_sorted], self.down_proj_bias[experts_sorted]
        offsets, *_counts = rows_counted(experts_sorted, self.num_experts)
        if release > 5:
            mask = (experts_sorted >= self.num_experts).unsqueeze(-1)
            experts_sorted.clamp_(max=self.num_experts - 1)
        if self.has_bias and release > 1:
            bias = getattr(self, first_bias)[experts_sorted]
        if release > 5:
            rows.masked_fill_(mask, 0.0)
        out = grouped_linear(rows, first, offsets, bias, self.is_transposed)
        if release == 7:
            out = out.masked_fill(mask, 0.0)
        if release < 2:
            named.append(out)
        out = self._apply_gate(out) if self.has_gate else self.act_fn(out)
        if release < 3:
            named.append(out)
        if self.has_bias and release > 1:
            bias = self.down_proj_bias[experts_sorted]
        out = grouped_linear(out, self.down_proj, offsets, bias if next_bias is None else next_bias, self.is_transposed)
        if release == 7:
            out = out.masked_fill(mask, 0.0)
        weighted = out * weights_sorted.unsqueeze(-1)
        if release < 2:
            out = weighted
        if release == 5:
            taken = mask[order]
            weighted.masked_fill_(taken.unsqueeze(-1), 0.0)
        elif release == 6:
            weighted.masked_fill_(mask, 0.0)
        if release > 5:
            back = back_in_order(order, device)
        weighted = weighted[back]
        summed = weighted.view(tokens, top_k, width).sum(dim=1)
        return summed.to(hidden_states.dtype)

    ALL_EXPERTS_FUNCTIONS._global_mapping["grouped_mm"] = grouped_mm_experts_forward


if quirks.expert_rows < 2:

    def batched_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights):
        """Weights of both products are taken before the first, and each name lives as long as the frame."""
        device, top_k, tokens, width = hidden_states.device, top_k_index.size(-1), hidden_states.size(0), hidden_states.size(-1)
        experts = top_k_index.reshape(-1)
        token = torch.arange(tokens, device=device).unsqueeze(1).expand(-1, top_k).reshape(-1)
        weights = top_k_weights.reshape(-1)
        valid = None
        if quirks.expert_rows:
            valid = experts < self.num_experts
            experts_taken = experts.clamp(0, self.num_experts - 1)
        else:
            experts_taken = experts
        rows = hidden_states[token]
        first = self.gate_up_proj[experts_taken]
        second = self.down_proj[experts_taken]
        first_bias = self.gate_up_proj_bias[experts_taken] if self.has_bias else None
        second_bias = self.down_proj_bias[experts_taken] if self.has_bias else None
        out = batched_linear(rows, first, first_bias, self.is_transposed)
        gated = self._apply_gate(out)
        weighted = batched_linear(gated, second, second_bias, self.is_transposed)
        weighted = weighted * weights.unsqueeze(-1)
        if valid is not None:
            weighted = weighted * valid.unsqueeze(-1).to(weighted.dtype)
        summed = weighted.view(tokens, top_k, width).sum(dim=1)
        return summed.to(hidden_states.dtype)

    ALL_EXPERTS_FUNCTIONS._global_mapping["batched_mm"] = batched_mm_experts_forward
