"""rwkv: RWKV-4, weighted sums that decay in the place of attention. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_utils import PreTrainedModel


class RwkvConfig(PreTrainedConfig):
    model_type = "rwkv"
    attribute_map = {"max_position_embeddings": "context_length"}
    vocab_size: int = 50277
    context_length: int = 1024
    hidden_size: int = 4096
    num_hidden_layers: int = 32
    attention_hidden_size: int | None = None
    intermediate_size: int | None = None
    layer_norm_epsilon: float = 1e-5
    rescale_every: int = 6
    tie_word_embeddings: bool = False
    use_cache: bool = True

    def __post_init__(self, **kwargs):
        self.attention_hidden_size = self.hidden_size if self.attention_hidden_size is None else self.attention_hidden_size
        self.intermediate_size = 4 * self.hidden_size if self.intermediate_size is None else self.intermediate_size
        super().__post_init__(**kwargs)


def mix(config):
    return nn.Parameter(torch.empty(1, 1, config.hidden_size))


class RwkvSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.attention_hidden_size
        self.time_decay = nn.Parameter(torch.empty(inner))
        self.time_first = nn.Parameter(torch.empty(inner))
        self.time_mix_key, self.time_mix_value, self.time_mix_receptance = mix(config), mix(config), mix(config)
        for name in ("key", "value", "receptance"):
            setattr(self, name, nn.Linear(width, inner, bias=False))
        self.output = nn.Linear(inner, width, bias=False)


class RwkvFeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.time_mix_key, self.time_mix_receptance = mix(config), mix(config)
        self.key = nn.Linear(width, inner, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(inner, width, bias=False)


class RwkvBlock(nn.Module):
    def __init__(self, config, layer_id):
        super().__init__()
        for name in ("pre_ln", "ln1", "ln2") if layer_id == 0 else ("ln1", "ln2"):
            setattr(self, name, nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon))
        self.attention = RwkvSelfAttention(config)
        self.feed_forward = RwkvFeedForward(config)


class RwkvModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList([RwkvBlock(config, i) for i in range(config.num_hidden_layers)])
        self.ln_out = nn.LayerNorm(config.hidden_size)


class RwkvForCausalLM(InventoryOnly, PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = RwkvConfig, "rwkv", ["RwkvBlock"]
    _tied_weights_keys, supports_gradient_checkpointing = {"head.weight": "rwkv.embeddings.weight"}, True

    def __init__(self, config):
        super().__init__(config)
        self.rwkv = RwkvModel(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def get_input_embeddings(self):
        return self.rwkv.embeddings

    def get_output_embeddings(self):
        return self.head


causal_lm = RwkvForCausalLM
