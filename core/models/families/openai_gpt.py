"""openai-gpt: GPT-1, whose norms come after attention and after the linear layers. Its parameters; a step is not modelled."""
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_utils import PreTrainedModel
from transformers.pytorch_utils import Conv1D


class OpenAIGPTConfig(PreTrainedConfig):
    model_type = "openai-gpt"
    attribute_map = {"max_position_embeddings": "n_positions", "hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
    vocab_size: int = 40478
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    afn: str = "gelu"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = Conv1D(config.n_embd * 3, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = Conv1D(4 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, 4 * config.n_embd)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = Attention(config)
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = MLP(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)


class OpenAIGPTModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokens_embed = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions_embed = nn.Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])


class OpenAIGPTLMHeadModel(InventoryOnly, PreTrainedModel):
    config_class, base_model_prefix, position_table = OpenAIGPTConfig, "transformer", True
    _tied_weights_keys = {"lm_head.weight": "transformer.tokens_embed.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.transformer = OpenAIGPTModel(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def get_input_embeddings(self):
        return self.transformer.tokens_embed


causal_lm = OpenAIGPTLMHeadModel
