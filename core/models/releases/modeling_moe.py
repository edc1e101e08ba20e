"""Mixtures of experts by earlier releases: what was looked at and is not written is refused."""
from transformers.releases import of, quirks, refuse

if not quirks.experts_unmasked:

    @of(Experts)
    def forward(self, hidden_states, top_k_index, top_k_weights):
        refuse("/stack/transformers", "experts are modelled as transformers 5.18 and later run them (granitemoe, deepseek and glm4_moe: 5.21)")


if not quirks.balance_summed_by_layer:

    def load_balancing_loss_func(gate_logits, num_experts, top_k, attention_mask=None):
        refuse("/config/output_router_logits", "the balancing loss is modelled as transformers 5.23 and later add it up")
