"""What files of decoders would each say again; transformers has no such file."""
import torch
from torch import nn

from transformers.cache_utils import DynamicCache
from transformers.masking_utils import by_kind, create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, slice_logits_to_keep
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


def positions(inputs, seen):
    row = torch.arange(inputs.shape[1], device=inputs.device) + seen
    return row.unsqueeze(0)


def look_up(model, input_ids, inputs_embeds, past_key_values, use_cache):
    """Embeddings, the cache, and how much it has seen."""
    if inputs_embeds is None:
        inputs_embeds = model.get_input_embeddings()(input_ids)
    if hasattr(model, "scaled"):  # classes of strangers have another PreTrainedModel
        inputs_embeds = model.scaled(inputs_embeds)
    if use_cache and past_key_values is None:
        past_key_values = DynamicCache(config=model.config)
    return inputs_embeds, past_key_values, past_key_values.get_seq_length() if past_key_values is not None else 0


def embed(model, input_ids, position_ids, past_key_values, inputs_embeds, use_cache):
    """Embeddings, cache, positions that go on from it."""
    inputs_embeds, past_key_values, seen = look_up(model, input_ids, inputs_embeds, past_key_values, use_cache)
    if position_ids is None:
        position_ids = positions(inputs_embeds, seen)
    return inputs_embeds, past_key_values, position_ids


def begin(model, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, create_mask=create_causal_mask):
    """The same and the mask, in the order in which most decoders make them."""
    inputs_embeds, past_key_values, position_ids = embed(model, input_ids, position_ids, past_key_values, inputs_embeds, use_cache)
    if isinstance(attention_mask, dict):  # generate() of a cache that is written into has made them
        return inputs_embeds, past_key_values, position_ids, by_kind(attention_mask, model.config.layer_types)
    mask = create_mask(config=model.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                       position_ids=position_ids)
    return inputs_embeds, past_key_values, position_ids, mask


def attend(module, query, key, value, attention_mask, eager, **how):
    """The attention function that the config names."""
    return ALL_ATTENTION_FUNCTIONS.get_interface(module.config._attn_implementation, eager)(module, query, key, value, attention_mask, **how)


def weigh(scores, value, attention_mask, dropout):
    """Values weighted by the softmax of their masked scores, which nobody else holds; and the weights."""
    if attention_mask is not None:
        scores = scores + attention_mask
    scores = nn.functional.softmax(scores, dim=-1)
    scores = scores.to(value.dtype)
    scores = dropout(scores)
    output = torch.matmul(scores, value)
    return output, scores


def kernel_dtype(query, projection, config):
    """What classes with a flash attention of their own cast to: from fp32 to what autocast or the projection computes in, of packed weights what the model was in."""
    if query.dtype != torch.float32:
        return query.dtype
    if torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return config.dtype if hasattr(config, "_is_quantized") else projection.weight.dtype


class ScaledEmbedding(nn.Embedding):
    """Times a number that is a buffer beside the weight."""

    def __init__(self, rows, width, padding_idx, scale):
        super().__init__(rows, width, padding_idx)
        self.register_buffer("embed_scale", torch.tensor(scale), persistent=False)

    def forward(self, input_ids):
        return super().forward(input_ids) * self.embed_scale.to(self.weight.dtype)


class Decoder:
    """Embeddings, layers that rotate queries and keys, a norm. First among the bases of a model's class."""

    layer = rotary = None

    def __init__(self, config):
        super().__init__(config)
        setattr(self, self._input_embed_layer, self.embedding(config))
        self.layers = nn.ModuleList([self.layer(config, i) for i in range(config.num_hidden_layers)])
        self.finish(config)
        self.gradient_checkpointing = False
        self.post_init()

    def finish(self, config):
        self.norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config)

    def last_norm(self):
        return self.norm

    def embedding(self, config):
        return nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)

    def embedded(self, x):
        """What is done with embeddings once the mask is made."""
        return x

    def masks(self, **of):
        """One for each layer."""
        return [create_causal_mask(**of)] * len(self.layers)

    def start(self, inputs_embeds):
        """What the layers begin with, while forward's frame holds the embeddings."""
        return inputs_embeds

    def tables(self, hidden_states, position_ids):
        """Of the rotation, for each layer."""
        return [self.rotary_emb(hidden_states, position_ids=position_ids)] * len(self.layers)

    def normalized(self, hidden_states):
        """What is done with them once the tables are made."""
        return hidden_states

    def handed(self, position_ids):
        """What layers are called with beside the tables."""
        return position_ids

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None,
                **kwargs):
        inputs_embeds, past_key_values, position_ids, masks = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, self.masks)
        inputs_embeds = self.embedded(inputs_embeds)
        hidden_states = self.start(inputs_embeds)
        tables = self.tables(hidden_states, position_ids)
        handed = self.handed(position_ids)
        hidden_states = self.normalized(hidden_states)
        for layer, mask, turn in zip(self.layers, masks, tables):
            hidden_states = layer(
                hidden_states, attention_mask=mask, position_embeddings=turn, position_ids=handed,
                past_key_values=past_key_values, use_cache=use_cache, **kwargs)
        hidden_states = self.last_norm()(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class DecoderOfKinds(Decoder):
    """One whose layers differ by kind: layer_types names each one's mask and its tables."""

    @staticmethod
    def kinds_in_turn(kinds):
        return sorted(set(kinds))

    def masks(self, **of):
        masks = of["attention_mask"]  # those of a model that has this one as a part
        if not isinstance(masks, dict):
            masks = {"full_attention": create_causal_mask(**of), "sliding_attention": create_sliding_window_causal_mask(**of)}
        return by_kind(masks, self.config.layer_types)

    def tables(self, hidden_states, position_ids):
        kinds = self.config.layer_types
        tables = {kind: self.rotary_emb(hidden_states, position_ids, kind) for kind in self.kinds_in_turn(kinds)}
        return [tables[kind] for kind in kinds]


def handed_on(result, outputs):
    """With the router logits that were asked for, by a class that balances no experts too."""
    if "router_logits" in outputs:
        result["router_logits"] = outputs["router_logits"]
    return result


class CausalLM:
    """The decoder under its base_model_prefix, a head, the loss. First among the bases of a model's class."""

    decoder, head, head_bias = None, "lm_head", False

    def __init__(self, config):
        super().__init__(config)
        setattr(self, self.base_model_prefix, self.decoder(config))
        setattr(self, self.head, nn.Linear(self.get_input_embeddings().embedding_dim, self.text_of(config).vocab_size, bias=self.head_bias))
        self.post_init()

    @staticmethod
    def text_of(config):
        return config

    def get_output_embeddings(self):
        return getattr(self, self.head)

    def scaled(self, x):
        return x

    def logits(self, x):
        return self.get_output_embeddings()(x)

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, **kwargs):
        outputs = getattr(self, self.base_model_prefix)(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)
        hidden_states = outputs.last_hidden_state
        hidden_states = self.scaled(hidden_states)
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.logits(hidden_states)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return handed_on(CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values), outputs)
