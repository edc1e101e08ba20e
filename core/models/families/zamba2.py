"""zamba2: Mamba 2 mixers; before some of them one of a few transformer blocks that layers share, with low-rank weights of each layer's own."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.masking_utils import create_causal_mask, create_recurrent_attention_mask
from transformers.modeling_decoder import attend, embed
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_mamba2 import Mamba2Mixer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM, LlamaPreTrainedModel, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

SCANS = "linear_attention"


class Zamba2Config(LlamaConfig):
    model_type, base_model_tp_plan = "zamba2", None
    attribute_map = {"layer_types": "layers_block_type"}
    max_position_embeddings: int = 4096
    hidden_size: int = 2560
    num_hidden_layers: int = 54
    layers_block_type: list | None = None
    mamba_d_state: int = 64
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_ngroups: int = 1
    time_step_min: float = 0.001
    n_mamba_heads: int = 8
    use_conv_bias: bool = True
    chunk_size: int = 256
    add_bias_linear: bool = False
    intermediate_size: int | None = None
    hidden_act: str = "gelu"
    num_mem_blocks: int = 1
    use_shared_attention_adapter: bool = False
    adapter_rank: int = 128
    use_mem_rope: bool = False
    rms_norm_eps: float = 1e-5
    num_logits_to_keep: int = 1
    pad_token_id: int | None = 0
    use_long_context: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.intermediate_size = self.intermediate_size or 4 * self.hidden_size
        self.attention_hidden_size = 2 * self.hidden_size
        self.head_dim = self.attention_head_dim = self.attention_hidden_size // self.num_attention_heads
        self.mamba_headdim = int(self.mamba_expand * self.hidden_size) // self.n_mamba_heads
        if self.use_long_context:
            self.max_position_embeddings = 16384
        if self.layers_block_type is None:
            self.layers_block_type = [SCANS] + ([SCANS] * 5 + ["hybrid"]) * 7 + [SCANS] * 4 + ["hybrid"] + [SCANS] * 3 + ["hybrid"] + [SCANS] * 2
        self.layers_block_type = ["hybrid" if kind == "hybrid" else SCANS for kind in self.layers_block_type]
        self.hybrid_layer_ids = [i for i, kind in enumerate(self.layers_block_type) if kind == "hybrid"]
        super().__post_init__(**kwargs)


def low_rank(width, rank, out):
    return nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, out, bias=False))


def of_layers(config, block_id, make):
    """One for each layer that has the block, nothing for the others."""
    return nn.ModuleList([make() if i % config.num_mem_blocks == block_id else nn.Identity() for i in range(len(config.hybrid_layer_ids))])


class Zamba2Attention(nn.Module):
    def __init__(self, config, block_id):
        super().__init__()
        self.config, self.head_dim, self.is_causal = config, config.attention_head_dim, True
        self.num_key_value_groups, self.scaling = config.num_attention_heads // config.num_key_value_heads, (self.head_dim / 2) ** -0.5
        width, q, kv = config.attention_hidden_size, config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(width, q, bias=False)
        self.k_proj = nn.Linear(width, kv, bias=False)
        self.v_proj = nn.Linear(width, kv, bias=False)
        self.o_proj = nn.Linear(q, config.hidden_size, bias=False)
        if config.use_shared_attention_adapter:
            for name in "qkv":
                setattr(self, f"linear_{name}_adapter_list", of_layers(config, block_id, lambda: low_rank(width, config.adapter_rank, width)))

    def forward(self, hidden_states, number, layer_idx, attention_mask=None, past_key_values=None, position_embeddings=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q = self.q_proj(hidden_states)
        k = self.k_proj(hidden_states)
        v = self.v_proj(hidden_states)
        if self.config.use_shared_attention_adapter:
            q = q + self.linear_q_adapter_list[number](hidden_states)
            k = k + self.linear_k_adapter_list[number](hidden_states)
            v = v + self.linear_v_adapter_list[number](hidden_states)
        q = q.view(shape).transpose(1, 2)
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        if self.config.use_mem_rope:
            cos, sin = position_embeddings
            q, k = apply_rotary_pos_emb(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.config.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class Zamba2MambaMixer(Mamba2Mixer):
    def sizes(self, config):
        self.num_heads, self.head_dim, self.ssm_state_size = config.n_mamba_heads, config.mamba_headdim, config.mamba_d_state
        self.conv_kernel_size, self.n_groups, self.intermediate_size = config.mamba_d_conv, config.mamba_ngroups, int(config.mamba_expand * config.hidden_size)
        self.use_bias = self.out_bias = config.add_bias_linear
        self.use_conv_bias, self.activation, self.eps = True, "silu", 1e-5
        self.chunk_size, self.time_step_limit = config.chunk_size, (config.time_step_min, float("inf"))


class Zamba2MLP(nn.Module):
    def __init__(self, config, block_id):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_up_proj = nn.Linear(width, 2 * inner, bias=config.add_bias_linear)
        self.down_proj = nn.Linear(inner, width, bias=config.add_bias_linear)
        self.act_fn = ACT2FN[config.hidden_act]
        self.gate_up_proj_adapter_list = of_layers(config, block_id, lambda: low_rank(width, config.adapter_rank, 2 * inner))

    def forward(self, hidden_state, number):
        gate_up = self.gate_up_proj(hidden_state)
        gate_up = gate_up + self.gate_up_proj_adapter_list[number](hidden_state)
        gate_up = torch.chunk(gate_up, 2, dim=-1)
        hidden_state = self.act_fn(gate_up[0]) * gate_up[1]
        output = self.down_proj(hidden_state)
        return output


class Zamba2AttentionDecoderLayer(nn.Module):
    def __init__(self, config, block_id):
        super().__init__()
        self.self_attn = Zamba2Attention(config, block_id)
        self.feed_forward = Zamba2MLP(config, block_id)
        self.input_layernorm = LlamaRMSNorm(config.attention_hidden_size, eps=config.rms_norm_eps)
        self.pre_ff_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, original_hidden_states, number, layer_idx, **kwargs):
        hidden_states = torch.cat([hidden_states, original_hidden_states], dim=-1)
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states, number, layer_idx, **kwargs)
        hidden_states = self.pre_ff_layernorm(hidden_states)
        hidden_states = self.feed_forward(hidden_states, number)
        return hidden_states


class Zamba2MambaDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.mamba = Zamba2MambaMixer(config, layer_idx)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, original_hidden_states=None, layer_idx=None, attention_mask=None, causal_mask=None, past_key_values=None,
                transformer_hidden_states=None, **kwargs):
        residual = hidden_states
        hidden_states = hidden_states + transformer_hidden_states if transformer_hidden_states is not None else hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.mamba(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=attention_mask)
        hidden_states = residual + hidden_states
        return hidden_states


class Zamba2HybridLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx, number):
        super().__init__()
        self.number = number  # among those that share
        self.linear = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.mamba_decoder = Zamba2MambaDecoderLayer(config, layer_idx)
        self.shared_transformer = Zamba2AttentionDecoderLayer(config, number % config.num_mem_blocks)

    def forward(self, hidden_states, original_hidden_states=None, layer_idx=None, attention_mask=None, causal_mask=None, past_key_values=None,
                use_cache=False, position_embeddings=None, position_ids=None, **kwargs):
        transformer_hidden_states = self.shared_transformer(
            hidden_states, original_hidden_states, self.number, layer_idx, attention_mask=causal_mask, past_key_values=past_key_values,
            position_embeddings=position_embeddings, position_ids=position_ids, **kwargs)
        transformer_hidden_states = self.linear(transformer_hidden_states)
        hidden_states = self.mamba_decoder(hidden_states, transformer_hidden_states=transformer_hidden_states, attention_mask=attention_mask,
                                           past_key_values=past_key_values, use_cache=use_cache, position_embeddings=position_embeddings, **kwargs)
        return hidden_states


class Zamba2PreTrainedModel(LlamaPreTrainedModel):
    config_class, _no_split_modules = Zamba2Config, ["Zamba2HybridLayer", "Zamba2MambaDecoderLayer"]


class Zamba2Model(Zamba2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        numbers = {layer: number for number, layer in enumerate(config.hybrid_layer_ids)}
        self.layers = nn.ModuleList([self.layer_of(config, i, numbers) for i in range(len(config.layers_block_type))])
        self.final_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        if config.use_mem_rope:
            self.rotary_emb = LlamaRotaryEmbedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def layer_of(config, i, numbers):
        return Zamba2HybridLayer(config, i, numbers[i]) if i in numbers else Zamba2MambaDecoderLayer(config, i)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        original_hidden_states = torch.clone(inputs_embeds)
        inputs_embeds, past_key_values, position_ids = embed(self, None, position_ids, past_key_values, inputs_embeds, use_cache)
        masks = attention_mask
        if not isinstance(masks, dict):
            of = dict(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                      position_ids=position_ids)
            masks = {"full_attention": create_causal_mask(**of), SCANS: create_recurrent_attention_mask(**of)}
        tables = self.rotary_emb(hidden_states, position_ids=position_ids) if self.config.use_mem_rope else None
        for layer_idx, layer in enumerate(self.layers):
            hidden_states = layer(hidden_states, original_hidden_states, layer_idx, masks[SCANS], masks["full_attention"], past_key_values=past_key_values,
                                  use_cache=use_cache, position_embeddings=tables, position_ids=position_ids, **kwargs)
        hidden_states = self.final_layernorm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class Zamba2ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Zamba2Config, Zamba2Model, Zamba2PreTrainedModel._no_split_modules
    _tp_plan = None

    def stage_gap(self, first, end):
        return "its layers read the embeddings beside the hidden states, and its shared blocks are one weight for layers of several stages"

    def __init__(self, config):
        super().__init__(config)
        shared, first = dict(LlamaForCausalLM._tied_weights_keys), config.hybrid_layer_ids[: config.num_mem_blocks]
        for number, i in enumerate(config.hybrid_layer_ids[len(first) :]):
            for name, _ in self.model.layers[i].shared_transformer.named_parameters():
                shared[f"model.layers.{i}.shared_transformer.{name}"] = f"model.layers.{first[number % len(first)]}.shared_transformer.{name}"
        self._tied_weights_keys = shared


causal_lm = Zamba2ForCausalLM
