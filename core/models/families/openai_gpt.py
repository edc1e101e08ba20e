"""openai-gpt: GPT-1, whose norms come after attention and after the linear layers; it has no cache and no kernel of attention."""
import math

import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_decoder import CausalLM
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_stage_gpt import handed_nothing, stage_of
from transformers.modeling_utils import PreTrainedModel
from transformers.pytorch_utils import Conv1D


class OpenAIGPTConfig(PreTrainedConfig):
    model_type = "openai-gpt"
    attribute_map = {"max_position_embeddings": "n_positions", "hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
    bos_token_id: int | None = None
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
        n, self.n_head = config.n_positions, config.n_head
        self.register_buffer("bias", torch.tril(torch.ones(n, n)).view(1, 1, n, n), persistent=False)
        self.c_attn = Conv1D(config.n_embd * 3, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def weigh(self, q, k, v, attention_mask):
        w = torch.matmul(q, k)
        w = w / math.sqrt(v.size(-1))
        b = self.bias[:, :, : w.size(-2), : w.size(-1)]
        w = w * b + -1e4 * (1 - b)
        if attention_mask is not None:
            w = w + attention_mask
        w = nn.functional.softmax(w, dim=-1)
        w = self.attn_dropout(w)
        return torch.matmul(w, v)

    def forward(self, x, attention_mask=None):
        x = self.c_attn(x)
        q, k, v = x.split(x.size(-1) // 3, dim=2)
        shape = (*q.shape[:-1], self.n_head, q.size(-1) // self.n_head)
        q, k, v = q.view(shape).permute(0, 2, 1, 3), k.view(shape).permute(0, 2, 3, 1), v.view(shape).permute(0, 2, 1, 3)
        outputs = [self.weigh(q, k, v, attention_mask)]  # the list holds what a leaves behind
        a = outputs[0]
        a = a.permute(0, 2, 1, 3).contiguous()
        a = a.view(*a.size()[:-2], -1)
        a = self.c_proj(a)
        a = self.resid_dropout(a)
        return a


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = Conv1D(4 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, 4 * config.n_embd)
        self.act = ACT2FN["gelu_new" if config.afn == "gelu" else config.afn]
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x):
        h = self.act(self.c_fc(x))
        h2 = self.c_proj(h)
        return self.dropout(h2)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = Attention(config)
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = MLP(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)

    def forward(self, x, attention_mask=None):
        a = self.attn(x, attention_mask=attention_mask)
        n = self.ln_1(x + a)
        m = self.mlp(n)
        return self.ln_2(n + m)


class OpenAIGPTPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, _input_embed_layer, position_table = OpenAIGPTConfig, "transformer", "tokens_embed", True


class OpenAIGPTModel(OpenAIGPTPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.tokens_embed = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions_embed = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.register_buffer("position_ids", torch.arange(config.n_positions), persistent=False)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None, past_key_values=None, use_cache=None, **kwargs):
        if position_ids is None:
            position_ids = self.position_ids[None, : input_ids.shape[-1]]
        if attention_mask is not None:
            attention_mask = attention_mask.unsqueeze(1).unsqueeze(2)
            attention_mask = attention_mask.to(dtype=self.dtype)
            attention_mask = (1.0 - attention_mask) * torch.finfo(self.dtype).min
        inputs_embeds = self.tokens_embed(input_ids)
        position_embeds = self.positions_embed(position_ids)
        hidden_states = inputs_embeds + position_embeds + 0
        hidden_states = self.drop(hidden_states)
        for block in self.h:
            hidden_states = block(hidden_states, attention_mask)
        hidden_states = hidden_states.view(*input_ids.shape, hidden_states.size(-1))
        return BaseModelOutputWithPast(last_hidden_state=hidden_states)


class OpenAIGPTLMHeadModel(CausalLM, OpenAIGPTPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.tokens_embed.weight"}
    decoder, stage = OpenAIGPTModel, stage_of(handed_nothing)
    widened_by_autocast = True  # a layer ends in a norm


causal_lm = OpenAIGPTLMHeadModel
