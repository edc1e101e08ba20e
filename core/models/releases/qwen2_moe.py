"""qwen2_moe by earlier releases."""
from transformers.releases import of, quirks

if quirks.experts_in_turn:
    from transformers.modeling_moe import routed_forward

    @of(Qwen2MoeSparseMoeBlock)
    def expert(self, config):
        return LlamaMLP(config, config.moe_intermediate_size)

    @of(Qwen2MoeSparseMoeBlock)
    def with_shared(self, hidden_states, out):
        shared = self.shared_expert(hidden_states)
        shared = nn.functional.sigmoid(self.shared_expert_gate(hidden_states)) * shared
        return out + shared

    Qwen2MoeSparseMoeBlock.forward = SparseMoeBlock.forward

    @of(Qwen2MoeDecoderLayer)
    def routed(self, hidden_states):
        return self.mlp(hidden_states)

    of(Qwen2MoeDecoderLayer)(routed_forward, "forward")


if quirks.shared_added_in_place:

    @of(Qwen2MoeSparseMoeBlock)
    def with_all(self, out, shared):
        out += shared
        return out


if not quirks.interface_attention:
    from transformers.masking_utils import create_masks_in_window

    Qwen2MoeModel.masks = create_masks_in_window
    of_window = Qwen2MoeConfig.__post_init__

    @of(Qwen2MoeConfig)
    def __post_init__(self, **kwargs):
        asked, window = self.use_sliding_window, self.sliding_window
        of_window(self, **kwargs)
        self.sliding_window = window if asked else None
        self.qkv_bias = self.qkv_bias or not quirks.qkv_bias_is_read

    @of(Qwen2MoeAttention)
    def window(self, config, layer_idx):
        return config.sliding_window if layer_idx >= config.max_window_layers else None
