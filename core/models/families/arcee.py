"""arcee: llama with a feed-forward of two projections around a squared ReLU."""
from torch import nn

from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class ArceeConfig(LlamaConfig):
    model_type, base_model_tp_plan = "arcee", {k: v for k, v in LlamaConfig.base_model_tp_plan.items() if "gate_proj" not in k}
    hidden_size: int = 2560
    intermediate_size: int = 18432
    hidden_act: str = "relu2"
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5


class ArceeMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        bias = getattr(config, "mlp_bias", False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=bias)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x):
        return self.down_proj(self.act_fn(self.up_proj(x)))


class ArceeDecoderLayer(LlamaDecoderLayer):
    feed_forward = ArceeMLP


class ArceeModel(LlamaModel):
    layer = ArceeDecoderLayer


class ArceeForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = ArceeConfig, ArceeModel, ["ArceeDecoderLayer"]


causal_lm = ArceeForCausalLM
