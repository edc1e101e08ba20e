"""nanochat: llama with norms that have no weight, one of them before the layers, heads normed once they are turned, a squared ReLU and capped logits."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import attend
from transformers.modeling_norm import L2Norm
from transformers.modeling_rope_utils import apply_rotary_pos_emb
from transformers.models.gemma2.modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


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


class NanoChatAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = NanoChatRMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = NanoChatRMSNorm(self.head_dim, config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        q, k, v = self.project(hidden_states)
        cos, sin = position_embeddings
        q, k = apply_rotary_pos_emb(q, k, cos, sin, turn=rotate_half)
        q = self.q_norm(q)
        k = self.k_norm(k)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, self.eager, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = getattr(self, self.out)(output)
        return output, weights


class NanoChatMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.activation_fn = ACT2FN[config.hidden_act]
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation_fn(hidden_states)
        hidden_states = self.fc2(hidden_states)
        return hidden_states


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
