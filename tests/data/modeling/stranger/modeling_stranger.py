"""What repositories of 2023 do at their top and in their classes: switches, guards, einops, casts of their own, a forward without **kwargs."""
import importlib
import math
import queue
import sys
import threading
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from einops import rearrange, repeat
from torch import nn
from torch.nn.utils import skip_init
from transformers import PreTrainedModel, PreTrainedTokenizer, StoppingCriteriaList
from transformers.generation.logits_process import LogitsProcessor
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import logging

from .configuration_stranger import StrangerConfig

if sys.platform != "darwin":
    torch._C._jit_set_profiling_mode(False)
    torch._C._jit_override_can_fuse_on_gpu(True)

logger = logging.get_logger(__name__)

try:
    from flash_attn.ops.rms_norm import rms_norm
except ImportError:
    rms_norm = None


class InvalidScore(LogitsProcessor):
    def __call__(self, input_ids, scores):
        return scores


class StrangerNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class StrangerAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.num_groups
        self.dim = config.hidden_size // self.heads
        self.wqkv = nn.Linear(config.hidden_size, (self.heads + 2 * self.groups) * self.dim, bias=False)
        self.out = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x, mask):
        share = self.heads // self.groups
        qkv = rearrange(self.wqkv(x), "b q (h gs d) -> b q h gs d", gs=share + 2, d=self.dim)
        q = rearrange(qkv[..., :share, :], "b q h gs d -> b q (h gs) d")
        k, v = qkv[..., -2, :], qkv[..., -1, :]
        q = q.transpose(1, 2)
        k = repeat(k, "b s h d -> b (h r) s d", r=share)
        v = repeat(v, "b s h d -> b (h r) s d", r=share)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.dim) + mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.out(rearrange(torch.matmul(weights, v), "b h s d -> b s (h d)"))


class StrangerBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = StrangerNorm(config.hidden_size)
        self.attention = StrangerAttention(config)
        self.up = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.down = nn.Linear(3 * config.hidden_size, config.hidden_size)

    def forward(self, x, mask):
        x = x + self.attention(self.norm(x), mask)
        return x + self.down(F.gelu(self.up(x)))


class StrangerPreTrainedModel(PreTrainedModel):
    config_class = StrangerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["StrangerBlock"]

    def _init_weights(self, module):
        pass


class StrangerModel(StrangerPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        if importlib.util.find_spec("einops") is None:
            raise RuntimeError("einops is required")
        self.slopes = torch.Tensor([2.0 ** -(i + 1) for i in range(config.num_attention_heads)])
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList([StrangerBlock(config) for _ in range(config.num_hidden_layers)])
        self.norm = StrangerNorm(config.hidden_size)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        n = input_ids.shape[1]
        mask = torch.full((n, n), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
        mask = torch.triu(mask, diagonal=1)[None, None]
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                x = torch.utils.checkpoint.checkpoint(block.__call__, x, mask, use_reentrant=False)
            else:
                x = block(x, mask)
        return self.norm(x)


class StrangerForCausalLM(StrangerPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        if not config.bf16:
            logger.warn("runs in fp32")
        self.model = StrangerModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.bf16:
            self.model.bfloat16()
            self.lm_head.bfloat16()
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed

    def get_output_embeddings(self):
        return self.lm_head

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}

    def forward(self, input_ids: torch.LongTensor = None, attention_mask: Optional[torch.Tensor] = None, labels: Optional[torch.LongTensor] = None,
                return_dict: Optional[bool] = None) -> Tuple:
        logits = self.lm_head(self.model(input_ids, attention_mask)).float()
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = nn.CrossEntropyLoss()(shift_logits.view(-1, self.config.vocab_size), shift_labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)

    @torch.no_grad()
    def chat(self, tokenizer: "PreTrainedTokenizer", query: str, history: List = None, stop: StoppingCriteriaList = None):
        lock = threading.Lock()
        waiting = queue.Queue()
        return lock, waiting
