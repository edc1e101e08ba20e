"""minicpm3: llama over deepseek's latents, scaled embeddings and residuals. Its parameters; a step is not modelled."""
from transformers.modeling_inventory import InventoryOnly
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class MiniCPM3Config(LlamaConfig):
    model_type = "minicpm3"
    base_model_tp_plan = None
    vocab_size: int = 73448
    hidden_size: int = 2560
    intermediate_size: int = 6400
    num_hidden_layers: int = 62
    num_attention_heads: int = 40
    num_key_value_heads: int | None = 40
    max_position_embeddings: int = 32768
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    kv_lora_rank: int = 256
    q_lora_rank: int | None = 768
    qk_nope_head_dim: int = 64
    qk_rope_head_dim: int = 32
    v_head_dim: int | None = None

    def __post_init__(self, **kwargs):
        self.v_head_dim = self.v_head_dim or self.hidden_size // self.num_attention_heads
        self.head_dim = self.qk_rope_head_dim
        super().__post_init__(**kwargs)


class MiniCPM3DecoderLayer(LlamaDecoderLayer):
    attention = DeepseekV3Attention


class MiniCPM3Model(LlamaModel):
    layer = MiniCPM3DecoderLayer


class MiniCPM3ForCausalLM(InventoryOnly, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = MiniCPM3Config, MiniCPM3Model, ["MiniCPM3DecoderLayer"]


causal_lm = MiniCPM3ForCausalLM
