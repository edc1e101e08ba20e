"""Mixtures of experts by earlier releases."""
from transformers.releases import quirks, refuse

if not quirks.balance_summed_by_layer:

    def load_balancing_loss_func(gate_logits, num_experts, top_k, attention_mask=None):
        refuse("/config/output_router_logits", "the balancing loss is modelled as transformers 5.23 and later add it up")
