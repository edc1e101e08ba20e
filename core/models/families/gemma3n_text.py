"""gemma3n_text: several streams of which each layer predicts all, runs one and corrects the rest (AltUp); a low-rank residual beside attention, layers that reuse
others' keys, a row of a second table for each layer."""
import math

import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig, windows_but_every
from transformers.modeling_decoder import DecoderOfKinds, ScaledEmbedding, begin
from transformers.modeling_gemma4 import Gemma4RMSNorm, KVSharingDict, attend_and_share, turned
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds
from transformers.models.gemma2.modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config
from transformers.releases import refuse
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class Gemma3nTextConfig(PreTrainedConfig):
    model_type, attribute_map = "gemma3n_text", {"hidden_act": "hidden_activation"}
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | {"layers.*.self_attn.v_norm": "replicated_with_grad_allreduce"}
    vocab_size: int = 262400
    hidden_size: int = 2048
    intermediate_size: int | list = 16384
    num_hidden_layers: int = 35
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 32768
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    rope_parameters: dict | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0
    sliding_window: int = 512
    layer_types: list | None = None
    final_logit_softcapping: float | None = 30.0
    vocab_size_per_layer_input: int = 262144
    hidden_size_per_layer_input: int = 256
    altup_active_idx: int = 0
    altup_coef_clip: float | None = 120.0
    altup_correct_scale: bool = True
    altup_num_inputs: int = 4
    num_kv_shared_layers: int = 15
    laurel_rank: int = 64
    activation_sparsity_pattern: list | None = None

    def __post_init__(self, **kwargs):
        layers = self.num_hidden_layers
        if not isinstance(self.intermediate_size, list):
            self.intermediate_size = [self.intermediate_size] * layers
        if self.layer_types is None:
            self.layer_types = windows_but_every(5, layers)
        if self.activation_sparsity_pattern is None:
            sparse = 10 if layers > 10 else 0
            self.activation_sparsity_pattern = [0.95] * sparse + [0.0] * (layers - sparse)
        for name in "intermediate_size", "activation_sparsity_pattern":
            if len(getattr(self, name)) != layers:
                refuse(f"/config/{name}", "Gemma3nTextConfig wants one of each layer")
        if self.hidden_size % self.num_attention_heads:
            refuse("/config/num_attention_heads", "Gemma3nTextConfig wants a divisor of hidden_size")
        if self.final_logit_softcapping is None:
            refuse("/config/final_logit_softcapping", "Gemma3nTextConfig wants a number")
        own = self.layer_types[: layers - self.num_kv_shared_layers]
        if self.num_kv_shared_layers and set(own) != set(self.layer_types):
            refuse("/config/num_kv_shared_layers", "Gemma3nTextConfig wants a layer of each kind that keeps its keys, before those that reuse them")
        super().__post_init__(**kwargs)

    def _rope(self, others):
        self.rope_by_kind(others, 1000000.0, others.pop("rope_local_base_freq", 10000.0))

    def sharing(self, layer_idx):
        """What a layer does with keys and values: "reuse" others', "store" its own for them, or neither."""
        first = self.num_hidden_layers - self.num_kv_shared_layers
        if layer_idx >= first:
            return "reuse"
        return "store" if self.num_kv_shared_layers and self.layer_types[layer_idx] not in self.layer_types[layer_idx + 1 : first] else None


class Gemma3nRMSNorm(Gemma4RMSNorm):
    pass


class Gemma3nTextLaurelBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear_left = nn.Linear(config.hidden_size, config.laurel_rank, bias=False)
        self.linear_right = nn.Linear(config.laurel_rank, config.hidden_size, bias=False)
        self.post_laurel_norm = Gemma3nRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states):
        low = self.linear_left(hidden_states)
        low = self.linear_right(low)
        normed = self.post_laurel_norm(low)
        return hidden_states + normed


class Gemma3nTextMLP(LlamaMLP):
    def __init__(self, config, layer_idx):
        super().__init__(config, config.intermediate_size[layer_idx])
        self.act_fn, self.activation_sparsity = ACT2FN[config.hidden_activation], config.activation_sparsity_pattern[layer_idx]

    def forward(self, hidden_states):
        gate_proj = self.gate_proj(hidden_states)
        if self.activation_sparsity > 0.0:
            gate_proj = self._gaussian_topk(gate_proj)
        activations = self.act_fn(gate_proj)
        up_proj = self.up_proj(hidden_states)
        down_proj = self.down_proj(activations * up_proj)
        return down_proj

    def _gaussian_topk(self, inputs):
        """What is above as many standard deviations as leave that share of a normal distribution below."""
        target = torch.tensor(self.activation_sparsity, dtype=torch.float32, device=inputs.device)
        normal_dist = torch.distributions.normal.Normal(0, 1)
        multiplier = normal_dist.icdf(target)
        multiplier = multiplier.type(inputs.dtype)
        mean = torch.mean(inputs, dim=-1, keepdim=True)
        std = torch.std(inputs, dim=-1, keepdim=True, unbiased=False)
        cutoff = mean + std * multiplier
        return nn.functional.relu(inputs - cutoff)


class Gemma3nTextAltUp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.active, self.n, self.clip = config.altup_active_idx, config.altup_num_inputs, config.altup_coef_clip
        self.correct_output_scale = nn.Parameter(torch.zeros(config.hidden_size))
        self.correction_coefs = nn.Linear(self.n, self.n, bias=False)
        self.prediction_coefs = nn.Linear(self.n, self.n**2, bias=False)
        self.modality_router = nn.Linear(config.hidden_size, self.n, bias=False)
        self.router_norm = Gemma3nRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.register_buffer("router_input_scale", torch.tensor(config.hidden_size**-1.0), persistent=False)

    def compute_router_modalities(self, x):
        inputs = self.router_norm(x) * self.router_input_scale
        routed = self.modality_router(inputs)
        return torch.tanh(routed.float()).type_as(x)

    def predict(self, hidden_states):
        modalities = self.compute_router_modalities(hidden_states[self.active])
        if self.training and self.clip is not None:
            self.prediction_coefs.weight.data.clamp_(-self.clip, self.clip)
        coefs = self.prediction_coefs(modalities).reshape(*modalities.shape[:-1], self.n, self.n).permute(0, 1, 3, 2)
        predictions = torch.matmul(hidden_states.permute(1, 2, 3, 0), coefs)
        predictions = predictions.permute(3, 0, 1, 2)
        predictions += hidden_states
        return predictions.contiguous().type_as(hidden_states)

    def correct(self, predictions, activated):
        modalities = self.compute_router_modalities(activated)
        innovation = activated - predictions[self.active]
        innovation = innovation.repeat(self.n, 1, 1, 1)
        if self.training and self.clip is not None:
            weight = self.correction_coefs.weight.clamp(-self.clip, self.clip)
            coefs = nn.functional.linear(modalities, weight, bias=None) + 1.0
        else:
            coefs = self.correction_coefs(modalities) + 1.0
        coefs = coefs.permute(2, 0, 1).unsqueeze(-1)
        corrected = torch.mul(innovation, coefs)
        corrected += predictions
        return corrected.contiguous().type_as(activated)

    def forward(self, corrected):
        return (corrected.type_as(self.correct_output_scale) * self.correct_output_scale).type_as(corrected)

    def scale_corrected_output(self, corrected):
        return self.forward(corrected)


class Gemma3nTextAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.layer_type = config, layer_idx, config.layer_types[layer_idx]
        self.sliding_window = config.sliding_window if self.layer_type == "sliding_attention" else None
        self.sharing, self.head_dim, self.is_causal = config.sharing(layer_idx), config.head_dim, True
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        q, kv, width, bias = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim, config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(width, q, bias=bias)
        self.q_norm = Gemma3nRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        if self.sharing != "reuse":
            self.k_proj = nn.Linear(width, kv, bias=bias)
            self.v_proj = nn.Linear(width, kv, bias=bias)
            self.k_norm = Gemma3nRMSNorm(self.head_dim, eps=config.rms_norm_eps)
            self.v_norm = Gemma3nRMSNorm(self.head_dim, eps=config.rms_norm_eps, with_scale=False)
        self.o_proj = nn.Linear(q, width, bias=bias)

    def forward(self, hidden_states, position_embeddings, attention_mask, past_key_values=None, shared_kv_states=None, **kwargs):
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
            k = self.k_norm(k)
            k = turned(k, cos, sin)
            k = k.transpose(1, 2)
            v = self.v_proj(hidden_states).view(shape)
            v = self.v_norm(v)
            v = v.transpose(1, 2)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, self.layer_idx)
        return attend_and_share(self, rows, q, k, v, attention_mask, shared_kv_states, **kwargs)


class Gemma3nTextDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        self.active, self.correct_scale = config.altup_active_idx, config.altup_correct_scale
        self.self_attn = Gemma3nTextAttention(config, layer_idx)
        self.mlp = Gemma3nTextMLP(config, layer_idx)
        self.norms(config, "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
        self.act_fn = ACT2FN[config.hidden_activation]
        self.altup = Gemma3nTextAltUp(config)
        self.laurel = Gemma3nTextLaurelBlock(config)
        self.per_layer_input_gate = nn.Linear(width, rows, bias=False)
        self.per_layer_projection = nn.Linear(rows, width, bias=False)
        self.norms(config, "post_per_layer_input_norm")

    def norms(self, config, *names):
        for name in names:
            setattr(self, name, Gemma3nRMSNorm(config.hidden_size, eps=config.rms_norm_eps))

    def forward(self, hidden_states, position_embeddings=None, per_layer_input=None, shared_kv_states=None, attention_mask=None, position_ids=None,
                past_key_values=None, **kwargs):
        predictions = self.altup.predict(hidden_states)
        active = predictions[self.active]
        active_normed = self.input_layernorm(active)
        laurel_output = self.laurel(active_normed)
        attn, _ = self.self_attn(hidden_states=active_normed, attention_mask=attention_mask, shared_kv_states=shared_kv_states, position_ids=position_ids,
                                 position_embeddings=position_embeddings, past_key_values=past_key_values, **kwargs)
        attn = self.post_attention_layernorm(attn)
        attn_gated = active + attn
        attn_laurel = (attn_gated + laurel_output) / math.sqrt(2)
        attn_norm = self.pre_feedforward_layernorm(attn_laurel)
        ffw = self.mlp(attn_norm)
        ffw_norm = self.post_feedforward_layernorm(ffw)
        ffw_gated = attn_laurel + ffw_norm
        corrected = self.altup.correct(predictions, ffw_gated)
        first = corrected[self.active].clone()
        if self.correct_scale:
            first = self.altup.scale_corrected_output(first)
        first = self.per_layer_input_gate(first)
        first = self.act_fn(first)
        first = torch.multiply(first, per_layer_input)
        first = self.per_layer_projection(first)
        first = self.post_per_layer_input_norm(first)
        corrected[1:] += first
        return corrected


class Gemma3nTextModel(DecoderOfKinds, LlamaModel):
    layer, rotary = Gemma3nTextDecoderLayer, RotaryEmbeddingOfKinds

    def embedding(self, config):
        return ScaledEmbedding(config.vocab_size, config.hidden_size, config.pad_token_id, config.hidden_size**0.5)

    def finish(self, config):
        width, rows = config.hidden_size, config.hidden_size_per_layer_input
        of_all = config.num_hidden_layers * rows
        self.norm = Gemma3nRMSNorm(width, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config)
        self.embed_tokens_per_layer = ScaledEmbedding(config.vocab_size_per_layer_input, of_all, config.pad_token_id, rows**0.5)
        self.per_layer_model_projection = nn.Linear(width, of_all, bias=False)
        self.per_layer_projection_norm = Gemma3nRMSNorm(rows, eps=config.rms_norm_eps)
        for name in "altup_projections", "altup_unembed_projections":
            setattr(self, name, nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(1, config.altup_num_inputs)]))
        self.register_buffer("per_layer_projection_scale", torch.tensor(width**-0.5), persistent=False)
        self.register_buffer("per_layer_input_scale", torch.rsqrt(torch.tensor(2.0)), persistent=False)

    def get_per_layer_inputs(self, input_ids):
        in_table = torch.logical_and(input_ids >= 0, input_ids < self.config.vocab_size_per_layer_input)
        input_ids = torch.where(in_table, input_ids, 0)
        return self.embed_tokens_per_layer(input_ids).reshape(*input_ids.shape, self.config.num_hidden_layers, self.config.hidden_size_per_layer_input)

    def project_per_layer_inputs(self, inputs_embeds, per_layer_inputs=None):
        projection = self.per_layer_model_projection(inputs_embeds)
        projection *= self.per_layer_projection_scale.to(dtype=inputs_embeds.dtype, device=projection.device)
        projection = projection.reshape(*inputs_embeds.shape[:-1], self.config.num_hidden_layers, self.config.hidden_size_per_layer_input)
        projection = self.per_layer_projection_norm(projection)
        if per_layer_inputs is None:
            return projection
        return (projection + per_layer_inputs) * self.per_layer_input_scale.to(dtype=inputs_embeds.dtype, device=projection.device)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, per_layer_inputs=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None,
                use_cache=None, **kwargs):
        if input_ids is not None:
            inputs_embeds = self.embed_tokens(input_ids)
            per_layer_inputs = self.get_per_layer_inputs(input_ids)
        per_layer_inputs = self.project_per_layer_inputs(inputs_embeds, per_layer_inputs)
        inputs_embeds, past_key_values, position_ids, masks = begin(
            self, None, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, self.masks)
        hidden_states_0 = inputs_embeds
        target_magnitude = torch.mean(hidden_states_0**2, dim=-1, keepdim=True) ** 0.5
        streams = [hidden_states_0]
        for projection in self.altup_projections:
            projected = projection(hidden_states_0)
            current = projected.to(dtype=hidden_states_0.dtype, device=target_magnitude.device)
            magnitude = torch.mean(current**2, dim=-1, keepdim=True)
            magnitude = torch.sqrt(magnitude.clamp(min=1e-5))
            current = current * target_magnitude / magnitude
            streams.append(current)
        hidden_states = torch.stack(streams, dim=0)
        tables = self.tables(hidden_states, position_ids)
        shared_kv_states = KVSharingDict()
        for i, (layer, mask, turn) in enumerate(zip(self.layers, masks, tables)):
            rows = per_layer_inputs[:, :, i, :]
            hidden_states = layer(hidden_states, turn, rows, shared_kv_states=shared_kv_states, attention_mask=mask, position_ids=position_ids,
                                  past_key_values=past_key_values, **kwargs)
        target_magnitude = torch.mean(hidden_states[0] ** 2, dim=-1, keepdim=True) ** 0.5
        streams = [hidden_states[0]]
        for i, projection in enumerate(self.altup_unembed_projections):
            unembedded = projection(hidden_states[i + 1])  # what was projected last lives on
            current = unembedded.to(dtype=hidden_states_0.dtype, device=target_magnitude.device)
            magnitude = torch.mean(current**2, dim=-1, keepdim=True)
            magnitude = torch.sqrt(magnitude.clamp(min=1e-5))
            current = current * target_magnitude / magnitude
            streams.append(current)
        hidden_states = torch.stack(streams)
        hidden_states = torch.mean(hidden_states, dim=0)
        hidden_states = self.norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class Gemma3nForCausalLM(Gemma2ForCausalLM):
    config_class, decoder = Gemma3nTextConfig, Gemma3nTextModel
    _no_split_modules, _supports_sdpa, writes_into_views = ["Gemma3nTextDecoderLayer"], True, True

    def stage_gap(self, first, end):
        return "its layers read a row of the second embedding table each and keys and values of others, and a stage hands on hidden states alone"


causal_lm = Gemma3nForCausalLM
