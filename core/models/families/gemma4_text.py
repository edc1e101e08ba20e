"""gemma4_text: gemma3's norms, keys that may be values, layers that reuse others', experts beside the feed-forward, a row of a second table for each layer."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_decoder import ScaledEmbedding, attend, begin
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_moe import Experts, experts_tp_plan
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds, rotate_half
from transformers.models.gemma2.modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.gemma3_text.modeling_gemma3_text import Gemma3TextModel
from transformers.models.llama.modeling_llama import LlamaMLP
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
        if "per_layer_config" in kwargs:
            refuse("/config/text_config/per_layer_config", "sizes layer by layer are not modelled")
        if self.use_bidirectional_attention == "all":
            refuse("/use_bidirectional_attention", "all: attention in both directions is not modelled")
        if self.layer_types is None:
            self.layer_types = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(self.num_hidden_layers)]
        self.layer_types[-1] = "full_attention"
        super().__post_init__(**kwargs)

    def _rope(self, others):
        if self.rope_parameters is None:
            full = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}
            self.rope_parameters = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": full}

    def sharing(self, layer_idx):
        """What a layer does with keys and values: "reuse" others', "store" its own for them, or neither."""
        first = self.num_hidden_layers - self.num_kv_shared_layers
        kind = self.layer_types[layer_idx]
        if layer_idx >= first:
            return "reuse"
        return "store" if self.num_kv_shared_layers and kind not in self.layer_types[layer_idx + 1 : first] else None


class Gemma4RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6, with_scale=True):
        super().__init__()
        self.eps, self.with_scale = eps, with_scale
        if with_scale:
            self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        mean_squared = x.pow(2).mean(-1, keepdim=True) + self.eps
        return x * torch.pow(mean_squared, -0.5)

    def forward(self, x):
        y = self._norm(x.float())
        if self.with_scale:
            y = y * self.weight.float()
        return y.type_as(x)


class Gemma4TextRotaryEmbedding(RotaryEmbeddingOfKinds):
    """Heads of full attention have a width of their own, all of it turned."""

    def __init__(self, config):
        super().__init__(config)
        for kind in self.rope_type:
            width = config.head_dim if kind == "sliding_attention" else config.global_head_dim
            inv_freq = torch.arange(0, width, 2, dtype=torch.float) / width
            self.register_buffer(f"{kind}_inv_freq", inv_freq, persistent=False)
            self.register_buffer(f"{kind}_original_inv_freq", inv_freq.clone(), persistent=False)


def turned(x, cos, sin):
    cos = cos.unsqueeze(2)
    sin = sin.unsqueeze(2)
    return (x * cos) + (rotate_half(x) * sin)


class KVSharingDict:
    """No dict, which FSDP2 would hand on as another."""

    def __init__(self):
        self.data = {}

    def __getitem__(self, kind):
        return self.data[kind]

    def __setitem__(self, kind, states):
        self.data[kind] = states


class Gemma4TextAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.layer_type = config, layer_idx, config.layer_types[layer_idx]
        slides = self.layer_type == "sliding_attention"
        keys_alone = config.attention_k_eq_v and not slides
        self.sliding_window, self.sharing = config.sliding_window if slides else None, config.sharing(layer_idx)
        self.head_dim = config.head_dim if slides else config.global_head_dim
        heads = (config.num_global_key_value_heads if keys_alone else None) or config.num_key_value_heads
        self.num_key_value_groups, self.is_causal = config.num_attention_heads // heads, True
        q, kv, width, bias = config.num_attention_heads * self.head_dim, heads * self.head_dim, config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(width, q, bias=bias)
        self.q_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        if self.sharing != "reuse":
            self.k_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps)
            self.v_norm = Gemma4RMSNorm(self.head_dim, eps=config.rms_norm_eps, with_scale=False)
            self.k_proj = nn.Linear(width, kv, bias=bias)
            self.v_proj = None if keys_alone else nn.Linear(width, kv, bias=bias)
        self.o_proj = nn.Linear(q, width, bias=bias)

    def forward(self, hidden_states, position_embeddings, attention_mask, shared_kv_states, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        cos, sin = position_embeddings
        q = self.q_proj(hidden_states).view(shape)
        q = self.q_norm(q)
        q = turned(q, cos, sin)
        q = q.transpose(1, 2)
        if self.sharing == "reuse":
            k, v = shared_kv_states[self.layer_type]
        else:
            k = self.k_proj(hidden_states).view(shape)
            v = self.v_proj(hidden_states).view(shape) if self.v_proj is not None else k
            k = self.k_norm(k)
            k = turned(k, cos, sin)
            k = k.transpose(1, 2)
            v = self.v_norm(v)
            v = v.transpose(1, 2)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, self.layer_idx)
        if self.sharing == "store":
            shared_kv_states[self.layer_type] = k, v
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.config.attention_dropout if self.training else 0.0,
                                 scaling=1.0, sliding_window=self.sliding_window, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class Gemma4TextMLP(LlamaMLP):
    def __init__(self, config, layer_idx):
        wide = config.use_double_wide_mlp and config.sharing(layer_idx) == "reuse"
        super().__init__(config, config.intermediate_size * (2 if wide else 1))


class Gemma4TextExperts(Experts):
    pass


class Gemma4TextRouter(nn.Module):
    recorded = None

    def __init__(self, config):
        super().__init__()
        self.top_k, self.scalar_root_size = config.top_k_experts, config.hidden_size**-0.5
        self.norm = Gemma4RMSNorm(config.hidden_size, eps=config.rms_norm_eps, with_scale=False)
        self.proj = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.scale = nn.Parameter(torch.ones(config.hidden_size))
        self.per_expert_scale = nn.Parameter(torch.ones(config.num_experts))

    def probabilities(self, scores):
        return nn.functional.softmax(scores, dim=-1, dtype=torch.float32)

    def forward(self, x):
        x = self.norm(x)
        x = x * self.scale * self.scalar_root_size
        scores = self.proj(x)
        probabilities = self.probabilities(scores)
        weights, indices = torch.topk(probabilities, k=self.top_k, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        weights = weights * self.per_expert_scale[indices]
        if self.recorded is not None:
            self.recorded.append(probabilities)
        return probabilities, weights, indices


class Gemma4TextDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        self.self_attn = Gemma4TextAttention(config, layer_idx)
        self.mlp = Gemma4TextMLP(config, layer_idx)
        self.norms(config, "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
        self.register_buffer("layer_scalar", torch.ones(1))
        self.takes_rows, self.has_experts = bool(rows), config.enable_moe_block
        if rows:
            self.act_fn = ACT2FN[config.hidden_activation]
            self.per_layer_input_gate = nn.Linear(width, rows, bias=False)
            self.per_layer_projection = nn.Linear(rows, width, bias=False)
            self.norms(config, "post_per_layer_input_norm")
        if self.has_experts:
            self.router = Gemma4TextRouter(config)
            self.experts = Gemma4TextExperts(config)
            self.norms(config, "post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")

    def norms(self, config, *names):
        for name in names:
            setattr(self, name, Gemma4RMSNorm(config.hidden_size, eps=config.rms_norm_eps))

    def forward(self, hidden_states, per_layer_input=None, shared_kv_states=None, position_embeddings=None, attention_mask=None, position_ids=None,
                past_key_values=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, position_embeddings=position_embeddings, attention_mask=attention_mask,
                                          shared_kv_states=shared_kv_states, position_ids=position_ids, past_key_values=past_key_values, **kwargs)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        if self.has_experts:
            dense = self.post_feedforward_layernorm_1(hidden_states)
            flat = residual.reshape(-1, residual.shape[-1])
            _, weights, indices = self.router(flat)
            sparse = self.pre_feedforward_layernorm_2(flat)
            sparse = self.experts(sparse, indices, weights)
            sparse = sparse.reshape(residual.shape)
            sparse = self.post_feedforward_layernorm_2(sparse)
            hidden_states = dense + sparse
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        if self.takes_rows:
            residual = hidden_states
            hidden_states = self.per_layer_input_gate(hidden_states)
            hidden_states = self.act_fn(hidden_states)
            hidden_states = hidden_states * per_layer_input
            hidden_states = self.per_layer_projection(hidden_states)
            hidden_states = self.post_per_layer_input_norm(hidden_states)
            hidden_states = residual + hidden_states
        hidden_states *= self.layer_scalar
        return hidden_states


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
        shared_kv_states = KVSharingDict()
        for i, (layer, mask, turn) in enumerate(zip(self.layers, masks, tables)):
            rows = per_layer_inputs[:, :, i, :] if per_layer_inputs is not None else None
            hidden_states = layer(hidden_states, rows, shared_kv_states=shared_kv_states, position_embeddings=turn, attention_mask=mask,
                                  position_ids=position_ids, past_key_values=past_key_values, **kwargs)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class Gemma4ForCausalLM(Gemma2ForCausalLM):
    config_class, decoder, stage = Gemma4TextConfig, Gemma4TextModel, None
    _no_split_modules, _supports_sdpa = ["Gemma4TextDecoderLayer"], True


causal_lm = Gemma4ForCausalLM
