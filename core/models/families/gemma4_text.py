"""gemma4_text: gemma3's norms, keys that may be values, layers that reuse others', experts beside the feed-forward, a row of a second table for each layer."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig, windows_but_every
from transformers.modeling_decoder import ScaledEmbedding, begin
from transformers.modeling_gemma4 import Gemma4RMSNorm, Gemma4TextDecoderLayer, Gemma4TextRotaryEmbedding, Gemma4TextRouter, KVSharingDict
from transformers.modeling_moe import experts_tp_plan
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.gemma2.modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.gemma3_text.modeling_gemma3_text import Gemma3TextModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config
from transformers.releases import refuse
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class Gemma4TextConfig(PreTrainedConfig):
    model_type, attribute_map = "gemma4_text", {"num_experts_per_tok": "top_k_experts", "hidden_act": "hidden_activation"}
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | experts_tp_plan("layers.*.experts")
    vocab_size: int = 262144
    hidden_size: int = 2304
    intermediate_size: int = 9216
    num_hidden_layers: int = 30
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    rope_parameters: dict | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0
    sliding_window: int = 512
    layer_types: list | None = None
    final_logit_softcapping: float | None = None
    use_bidirectional_attention: str | None = None
    vocab_size_per_layer_input: int = 262144
    hidden_size_per_layer_input: int = 256
    attention_k_eq_v: bool = False
    num_kv_shared_layers: int = 0
    enable_moe_block: bool = False
    use_double_wide_mlp: bool = False
    num_experts: int | None = None
    top_k_experts: int | None = None
    moe_intermediate_size: int | None = None
    global_head_dim: int = 512
    num_global_key_value_heads: int | None = None

    def __post_init__(self, **kwargs):
        if self.use_bidirectional_attention == "all":
            refuse("/use_bidirectional_attention", "use_bidirectional_attention all: attention in both directions is not modelled")
        if self.layer_types is None:
            self.layer_types = windows_but_every(6, self.num_hidden_layers)
        self.layer_types[-1] = "full_attention"
        if (layers := kwargs.pop("per_layer_config", None)) is not None:
            self._take_layers({int(i): differs for i, differs in layers.items()})
        super().__post_init__(**kwargs)

    def _take_layers(self, layers):
        """What save_pretrained() writes of the two global sizes: what a layer that attends to all has unlike the others, {} where nothing
        (configuration_gemma4.py 5.23)."""
        full = [i for i, kind in enumerate(self.layer_types) if kind == "full_attention"]
        same = layers.get(full[0], {})
        if set(layers) - set(full) or any(layers.get(i, {}) != same for i in full) or set(same) - {"head_dim", "num_key_value_heads"}:
            refuse("/config/text_config/per_layer_config", "sizes other than one head_dim and num_key_value_heads for all full_attention layers are not modelled")
        if "num_key_value_heads" in same and not self.attention_k_eq_v:
            refuse("/config/text_config/per_layer_config", "num_key_value_heads by layer without attention_k_eq_v is not modelled")
        self.global_head_dim = same.get("head_dim", self.head_dim)
        self.num_global_key_value_heads = same.get("num_key_value_heads")

    def _rope(self, others):
        if self.rope_parameters is None:
            full = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}
            self.rope_parameters = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": full}

    always_stores = False  # keys and values, where no layer reuses them too

    def sharing(self, layer_idx):
        """What a layer does with keys and values: "reuse" others', "store" its own for them, or neither."""
        first = self.num_hidden_layers - self.num_kv_shared_layers
        kind = self.layer_types[layer_idx]
        if layer_idx >= first:
            return "reuse"
        stores = self.num_kv_shared_layers or self.always_stores
        return "store" if stores and kind not in self.layer_types[layer_idx + 1 : first] else None


class Gemma4TextModel(Gemma3TextModel):
    layer, rotary = Gemma4TextDecoderLayer, Gemma4TextRotaryEmbedding

    def finish(self, config):
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        self.norm = Gemma4RMSNorm(width, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config)
        self.first_that_reuses = config.num_hidden_layers - config.num_kv_shared_layers
        if rows:
            of_all = config.num_hidden_layers * rows
            self.embed_tokens_per_layer = ScaledEmbedding(config.vocab_size_per_layer_input, of_all, config.pad_token_id, rows**0.5)
            self.per_layer_model_projection = nn.Linear(width, of_all, bias=False)
            self.per_layer_projection_norm = Gemma4RMSNorm(rows, eps=config.rms_norm_eps)

    def get_per_layer_inputs(self, input_ids):
        return self.embed_tokens_per_layer(input_ids).reshape(*input_ids.shape, self.config.num_hidden_layers, self.config.hidden_size_per_layer_input)

    def project_per_layer_inputs(self, inputs_embeds, per_layer_inputs):
        projection = self.per_layer_model_projection(inputs_embeds) * self.config.hidden_size**-0.5
        projection = projection.reshape(*inputs_embeds.shape[:-1], self.config.num_hidden_layers, self.config.hidden_size_per_layer_input)
        projection = self.per_layer_projection_norm(projection)
        return (projection + per_layer_inputs) * 2.0**-0.5

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, per_layer_inputs=None,
                use_cache=None, logits_to_keep=0, **kwargs):
        if input_ids is not None:
            inputs_embeds = self.embed_tokens(input_ids)
        if self.config.hidden_size_per_layer_input:
            if per_layer_inputs is None:
                per_layer_inputs = self.get_per_layer_inputs(input_ids)
            per_layer_inputs = self.project_per_layer_inputs(inputs_embeds, per_layer_inputs)
        inputs_embeds, past_key_values, position_ids, masks = begin(
            self, None, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, self.masks)
        hidden_states = inputs_embeds
        tables = self.tables(hidden_states, position_ids)
        shares = any(layer.self_attn.sharing for layer in self.layers)
        shared_kv_states = KVSharingDict() if shares else None  # an empty one keeps nothing, and layers without are heard
        for i, (layer, mask, turn) in enumerate(zip(self.layers, masks, tables)):
            rows = per_layer_inputs[:, :, i, :] if per_layer_inputs is not None else None
            hidden_states = layer(hidden_states, rows, shared_kv_states=shared_kv_states, position_embeddings=turn, attention_mask=mask,
                                  position_ids=position_ids, past_key_values=past_key_values, **kwargs)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class Gemma4ForCausalLM(Gemma2ForCausalLM):
    config_class, decoder = Gemma4TextConfig, Gemma4TextModel
    _no_split_modules, _supports_sdpa = ["Gemma4TextDecoderLayer"], True

    def stage_gap(self, first, end):
        if self.config.hidden_size_per_layer_input:
            return "its layers read a row of the second embedding table each (hidden_size_per_layer_input; without, stages are answered), and hidden states alone are handed on"
        if self.config.num_kv_shared_layers:
            return "its last layers read keys and values of others (num_kv_shared_layers; without, stages are answered), and hidden states alone are handed on"
        return None


causal_lm = Gemma4ForCausalLM
