"""exaone4: olmo2's norms after attention and feed-forward, norms over heads, and windows in three of four layers, which then alone rotate."""
from transformers.configuration_utils import windows_but_every
from transformers.masking_utils import create_masks_for_layers
from transformers.modeling_normed_heads import NormedHeads
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaForCausalLM, LlamaModel, LlamaRMSNorm, apply_rotary_pos_emb
from transformers.models.olmo2.modeling_olmo2 import Olmo2DecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config


class Exaone4Config(LlamaConfig):
    model_type, base_model_tp_plan = "exaone4", Qwen3Config.base_model_tp_plan
    vocab_size: int = 102400
    intermediate_size: int = 16384
    num_key_value_heads: int | None = 32
    rms_norm_eps: float = 1e-5
    sliding_window: int | None = 4096
    sliding_window_pattern: str | int | None = 4
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.sliding_window is None:
            self.sliding_window_pattern = 0
        if self.layer_types is None:
            self.layer_types = windows_but_every(self.sliding_window_pattern, self.num_hidden_layers)
        super().__post_init__(**kwargs)


class Exaone4Attention(NormedHeads, LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.is_sliding = config.layer_types[layer_idx] == "sliding_attention"
        self.keywords = {"sliding_window": config.sliding_window if self.is_sliding else None}

    def biases(self, config):
        return False, False

    def rotate(self, q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin) if self.config.sliding_window is None or self.is_sliding else (q, k)


class Exaone4DecoderLayer(Olmo2DecoderLayer):
    attention, norm = Exaone4Attention, LlamaRMSNorm


class Exaone4Model(LlamaModel):
    layer, masks = Exaone4DecoderLayer, create_masks_for_layers


class Exaone4ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Exaone4Config, Exaone4Model, ["Exaone4DecoderLayer"]


causal_lm = Exaone4ForCausalLM
