"""gemma3_text: gemma2 with norms over the heads of query and key instead of capped scores, and a rotation for each kind of layer."""
from transformers.configuration_utils import windows_but_every
from transformers.modeling_decoder import DecoderOfKinds
from transformers.modeling_normed_heads import NormedHeads
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention, Gemma2Config, Gemma2DecoderLayer, Gemma2ForCausalLM, Gemma2Model
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config
from transformers.releases import refuse


class Gemma3TextConfig(Gemma2Config):
    model_type, base_model_tp_plan = "gemma3_text", Qwen3Config.base_model_tp_plan
    vocab_size: int = 262208
    max_position_embeddings: int = 131072
    final_logit_softcapping: float | None = None
    attn_logit_softcapping: float | None = None
    use_bidirectional_attention: bool | None = False

    def __post_init__(self, **kwargs):
        if self.use_bidirectional_attention:
            refuse("/use_bidirectional_attention", "use_bidirectional_attention true: attention in both directions is not modelled")
        pattern = kwargs.pop("sliding_window_pattern", 6)
        if self.layer_types is None:
            self.layer_types = windows_but_every(pattern, self.num_hidden_layers)
        super().__post_init__(**kwargs)

    def _rope(self, others):
        self.rope_by_kind(others, 1000000.0, others.pop("rope_local_base_freq", 10000.0))


class Gemma3Attention(NormedHeads, Gemma2Attention):
    norm = Gemma2RMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords.pop("softcap")


class Gemma3DecoderLayer(Gemma2DecoderLayer):
    attention = Gemma3Attention


class Gemma3TextModel(DecoderOfKinds, Gemma2Model):
    layer, rotary = Gemma3DecoderLayer, RotaryEmbeddingOfKinds


class Gemma3ForCausalLM(Gemma2ForCausalLM):
    config_class, decoder, _no_split_modules, _supports_sdpa = Gemma3TextConfig, Gemma3TextModel, ["Gemma3DecoderLayer"], True


causal_lm = Gemma3ForCausalLM
