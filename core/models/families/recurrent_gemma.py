"""recurrent_gemma (Griffin): two of three layers keep a gated linear recurrence, token by token, the third attends within a window."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.modeling_decoder import CausalLM, attend, positions
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_norm import RMSNormFromOne
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_rope_utils import RotaryEmbedding, apply_rotary_pos_emb_partly
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM, LlamaPreTrainedModel
from transformers.releases import refuse
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class RecurrentGemmaConfig(LlamaConfig):
    model_type, base_model_tp_plan = "recurrent_gemma", None
    attribute_map = {"sliding_window": "attention_window_size"}
    num_hidden_layers: int = 26
    vocab_size: int = 256000
    hidden_size: int = 2560
    intermediate_size: int = 7680
    num_attention_heads: int = 10
    lru_width: int | None = None
    attention_window_size: int = 2048
    conv1d_width: int = 4
    logits_soft_cap: float = 30.0
    pad_token_id: int | None = 0
    hidden_activation: str = "gelu_pytorch_tanh"
    block_types: list | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.lru_width = self.lru_width or self.hidden_size
        self.block_types = list(self.block_types or ("recurrent", "recurrent", "attention"))
        kwargs.setdefault("partial_rotary_factor", 0.5)
        kwargs.pop("layers_block_type", None)
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads  # no member: a file's own is set behind it
        super().__post_init__(**kwargs)
        kinds = (self.block_types * 100)[: self.num_hidden_layers]
        self.layer_types = ["linear_attention" if kind == "recurrent" else "sliding_attention" for kind in kinds]
        if self.num_key_value_heads > self.num_attention_heads:
            refuse("/config/num_key_value_heads", "RecurrentGemmaConfig wants no more than num_attention_heads")
        if self.rope_parameters["rope_type"] != "default" and "sliding_attention" in self.layer_types:
            refuse("/config/rope_parameters", "RecurrentGemmaRotaryEmbedding takes the default kind alone")


class RecurrentGemmaRMSNorm(RMSNormFromOne):
    pass


class RecurrentGemmaAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.is_causal, self.sliding_window = config, layer_idx, True, config.attention_window_size
        self.head_dim, self.num_key_value_groups = config.head_dim, config.num_attention_heads // config.num_key_value_heads
        q, kv, width, bias = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim, config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(width, q, bias=bias)
        self.k_proj = nn.Linear(width, kv, bias=bias)
        self.v_proj = nn.Linear(width, kv, bias=bias)
        self.o_proj = nn.Linear(q, width, bias=True)
        self.rotary_emb = RotaryEmbedding(config)

    def forward(self, hidden_states, position_ids=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        cos, sin = self.rotary_emb(v, position_ids)
        q, k = apply_rotary_pos_emb_partly(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.config.attention_dropout if self.training else 0.0,
                                 scaling=self.head_dim**-0.5, sliding_window=self.sliding_window, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class SqrtBoundDerivative(torch.autograd.Function):
    """A square root whose derivative stays below 1,000."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sqrt(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        bounded = torch.clip(4.0 * x, min=1e-6)
        return grad_output / torch.sqrt(bounded)


class RecurrentGemmaRglru(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.block_width = config.num_attention_heads, config.lru_width // config.num_attention_heads
        self.recurrent_param = nn.Parameter(torch.empty([config.lru_width]))
        for name in "input_gate", "recurrent_gate":
            setattr(self, name + "_weight", nn.Parameter(torch.empty([self.heads, self.block_width, self.block_width])))
            setattr(self, name + "_bias", nn.Parameter(torch.empty([self.heads, self.block_width])))
        self.recurrent_states = None

    def forward(self, activations, position_ids):
        batch_size, seq_len, lru_width = activations.shape
        reset = position_ids[:, :, None] == 0
        by_head = activations.reshape(batch_size * seq_len, self.heads, self.block_width)
        by_head = by_head.permute(1, 0, 2)
        res = torch.baddbmm(self.input_gate_bias[:, None, :], by_head, self.input_gate_weight)
        input_gate = torch.sigmoid(res.transpose(0, 1).reshape(batch_size, seq_len, lru_width))
        res = torch.baddbmm(self.recurrent_gate_bias[:, None, :], by_head, self.recurrent_gate_weight)
        recurrent_gate = torch.sigmoid(res.transpose(0, 1).reshape(batch_size, seq_len, lru_width))
        log_gate = -8.0 * recurrent_gate * nn.functional.softplus(self.recurrent_param)
        recurrent_gate = torch.exp(log_gate)
        a_square = torch.exp(2 * log_gate)
        gated_inputs = activations * input_gate
        multiplier = SqrtBoundDerivative.apply(1 - a_square)
        multiplier = reset + ~reset * multiplier
        normalized_x = gated_inputs * multiplier.type(activations.dtype)
        hidden_states, recurrent_states = self._rnn_scan(normalized_x, recurrent_gate, reset, self.recurrent_states)
        self.recurrent_states = recurrent_states
        return hidden_states

    def _rnn_scan(self, hidden_states, recurrent_gate, reset, recurrent_states):
        recurrent_gate = recurrent_gate * ~reset
        if hidden_states.shape[1] == 1:
            if recurrent_states is None:
                return hidden_states, hidden_states[:, 0].type(torch.float32)
            states = recurrent_gate.type(torch.float32) * recurrent_states[:, None].to(recurrent_gate.device)
            states += hidden_states.type(torch.float32)
            return states.type(hidden_states.dtype), states[:, -1]
        if recurrent_states is None:
            recurrent_states = torch.zeros(hidden_states[:, 0].shape, dtype=torch.float32, device=hidden_states.device)
        states = torch.zeros_like(hidden_states)
        for t in range(hidden_states.shape[1]):
            recurrent_states = recurrent_gate[:, t].type(torch.float32) * recurrent_states.to(recurrent_gate.device)
            recurrent_states = recurrent_states + hidden_states[:, t].type(torch.float32)
            states[:, t] = recurrent_states.type(hidden_states.dtype)
        return states, recurrent_states


class RecurrentGemmaRecurrentBlock(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        width, lru, kernel = config.hidden_size, config.lru_width, config.conv1d_width
        self.lru_width, self.hidden_size, self.conv1d_width = lru, width, kernel
        self.linear_y = nn.Linear(width, lru)
        self.linear_x = nn.Linear(width, lru)
        self.linear_out = nn.Linear(lru, width)
        self.conv_1d = nn.Conv1d(lru, lru, kernel_size=kernel, groups=lru, padding=kernel - 1)
        self.rg_lru = RecurrentGemmaRglru(config)
        self.act_fn = ACT2FN[config.hidden_activation]
        self.conv1d_state = None

    def forward(self, input_states, position_ids=None, attention_mask=None, use_cache=True, **kwargs):
        batch_size, seq_len, _ = input_states.shape
        y_branch = self.linear_y(input_states)
        y_branch = self.act_fn(y_branch)
        x_branch = self.linear_x(input_states)
        x_branch = x_branch.transpose(1, 2)
        if use_cache:
            if self.conv1d_state is None or self.conv1d_state.shape[0] != batch_size:
                self.begin(batch_size, input_states.device, input_states.dtype)
            if position_ids.shape[1] != 1:
                self.conv1d_state = nn.functional.pad(x_branch, (self.conv1d_width - x_branch.shape[-1] - 1, 0))
                x_branch = self.conv_1d(x_branch)[..., :seq_len]
            else:
                conv_state = torch.cat((self.conv1d_state, x_branch), -1)
                x_branch = torch.sum(conv_state * self.conv_1d.weight[:, 0, :], dim=-1) + self.conv_1d.bias
                x_branch = x_branch.unsqueeze(-1)
                self.conv1d_state = conv_state[:, :, 1:]
        else:
            self.conv1d_state = self.rg_lru.recurrent_states = None
            x_branch = self.conv_1d(x_branch)[..., :seq_len]
        x_branch = self.rg_lru(x_branch.transpose(1, 2), position_ids)
        hidden_states = x_branch * y_branch
        hidden_states = self.linear_out(hidden_states)
        return hidden_states, None

    def begin(self, batch, device, dtype):
        self.rg_lru.recurrent_states = torch.zeros((batch, self.lru_width), device=device, dtype=torch.float32)
        self.conv1d_state = torch.zeros((batch, self.hidden_size, self.conv1d_width - 1), device=device, dtype=dtype)


class RecurrentGemmaMlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size // 2
        self.gate_proj = nn.Linear(width, inner, bias=True)
        self.up_proj = nn.Linear(width, inner, bias=True)
        self.down_proj = nn.Linear(inner, width, bias=True)
        self.act_fn = ACT2FN[config.hidden_activation]

    def forward(self, hidden_states):
        gate = self.act_fn(self.gate_proj(hidden_states))
        return self.down_proj(gate * self.up_proj(hidden_states))


class RecurrentGemmaDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.temporal_pre_norm = RecurrentGemmaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        recurs = config.layer_types[layer_idx] == "linear_attention"
        self.temporal_block = (RecurrentGemmaRecurrentBlock if recurs else RecurrentGemmaAttention)(config, layer_idx)
        self.channel_pre_norm = RecurrentGemmaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp_block = RecurrentGemmaMlp(config)

    def forward(self, activations, position_ids, attention_mask, use_cache=None, past_key_values=None, **kwargs):
        normed = self.temporal_pre_norm(activations)
        hidden_states, _ = self.temporal_block(normed, position_ids=position_ids, attention_mask=attention_mask, use_cache=use_cache,
                                               past_key_values=past_key_values, **kwargs)
        residual = hidden_states + activations
        hidden_states = self.channel_pre_norm(residual)
        hidden_states = self.mlp_block(hidden_states)
        hidden_states = hidden_states + residual
        return hidden_states


class RecurrentGemmaPreTrainedModel(LlamaPreTrainedModel):
    config_class, _no_split_modules = RecurrentGemmaConfig, ["RecurrentGemmaDecoderLayer"]


class RecurrentGemmaModel(RecurrentGemmaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([RecurrentGemmaDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.final_norm = RecurrentGemmaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.register_buffer("normalizer", torch.tensor(config.hidden_size**0.5, dtype=torch.bfloat16), persistent=False)
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, position_ids=None, attention_mask=None, inputs_embeds=None, use_cache=None, past_key_values=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        hidden_states = inputs_embeds
        if use_cache and past_key_values is None:
            for layer in self.layers:
                if hasattr(layer.temporal_block, "begin"):
                    layer.temporal_block.begin(hidden_states.shape[0], hidden_states.device, hidden_states.dtype)
            past_key_values = DynamicCache(config=self.config)
        if position_ids is None:
            position_ids = positions(hidden_states, past_key_values.get_seq_length() if past_key_values is not None else 0)
        if isinstance(attention_mask, dict):
            causal_mask = attention_mask["sliding_attention"]
        else:
            causal_mask = create_sliding_window_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                                            past_key_values=past_key_values, position_ids=position_ids)
        hidden_states = hidden_states * self.normalizer.type(hidden_states.dtype)
        for layer in self.layers:
            hidden_states = layer(hidden_states, position_ids, causal_mask, use_cache, past_key_values, **kwargs)
        hidden_states = self.final_norm(hidden_states)
        kept = None if self.training else past_key_values  # its output has no cache; generate() holds the one that it made
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=kept)


class RecurrentGemmaForCausalLM(CausalLM, RecurrentGemmaPreTrainedModel):
    _tied_weights_keys = LlamaForCausalLM._tied_weights_keys
    decoder, writes_into_views = RecurrentGemmaModel, True

    def logits(self, x):
        logits = self.lm_head(x)
        cap = self.config.logits_soft_cap
        logits = nn.functional.tanh(logits / cap) * cap
        return logits

    def stage(self, x, first, end, starts, ends):
        decoder = self.model
        hidden_states = decoder.embed_tokens(x) if starts else x
        position_ids = positions(hidden_states, 0)
        mask = create_sliding_window_causal_mask(config=self.config, inputs_embeds=hidden_states, attention_mask=None, past_key_values=None)
        if starts:
            hidden_states = hidden_states * decoder.normalizer.type(hidden_states.dtype)
        for layer in decoder.layers[first:end]:
            hidden_states = layer(hidden_states, position_ids, mask)
        return self.logits(decoder.final_norm(hidden_states)) if ends else hidden_states


causal_lm = RecurrentGemmaForCausalLM
