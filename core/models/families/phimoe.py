"""phimoe: mixtral with layer norms and routers that sample. Its parameters; a step is not modelled."""
from torch import nn

from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_moe import SparseMoeBlock
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaDecoderLayer
from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralExperts, MixtralForCausalLM, MixtralModel


class PhimoeConfig(MixtralConfig):
    model_type = "phimoe"
    base_model_tp_plan = None
    vocab_size: int = 32064
    intermediate_size: int = 6400
    num_local_experts: int = 16
    attention_bias: bool = False
    lm_head_bias: bool = False


class PhimoeTopKRouter(nn.Linear):
    def __init__(self, config):
        super().__init__(config.hidden_size, config.num_local_experts, bias=False)


class PhimoeSparseMoeBlock(SparseMoeBlock):
    router, experts_class, made = PhimoeTopKRouter, MixtralExperts, ("router", "experts")


class PhimoeDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = LlamaAttention, PhimoeSparseMoeBlock, nn.LayerNorm


class PhimoeModel(MixtralModel):
    layer = PhimoeDecoderLayer


class PhimoeForCausalLM(InventoryOnly, MixtralForCausalLM):
    config_class, decoder, _no_split_modules = PhimoeConfig, PhimoeModel, ["PhimoeDecoderLayer"]

    def __init__(self, config):
        self.head_bias = config.lm_head_bias
        super().__init__(config)


causal_lm = PhimoeForCausalLM
