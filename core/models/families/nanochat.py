"""nanochat: llama with norms that have no weight, one of them before the layers, heads normed once they are turned, a squared ReLU and capped logits."""
import torch

from transformers.modeling_norm import L2Norm
from transformers.modeling_normed_heads import NormedOnceTurned
from transformers.modeling_plain_mlp import PlainMLP
from transformers.modeling_rope_utils import apply_rotary_pos_emb
from transformers.models.gemma2.modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class NanoChatConfig(LlamaConfig):
    model_type = "nanochat"
    base_model_tp_plan = {k: v for k, v in LlamaConfig.base_model_tp_plan.items() if "mlp" not in k} | {
        "layers.*.mlp.fc1": "colwise", "layers.*.mlp.fc2": "rowwise"}
    vocab_size: int = 50304
    hidden_size: int = 768
    intermediate_size: int = 8192
    num_hidden_layers: int = 12
    num_attention_heads: int = 6
    hidden_act: str = "relu2"
    final_logit_softcapping: float | None = 15.0
    pad_token_id: int | None = 1


class NanoChatRMSNorm(L2Norm):
    def __init__(self, hidden_size, eps):
        super().__init__(eps)


def rotate_half(x):
    """The other way around than llama's."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((x2, -x1), dim=-1)


class NanoChatAttention(NormedOnceTurned):
    norm = NanoChatRMSNorm

    @staticmethod
    def rotate(q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin, turn=rotate_half)


class NanoChatMLP(PlainMLP):
    def bias(self, config):
        return False


class NanoChatDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = NanoChatAttention, NanoChatMLP, NanoChatRMSNorm


class NanoChatModel(LlamaModel):
    layer = NanoChatDecoderLayer

    def normalized(self, hidden_states):
        return self.norm(hidden_states)


class NanoChatForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = NanoChatConfig, NanoChatModel, ["NanoChatDecoderLayer"]
    logits = Gemma2ForCausalLM.logits


causal_lm = NanoChatForCausalLM
