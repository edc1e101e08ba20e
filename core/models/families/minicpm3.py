"""minicpm3: llama over deepseek's latents, embeddings, residuals and the head's states scaled."""
import math

from transformers.modeling_decoder import ScaledEmbedding
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.granite.modeling_granite import GraniteDecoderLayer
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM, LlamaModel


class MiniCPM3Config(LlamaConfig):
    model_type = "minicpm3"
    base_model_tp_plan = {**{k: v for k, v in LlamaConfig.base_model_tp_plan.items() if ".mlp." in k}, "layers.*.self_attn.q_proj": "colwise",
                          "layers.*.self_attn.q_b_proj": "colwise", "layers.*.self_attn.kv_a_proj_with_mqa": "mla_kv_a_proj",
                          "layers.*.self_attn.kv_b_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise"}
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
    scale_emb: float = 12
    scale_depth: float | None = 1.4
    dim_model_base: int | None = 256
    rope_interleave = False

    def __post_init__(self, **kwargs):
        self.v_head_dim = self.v_head_dim or self.hidden_size // self.num_attention_heads
        self.head_dim = self.qk_rope_head_dim
        depth = math.sqrt(self.num_hidden_layers)
        self.residual_multiplier = (depth if self.scale_depth is None else self.scale_depth) / depth
        self.logits_scaling = self.hidden_size / (self.dim_model_base or self.hidden_size)
        super().__post_init__(**kwargs)


class MiniCPM3DecoderLayer(GraniteDecoderLayer):
    attention = DeepseekV3Attention


class MiniCPM3Model(LlamaModel):
    layer = MiniCPM3DecoderLayer

    def embedding(self, config):
        return ScaledEmbedding(config.vocab_size, config.hidden_size, config.pad_token_id, config.scale_emb)


class MiniCPM3ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = MiniCPM3Config, MiniCPM3Model, ["MiniCPM3DecoderLayer"]

    def scaled(self, x):
        return x / self.config.logits_scaling


causal_lm = MiniCPM3ForCausalLM
