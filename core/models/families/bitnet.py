"""bitnet: llama with a norm before the last projection of attention and of the feed-forward."""
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm


class BitNetConfig(LlamaConfig):
    model_type, base_model_tp_plan, default_theta = "bitnet", None, 500000.0
    vocab_size: int = 128256
    hidden_size: int = 2560
    intermediate_size: int = 6912
    num_hidden_layers: int = 30
    num_attention_heads: int = 20
    num_key_value_heads: int | None = 5
    hidden_act: str = "relu2"
    rms_norm_eps: float = 1e-5


class BitNetMLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.ffn_sub_norm = LlamaRMSNorm(config.intermediate_size, eps=config.rms_norm_eps)

    def forward(self, x):
        y = self.down_proj(self.ffn_sub_norm(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))
        return y


class BitNetAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.attn_sub_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def gated(self, output):
        return self.attn_sub_norm(output)


class BitNetDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward = BitNetAttention, BitNetMLP


class BitNetModel(LlamaModel):
    layer = BitNetDecoderLayer


class BitNetForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules, _tp_plan = BitNetConfig, BitNetModel, ["BitNetDecoderLayer"], None


causal_lm = BitNetForCausalLM
