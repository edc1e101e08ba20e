import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn

from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.utils import logging

from .configuration_sliding import SlidingConfig

logger = logging.get_logger(__name__)


def make_window_mask(seq_len: int, window: Optional[int], dtype: torch.dtype, device) -> Tensor:
    mask = torch.full((seq_len, seq_len), torch.finfo(dtype).min, dtype=dtype, device=device)
    mask = torch.triu(mask, diagonal=1)
    if window is not None:
        i = torch.arange(seq_len, device=device)
        too_far = (i[:, None] - i[None, :]) >= window
        mask = mask.masked_fill(too_far, torch.finfo(dtype).min)
    return mask[None, None, :, :]


def expand_padding(attention_mask: Tensor, dtype) -> Tensor:
    inverted = 1.0 - attention_mask[:, None, None, :].to(dtype)
    return inverted.masked_fill(inverted.to(torch.bool), torch.finfo(dtype).min)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class Attention(nn.Module):
    def __init__(self, config: SlidingConfig, layer_idx: int):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // self.num_heads
        self.is_sliding = config.layer_types[layer_idx] == "sliding_attention"
        self.window = config.window if self.is_sliding else None
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.attn_drop = nn.Dropout(config.attention_dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
        bsz, seq, dim = x.shape
        qkv = self.qkv(x).reshape(bsz, seq, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        scores = scores + mask
        probs = F.softmax(scores.float(), dim=-1).type_as(scores)
        probs = self.attn_drop(probs)
        out = (probs @ v).transpose(1, 2).reshape(bsz, seq, dim)
        return self.proj(out), probs


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.w2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.w3 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.attn = Attention(config, layer_idx)
        self.mlp = FeedForward(config)
        self.attn_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.ffn_norm = RMSNorm(config.hidden_size, config.norm_eps)

    def forward(self, x, full_mask, window_mask, output_attentions=False):
        attn_out, probs = self.attn(self.attn_norm(x), window_mask if self.attn.is_sliding else full_mask)
        h = x + attn_out
        out = h + self.mlp(self.ffn_norm(h))
        return (out, probs) if output_attentions else (out,)


class SlidingPreTrainedModel(PreTrainedModel):
    config_class = SlidingConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]


class SlidingModel(SlidingPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, output_hidden_states=None, output_attentions=None, return_dict=None, **kwargs):
        output_attentions = output_attentions if output_attentions is not None else self.config.output_attentions
        output_hidden_states = output_hidden_states if output_hidden_states is not None else self.config.output_hidden_states
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        bsz, seq = input_ids.shape
        pos = torch.arange(seq, dtype=torch.long, device=input_ids.device)
        x = self.embed_tokens(input_ids) + self.embed_positions(pos)
        full_mask = make_window_mask(seq, None, x.dtype, x.device)
        window_mask = make_window_mask(seq, self.config.window, x.dtype, x.device)
        if attention_mask is not None and attention_mask.dim() == 2:
            padding = expand_padding(attention_mask, x.dtype)
            full_mask = full_mask + padding
            window_mask = window_mask + padding
        all_hidden_states = () if output_hidden_states else None
        all_attentions = () if output_attentions else None
        for layer in self.layers:
            if output_hidden_states:
                all_hidden_states += (x,)
            if self.gradient_checkpointing and self.training:
                outputs = self._gradient_checkpointing_func(layer.__call__, x, full_mask, window_mask, output_attentions)
            else:
                outputs = layer(x, full_mask, window_mask, output_attentions=output_attentions)
            x = outputs[0]
            if output_attentions:
                all_attentions += (outputs[1],)
        x = self.norm(x)
        if not return_dict:
            return tuple(v for v in [x, None, all_hidden_states, all_attentions] if v is not None)
        return BaseModelOutputWithPast(last_hidden_state=x, past_key_values=None, hidden_states=all_hidden_states, attentions=all_attentions)


class SlidingForCausalLM(SlidingPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = SlidingModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, labels=None, return_dict=None, **kwargs):
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=return_dict)
        logits = self.lm_head(outputs[0])
        logits = logits.float()
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss_fct = nn.CrossEntropyLoss()
            shift_logits = shift_logits.view(-1, self.config.vocab_size)
            shift_labels = shift_labels.view(-1)
            shift_labels = shift_labels.to(shift_logits.device)
            loss = loss_fct(shift_logits, shift_labels)
        if not return_dict:
            output = (logits,) + outputs[1:]
            return (loss,) + output if loss is not None else output
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values,
                                      hidden_states=outputs.hidden_states, attentions=outputs.attentions)
