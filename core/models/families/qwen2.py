"""qwen2: llama with biases on query, key and value, and a window in the upper layers where it is asked for."""
import torch

from transformers.cache_utils import DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class Qwen2Config(LlamaConfig):
    model_type = "qwen2"
    vocab_size: int = 151936
    intermediate_size: int = 22016
    num_key_value_heads: int | None = 32
    max_position_embeddings: int = 32768
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        self.sliding_window = self.sliding_window if self.use_sliding_window else None
        if self.layer_types is None:
            first = self.max_window_layers if self.sliding_window is not None else self.num_hidden_layers
            self.layer_types = ["sliding_attention" if i >= first else "full_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class Qwen2Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.window = {"sliding_window": config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None}

    def biases(self, config):
        return True, False


class Qwen2DecoderLayer(LlamaDecoderLayer):
    attention = Qwen2Attention


class Qwen2Model(LlamaModel):
    layer = Qwen2DecoderLayer

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None,
                **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + seen
            position_ids = position_ids.unsqueeze(0)
        of = {"config": self.config, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask, "past_key_values": past_key_values,
              "position_ids": position_ids}
        masks = {"full_attention": create_causal_mask(**of)}
        if "sliding_attention" in self.config.layer_types:
            masks["sliding_attention"] = create_sliding_window_causal_mask(**of)
        hidden_states = inputs_embeds
        tables = self.rotary_emb(hidden_states, position_ids)
        for i, layer in enumerate(self.layers[: self.config.num_hidden_layers]):
            hidden_states = layer(
                hidden_states, attention_mask=masks[self.config.layer_types[i]], position_embeddings=tables, position_ids=position_ids,
                past_key_values=past_key_values, use_cache=use_cache, **kwargs)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values if use_cache else None)


class Qwen2ForCausalLM(LlamaForCausalLM):
    config_class = Qwen2Config
    _no_split_modules = ["Qwen2DecoderLayer"]
    decoder = Qwen2Model


causal_lm = Qwen2ForCausalLM
