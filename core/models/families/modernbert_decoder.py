"""modernbert-decoder: modernbert that looks back alone, queries, keys and values projected one by one."""
import torch
from torch import nn

from transformers.cache_utils import DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_decoder import CausalLM, attend
from transformers.modeling_modern_encoder import ModernBertBody, ModernBertEncoderLayer, ModernBertPredictionHead, eager_attention_forward, turned_in_fp32
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_stage import rows
from transformers.modeling_utils import PreTrainedModel
from transformers.models.modernbert.modeling_modernbert import ModernBertConfig
from transformers.releases import refuse
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class ModernBertDecoderConfig(ModernBertConfig):
    model_type = "modernbert-decoder"
    local_attention: int | None = 128
    use_cache: bool = True

    def __post_init__(self, **kwargs):
        given, self.local_attention = self.local_attention, self.local_attention or -2  # whose half is -1, as ModernBertDecoderConfig has it
        super().__post_init__(**kwargs)
        self.local_attention = given
        if self.hidden_size % self.num_attention_heads:
            refuse("/config/num_attention_heads", "ModernBertDecoderAttention wants a divisor of hidden_size")

    def _rope(self, others):
        scaling = others.get("rope_scaling")
        super()._rope(others)
        self.rope_parameters["sliding_attention"].update(scaling or {})


class ModernBertDecoderAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.is_causal, self.head_dim = config, layer_idx, True, config.hidden_size // config.num_attention_heads
        for name in ("q_proj", "k_proj", "v_proj", "Wo"):
            setattr(self, name, nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias))
        self.out_drop = nn.Dropout(config.attention_dropout)
        self.sliding_window = config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        cos, sin = position_embeddings
        q, k = turned_in_fp32(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.config.attention_dropout if self.training else 0.0,
                                 scaling=self.head_dim**-0.5, sliding_window=self.sliding_window, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.out_drop(self.Wo(output))
        return output, weights


class ModernBertDecoderLayer(ModernBertEncoderLayer):
    attention = ModernBertDecoderAttention

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.attn_norm(hidden_states)
        outputs = self.attn(hidden_states=hidden_states, **kwargs)
        hidden_states = outputs[0]
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.mlp_norm(hidden_states)
        mlp_output = self.mlp(hidden_states)
        hidden_states = residual + mlp_output
        return hidden_states


class ModernBertDecoderPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = ModernBertDecoderConfig, "model", ["ModernBertDecoderLayer"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = _supports_attention_backend = True


def masks_of(**of):
    return {"full_attention": create_causal_mask(**of), "sliding_attention": create_sliding_window_causal_mask(**of)}


class ModernBertDecoderModel(ModernBertBody, ModernBertDecoderPreTrainedModel):
    layer = ModernBertDecoderLayer

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        hidden_states = self.embeddings(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = torch.arange(hidden_states.shape[1], device=hidden_states.device) + seen
            position_ids = position_ids.unsqueeze(0).expand(hidden_states.shape[0], -1)
        masks = attention_mask
        if not isinstance(masks, dict):
            of = dict(config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values,
                      position_ids=position_ids)
            masks = masks_of(**of)
        tables = {kind: self.rotary_emb(hidden_states, position_ids, kind) for kind in sorted(set(self.config.layer_types))}
        for layer, kind in zip(self.layers, self.config.layer_types):
            hidden_states = layer(hidden_states, attention_mask=masks[kind], position_embeddings=tables[kind], past_key_values=past_key_values,
                                  position_ids=position_ids, **kwargs)
        hidden_states = self.final_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class ModernBertDecoderForCausalLM(CausalLM, ModernBertDecoderPreTrainedModel):
    _tied_weights_keys, before_head = {"decoder.weight": "model.embeddings.tok_embeddings.weight"}, ("lm_head",)
    widened_by_autocast = True  # by the norm of its embeddings

    def __init__(self, config):
        ModernBertDecoderPreTrainedModel.__init__(self, config)
        self.model = ModernBertDecoderModel(config)
        self.lm_head = ModernBertPredictionHead(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=config.decoder_bias)
        self.post_init()

    def get_output_embeddings(self):
        return self.decoder

    def logits(self, x):
        return self.decoder(self.lm_head(x))

    def stage(self, x, first, end, starts, ends):
        decoder, kinds = self.model, self.config.layer_types
        hidden_states = decoder.embeddings(x) if starts else x
        position_ids = rows(hidden_states).expand(hidden_states.shape[0], -1)
        masks = masks_of(config=self.config, inputs_embeds=hidden_states, attention_mask=None, past_key_values=None)
        tables = {kind: decoder.rotary_emb(hidden_states, position_ids, kind) for kind in sorted(set(kinds))}
        for layer, kind in zip(decoder.layers[first:end], kinds[first:end]):
            hidden_states = layer(hidden_states, attention_mask=masks[kind], position_embeddings=tables[kind], position_ids=position_ids)
        return self.logits(decoder.final_norm(hidden_states)) if ends else hidden_states


causal_lm = ModernBertDecoderForCausalLM
