"""granitemoe_swa: granitemoeshared with granite_swa's attention."""
from transformers.models.granite_swa.modeling_granite_swa import OF_SINKS, ConfigOfThetas, GraniteSWAAttention, OfThetas
from transformers.models.granitemoeshared.modeling_granitemoeshared import GraniteMoeSharedConfig, GraniteMoeSharedDecoderLayer, GraniteMoeSharedForCausalLM
from transformers.models.granitemoeshared.modeling_granitemoeshared import GraniteMoeSharedModel
from transformers.models.mixtral.modeling_mixtral import MixtralConfig
from transformers.modeling_moe import experts_tp_plan


class GraniteMoeSWAConfig(ConfigOfThetas, GraniteMoeSharedConfig):
    model_type = "granitemoe_swa"
    base_model_tp_plan = {at: style for at, style in MixtralConfig.base_model_tp_plan.items() if "self_attn" in at} | OF_SINKS | experts_tp_plan(
        "layers.*.block_sparse_moe.experts")


class GraniteMoeSWADecoderLayer(GraniteMoeSharedDecoderLayer):
    attention = GraniteSWAAttention


class GraniteMoeSWAModel(OfThetas, GraniteMoeSharedModel):
    layer = GraniteMoeSWADecoderLayer

    def embedded(self, x):
        return x


class GraniteMoeSWAForCausalLM(GraniteMoeSharedForCausalLM):
    config_class, decoder, _no_split_modules = GraniteMoeSWAConfig, GraniteMoeSWAModel, ["GraniteMoeSWADecoderLayer"]
    _supports_sdpa = False


causal_lm = GraniteMoeSWAForCausalLM
