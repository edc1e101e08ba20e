"""qwen3: qwen2 with norms over the heads of query and key, and heads of a size of their own."""
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention, Qwen2Config, Qwen2DecoderLayer, Qwen2ForCausalLM, Qwen2Model, Qwen2RMSNorm


class Qwen3Config(Qwen2Config):
    model_type = "qwen3"
    base_model_tp_plan = {
        **Qwen2Config.base_model_tp_plan, "layers.*.self_attn.q_norm": "replicated_with_grad_allreduce",
        "layers.*.self_attn.k_norm": "replicated_with_grad_allreduce",
    }
    head_dim: int | None = 128


class Qwen3Attention(Qwen2Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = Qwen2RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = Qwen2RMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def biases(self, config):
        return config.attention_bias, config.attention_bias

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        return (self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2), self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2),
                self.v_proj(x).view(shape).transpose(1, 2))


class Qwen3DecoderLayer(Qwen2DecoderLayer):
    attention = Qwen3Attention


class Qwen3Model(Qwen2Model):
    layer = Qwen3DecoderLayer


class Qwen3ForCausalLM(Qwen2ForCausalLM):
    config_class, decoder = Qwen3Config, Qwen3Model
    _no_split_modules = ["Qwen3DecoderLayer"]


causal_lm = Qwen3ForCausalLM
