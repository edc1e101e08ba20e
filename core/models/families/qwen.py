"""qwen: the first Qwen, whose classes stand beside its weights on the hub (modeling_qwen.py of Qwen-72B since December 2023). Transformers has none."""
import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_first_qwen import QWenBlock, QWenRMSNorm, RotaryEmbedding, by_flash
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.releases import refuse

OLDER = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_positions": "max_position_embeddings",
         "ffn_hidden_size": "intermediate_size", "embd_pdrop": "emb_dropout_prob", "attn_pdrop": "attn_dropout_prob"}  # of August 2023


class QWenConfig(PreTrainedConfig):
    model_type = "qwen"
    attribute_map = OLDER
    vocab_size: int = 151936
    hidden_size: int = 4096
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    emb_dropout_prob: float = 0.0
    attn_dropout_prob: float = 0.0
    layer_norm_epsilon: float = 1e-6
    max_position_embeddings: int = 8192
    use_cache: bool = True
    fp32: bool = False
    kv_channels: int = 128
    rotary_pct: float = 1.0
    rotary_emb_base: int = 10000
    use_dynamic_ntk: bool = True
    use_logn_attn: bool = True
    seq_length: int = 8192
    intermediate_size: int = 22016
    no_bias: bool = True
    softmax_in_fp32: bool = False
    tie_word_embeddings: bool = False


class QWenPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = QWenConfig, "transformer"
    supports_gradient_checkpointing = True
    _supports_sdpa = _supports_flash_attn = True
    _no_split_modules = ["QWenBlock"]
    _input_embed_layer = "wte"


class QWenModel(QWenPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        if config._attn_implementation == "eager":
            refuse("/training/attention", "modeling_qwen.py runs PyTorch's scaled_dot_product_attention (sdpa), or flash-attn where that is installed")
        self.gradient_checkpointing = False
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.drop = nn.Dropout(config.emb_dropout_prob)
        self.rotary_emb = RotaryEmbedding(int(config.kv_channels * config.rotary_pct), config.rotary_emb_base)
        self.h = nn.ModuleList([QWenBlock(config) for _ in range(config.num_hidden_layers)])
        self.ln_f = QWenRMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.post_init()

    def ntk_alpha(self, length, seen):
        if self.training or not self.config.use_dynamic_ntk:
            return 1.0
        if seen:
            return self.rotary_emb.alpha
        return max(2 ** math.ceil(math.log(length / self.config.seq_length, 2) + 1) - 1, 1)

    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        input_shape = input_ids.size()
        input_ids = input_ids.view(-1, input_shape[-1])
        seen, pasts = 0, (None,) * len(self.h)
        if past_key_values is not None:  # of generate(): the file's own is a tuple
            seen, pasts = past_key_values.get_seq_length(), past_key_values.layers
        if position_ids is None:
            position_ids = torch.arange(seen, input_shape[-1] + seen, dtype=torch.long, device=input_ids.device)
            position_ids = position_ids.unsqueeze(0).view(-1, input_shape[-1])
        tokens = attention_mask
        if attention_mask is not None:
            attention_mask = attention_mask.view(input_ids.shape[0], -1)
            attention_mask = attention_mask[:, None, None, :]
            attention_mask = attention_mask.to(dtype=self.dtype)
            attention_mask = (1.0 - attention_mask) * torch.finfo(self.dtype).min
        inputs_embeds = self.wte(input_ids)
        hidden_states = inputs_embeds
        length = hidden_states.size()[1] + seen
        rotary = self.rotary_emb(length, self.ntk_alpha(length, seen), hidden_states.device)
        hidden_states = self.drop(hidden_states)
        output_shape = input_shape + (hidden_states.size(-1),)
        if self.gradient_checkpointing and self.training:
            use_cache = False
        presents = () if use_cache and past_key_values is None else None
        for block, past in zip(self.h, pasts):
            if self.gradient_checkpointing and self.training:  # reentrant, whatever the Trainer is told
                outputs = checkpoint(block, hidden_states, rotary, None, attention_mask, use_cache, tokens, use_reentrant=True)
            else:
                outputs = block(hidden_states, rotary, past, attention_mask, use_cache, tokens)
            hidden_states = outputs[0]
            if presents is not None:
                presents = presents + (outputs[1],)
        hidden_states = self.ln_f(hidden_states)
        hidden_states = hidden_states.view(output_shape)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=presents if past_key_values is None else past_key_values)


class QWenLMHeadModel(QWenPreTrainedModel):
    takes_positions, prepares_alike = False, True  # for generate(): the last token and the cache, as llama does
    items_are_not_taken = True  # forward has no **kwargs

    def __init__(self, config):
        super().__init__(config)
        self.transformer = QWenModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, labels=None, use_cache=None,
                **kwargs):
        if not self.training and input_ids.size(0) == 1:  # prepare_inputs_for_generation()
            attention_mask = None
        outputs = self.transformer(input_ids, past_key_values=past_key_values, attention_mask=attention_mask, position_ids=position_ids,
                                   use_cache=use_cache)
        hidden_states = outputs[0]
        logits = self.lm_head(hidden_states)
        loss = None
        if labels is not None:
            labels = labels.to(logits.device)
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = nn.CrossEntropyLoss()(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)

    def stage_gap(self, first, end):
        return "its classes stand on the hub, of a time before transformers 5, and stages are modelled with transformers 5"


causal_lm = QWenLMHeadModel
