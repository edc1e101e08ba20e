"""qwen3_5_text: qwen3_next with projections apart, dense layers and positions of three grids, which text shares."""
import torch
from torch import nn

from transformers.modeling_decoder import CausalLM
from transformers.modeling_rope_utils import RotaryEmbedding, dynamic_rope_update
from transformers.models.qwen2.modeling_qwen2 import Qwen2Config
from transformers.models.qwen3_next.modeling_qwen3_next import NORMS, Qwen3NextConfig, Qwen3NextDecoderLayer, Qwen3NextForCausalLM, Qwen3NextGatedDeltaNet
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextModel

GATHERED = {f"layers.*.linear_attn.{name}": "colwise_gather_output" for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")}


class Qwen3_5TextConfig(Qwen3NextConfig):
    model_type = "qwen3_5_text"
    base_model_tp_plan = Qwen2Config.base_model_tp_plan | NORMS | GATHERED
    vocab_size: int = 248320
    hidden_size: int = 4096
    intermediate_size: int = 12288
    num_hidden_layers: int = 32
    num_key_value_heads: int | None = 4
    num_experts: int = 0


class Qwen3_5TextRotaryEmbedding(RotaryEmbedding):
    sections = [11, 11, 10]

    def __init__(self, config):
        super().__init__(config)
        self.mrope_section = config.rope_parameters.get("mrope_section", self.sections)

    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        position_ids = position_ids.expand(3, -1, -1)
        freqs = position_ids[..., None].float() * self.inv_freq.to(device=x.device, dtype=torch.float)
        cos = freqs.cos() * self.attention_scaling
        sin = freqs.sin() * self.attention_scaling
        sin = self.recomposition_frequencies(sin)
        cos = self.recomposition_frequencies(cos)
        return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)

    def recomposition_frequencies(self, freq):
        """Height and width are written between those of time, in place."""
        first = freq[0]
        for dim in (1, 2):
            places = slice(dim, self.mrope_section[dim] * 3, 3)
            first[..., places] = freq[dim, ..., places]
        return torch.cat((first, first), dim=-1)


class Qwen3_5GatedDeltaNet(Qwen3NextGatedDeltaNet):
    def make_projections(self, config):
        """After the others."""

    def place_projections(self, config):
        self.in_proj_qkv = nn.Linear(config.hidden_size, self.key_dim * 2 + self.value_dim, bias=False)
        self.in_proj_z = nn.Linear(config.hidden_size, self.value_dim, bias=False)
        self.in_proj_b = nn.Linear(config.hidden_size, self.num_v_heads, bias=False)
        self.in_proj_a = nn.Linear(config.hidden_size, self.num_v_heads, bias=False)

    def project(self, x):
        mixed = self.in_proj_qkv(x)
        mixed = mixed.transpose(1, 2)
        z = self.in_proj_z(x)
        z = z.reshape(*x.shape[:2], -1, self.head_v_dim)
        b = self.in_proj_b(x)
        a = self.in_proj_a(x)
        return mixed, z, b, a, None


class Qwen3_5DecoderLayer(Qwen3NextDecoderLayer):
    delta = Qwen3_5GatedDeltaNet


def tables_of_grids(model, hidden_states, position_ids):
    batch = hidden_states.shape[0]
    if position_ids.ndim == 3:  # those of text before them
        return [model.rotary_emb(hidden_states, position_ids=position_ids[1:])] * len(model.layers)
    return [model.rotary_emb(hidden_states, position_ids=position_ids.expand(batch, -1)[None].expand(3, batch, -1))] * len(model.layers)


class Qwen3_5TextModel(Qwen3NextModel):
    layer, rotary, tables = Qwen3_5DecoderLayer, Qwen3_5TextRotaryEmbedding, tables_of_grids


class Qwen3_5ForCausalLM(Qwen3NextForCausalLM):
    config_class, decoder, _no_split_modules = Qwen3_5TextConfig, Qwen3_5TextModel, ["Qwen3_5DecoderLayer"]
    forward, balances_unasked = CausalLM.forward, False  # configuration_qwen3_5.py has no router_aux_loss_coef


causal_lm = Qwen3_5ForCausalLM
