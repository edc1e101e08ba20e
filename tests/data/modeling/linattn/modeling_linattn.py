# coding=utf-8
"""Causal linear attention in chunks, elu + 1 features, after Katharopoulos et al. and the chunked form of GLA."""
from typing import Optional, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils import logging

logger = logging.get_logger(__name__)


class LinAttnConfig(PretrainedConfig):
    model_type = "linattn"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(
        self,
        vocab_size: int = 1000,
        hidden_size: int = 128,
        num_hidden_layers: int = 3,
        num_heads: int = 4,
        chunk_size: int = 16,
        expand_ratio: float = 8 / 3,
        feature_map: str = "elu",
        rms_norm_eps: float = 1e-6,
        initializer_range: float = 0.02,
        tie_word_embeddings: bool = True,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_heads = num_heads
        self.chunk_size = chunk_size
        self.expand_ratio = expand_ratio
        self.feature_map = feature_map
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


def elu_feature_map(x: Tensor) -> Tensor:
    return F.elu(x.float(), 1.0, False).to(x.dtype) + 1.0


def relu_feature_map(x: Tensor) -> Tensor:
    return F.relu(x) + 1e-3


FEATURES = {"elu": elu_feature_map, "relu": relu_feature_map}


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class LinearAttention(nn.Module):
    def __init__(self, config: LinAttnConfig, layer_idx: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.heads = config.num_heads
        self.dim_head = config.hidden_size // config.num_heads
        self.chunk = config.chunk_size
        self.phi = FEATURES[config.feature_map]
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.gate = nn.Linear(config.hidden_size, config.hidden_size, bias=True)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = RMSNorm(self.dim_head, config.rms_norm_eps)
        mask = torch.tril(torch.ones(self.chunk, self.chunk))
        self.register_buffer("tril", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        pad = (-T) % self.chunk
        if pad:
            x = F.pad(x, (0, 0, 0, pad))
        n = x.shape[1] // self.chunk
        q, k, v = self.qkv(x).reshape(B, n, self.chunk, 3, self.heads, self.dim_head).permute(3, 0, 4, 1, 2, 5).unbind(0)
        q, k = self.phi(q), self.phi(k)
        kv = torch.einsum("bhncd,bhnce->bhnde", k, v)
        state = kv.cumsum(dim=2) - kv
        inter = torch.einsum("bhncd,bhnde->bhnce", q, state)
        scores = torch.einsum("bhncd,bhnmd->bhncm", q, k) * self.tril.to(q.dtype)
        intra = scores @ v
        z = torch.einsum("bhncd,bhncd->bhnc", q, k.cumsum(-2)).unsqueeze(-1).clamp(min=1e-3)
        out = (inter + intra) / z
        out = self.norm(out)
        out = out.permute(0, 2, 3, 1, 4).reshape(B, -1, C)[:, :T]
        out = out * torch.sigmoid(self.gate(x[:, :T]))
        return self.proj(out)


class GLU(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = int(config.hidden_size * config.expand_ratio)
        hidden = 16 * ((hidden + 15) // 16)
        self.w12 = nn.Linear(config.hidden_size, 2 * hidden, bias=False)
        self.w3 = nn.Linear(hidden, config.hidden_size, bias=False)

    def forward(self, x):
        a, b = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(a) * b)


class LinAttnBlock(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.attn_norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.attn = LinearAttention(config, layer_idx=layer_idx)
        self.mlp_norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = GLU(config)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.attn_norm(hidden_states)
        hidden_states = self.attn(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.mlp(self.mlp_norm(hidden_states))
        return residual + hidden_states


class LinAttnPreTrainedModel(PreTrainedModel):
    config_class = LinAttnConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["LinAttnBlock"]

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Conv1d)):
            nn.init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)


class LinAttnModel(LinAttnPreTrainedModel):
    def __init__(self, config: LinAttnConfig):
        super().__init__(config)
        self.padding_idx = getattr(config, "pad_token_id", None)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, self.padding_idx)
        self.layers = nn.ModuleList([LinAttnBlock(config, layer_idx) for layer_idx in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings

    def set_input_embeddings(self, value):
        self.embeddings = value

    def forward(
        self,
        input_ids: Optional[torch.LongTensor] = None,
        attention_mask: Optional[torch.Tensor] = None,
        inputs_embeds: Optional[torch.FloatTensor] = None,
        output_hidden_states: Optional[bool] = None,
        return_dict: Optional[bool] = None,
    ) -> Union[Tuple, BaseModelOutputWithPast]:
        output_hidden_states = output_hidden_states if output_hidden_states is not None else self.config.output_hidden_states
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError("You cannot specify both input_ids and inputs_embeds at the same time")
        if input_ids is None and inputs_embeds is None:
            raise ValueError("You have to specify either input_ids or inputs_embeds")
        if inputs_embeds is None:
            inputs_embeds = self.embeddings(input_ids)
        hidden_states = inputs_embeds
        all_hidden_states = () if output_hidden_states else None
        for layer in self.layers:
            if output_hidden_states:
                all_hidden_states += (hidden_states,)
            if self.gradient_checkpointing and self.training:
                hidden_states = self._gradient_checkpointing_func(layer.__call__, hidden_states)
            else:
                hidden_states = layer(hidden_states)
        hidden_states = self.norm(hidden_states)
        if not return_dict:
            return tuple(i for i in [hidden_states, all_hidden_states] if i is not None)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, hidden_states=all_hidden_states)


class LinAttnForCausalLM(LinAttnPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = LinAttnModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.criterion = None
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embeddings

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, output_hidden_states=None,
                return_dict=None, num_logits_to_keep: int = 0, **kwargs):
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds,
                             output_hidden_states=output_hidden_states, return_dict=return_dict)
        hidden_states = outputs[0]
        logits = self.lm_head(hidden_states if num_logits_to_keep == 0 else hidden_states[:, -num_logits_to_keep:])
        loss = None
        if labels is not None:
            criterion = self.criterion or nn.CrossEntropyLoss()
            labels = labels.to(logits.device)
            labels = torch.cat((labels[..., 1:], torch.full_like(labels[:, :1], criterion.ignore_index)), 1)
            loss = criterion(logits.view(labels.numel(), -1), labels.view(-1))
        if not return_dict:
            output = (logits,) + outputs[1:]
            return (loss,) + output if loss is not None else output
        return CausalLMOutputWithPast(loss=loss, logits=logits, hidden_states=outputs.hidden_states)
