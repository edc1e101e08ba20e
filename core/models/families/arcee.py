"""arcee: llama with a feed-forward of two projections around a squared ReLU."""
from transformers.modeling_plain_mlp import PlainMLP
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class ArceeConfig(LlamaConfig):
    model_type, base_model_tp_plan = "arcee", {k: v for k, v in LlamaConfig.base_model_tp_plan.items() if "gate_proj" not in k}
    hidden_size: int = 2560
    intermediate_size: int = 18432
    hidden_act: str = "relu2"
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5


class ArceeMLP(PlainMLP):
    names = "up_proj", "act_fn", "down_proj"

    def bias(self, config):
        return getattr(config, "mlp_bias", False)


class ArceeDecoderLayer(LlamaDecoderLayer):
    feed_forward = ArceeMLP


class ArceeModel(LlamaModel):
    layer = ArceeDecoderLayer


class ArceeForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = ArceeConfig, ArceeModel, ["ArceeDecoderLayer"]


causal_lm = ArceeForCausalLM
