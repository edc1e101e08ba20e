"""granite_swa: granite with windows in three of four layers, a sink a head that scales what attention gives, and a base of rotation for each layer."""
import torch
from torch import nn

from transformers.integrations.sdpa_attention import repeat_kv
from transformers.modeling_decoder import DecoderOfKinds
from transformers.models.granite.modeling_granite import GraniteAttention, GraniteConfig, GraniteDecoderLayer, GraniteForCausalLM, GraniteModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.modeling_rope_utils import apply_rotary_pos_emb
from transformers.releases import refuse

OF_SINKS = {"layers.*.self_attn.sinks": "colwise", "layers.*.self_attn": "local_params"}


class ConfigOfThetas:
    """Windows in three of four layers and a base for each, where the file does not say it. First among the bases of a config's class."""

    sliding_window: int | None = 128
    layer_types: list | None = None
    layer_rope_theta: list | None = None

    def __post_init__(self, **kwargs):
        self.layer_types = self.layer_types or ["sliding_attention" if i % 4 else "full_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)
        self.layer_rope_theta = self.layer_rope_theta or [self.rope_parameters["rope_theta"]] * self.num_hidden_layers


class GraniteSWAConfig(ConfigOfThetas, GraniteConfig):
    model_type, base_model_tp_plan = "granite_swa", GraniteConfig.base_model_tp_plan | OF_SINKS
    vocab_size: int = 100352
    hidden_size: int = 2560
    intermediate_size: int = 8192
    num_hidden_layers: int = 24
    num_attention_heads: int = 20
    num_key_value_heads: int | None = 4
    max_position_embeddings: int = 8192
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True


def eager_attention_scaled(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """Scaled by how much of the softmax is left beside the sink."""
    keys = repeat_kv(key, module.num_key_value_groups)
    values = repeat_kv(value, module.num_key_value_groups)
    weights = torch.matmul(query, keys.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    lse = torch.logsumexp(weights, dim=-1)
    share = (lse - module.sinks.view(1, -1, 1)).to(torch.float32).sigmoid()
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, values)
    output = output * share.unsqueeze(-1).to(output.dtype)
    output = output.transpose(1, 2).contiguous()
    return output, weights


class GraniteSWAAttention(GraniteAttention):
    eager = staticmethod(eager_attention_scaled)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.turns = bool(config.layer_rope_theta[layer_idx])
        self.keywords = {"sliding_window": config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None}
        self.sinks = nn.Parameter(torch.zeros(config.num_attention_heads))

    def forward(self, hidden_states, position_embeddings=None, **kwargs):
        if self.config._attn_implementation == "flash_attention_2":
            refuse("/training/attention", "%s takes a flash kernel of the hub that knows sinks in its place; that is not modelled: attention eager" % self.config.model_type)
        return super().forward(hidden_states, position_embeddings=position_embeddings or (None, None), s_aux=self.sinks, **kwargs)

    @staticmethod
    def rotate(q, k, cos, sin):
        return (q, k) if cos is None else apply_rotary_pos_emb(q, k, cos, sin)


class OfThetas(DecoderOfKinds):
    """A rotary embedding for each base that is not 0, beside the one that nobody asks. First among the bases of a model's class."""

    def finish(self, config):
        super().finish(config)
        self.thetas, given = sorted({theta for theta in config.layer_rope_theta if theta}), config.rope_parameters
        made = []
        for theta in self.thetas:
            config.rope_parameters = {**given, "rope_theta": theta}
            made.append(self.rotary(config))
        config.rope_parameters = given
        self.rotary_embs = nn.ModuleList(made)

    def scaled(self, inputs_embeds):
        return inputs_embeds * self.config.embedding_multiplier

    def tables(self, hidden_states, position_ids):
        tables = {theta: rotary(hidden_states, position_ids) for theta, rotary in zip(self.thetas, self.rotary_embs)}
        return [tables[theta] if theta else None for theta in self.config.layer_rope_theta]


class GraniteSWADecoderLayer(GraniteDecoderLayer):
    attention = GraniteSWAAttention


class GraniteSWAModel(OfThetas, GraniteModel):
    layer, rotary = GraniteSWADecoderLayer, LlamaRotaryEmbedding


class GraniteSWAForCausalLM(GraniteForCausalLM):
    config_class, decoder, _no_split_modules = GraniteSWAConfig, GraniteSWAModel, ["GraniteSWADecoderLayer"]
    _supports_sdpa = False


causal_lm = GraniteSWAForCausalLM
