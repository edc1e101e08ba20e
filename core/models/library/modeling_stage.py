"""Stages of a pipeline; transformers has no such file.

A stage does what its model's forward does with the part of the modules that it has: the first all that stands before the layers, each one masks, positions and
rotary tables for itself (they follow from the shape of what it gets), the last all that stands behind them.
"""
import torch

BEFORE = ("embed_tokens", "embeddings", "wte", "wpe", "drop", "embed_in", "emb_dropout", "word_embeddings", "word_embeddings_layernorm", "embed_positions",
          "project_in", "tokens_embed", "positions_embed", "normalizer")
BEHIND = ("norm", "ln_f", "norm_f", "final_layernorm", "final_layer_norm", "final_norm", "embedding_norm", "layer_norm", "project_out")
LISTS = ("layers", "h", "blocks")


def stack(self):
    """Where the layers are: the base model, or the decoder in it."""
    decoder = self.base_model
    return getattr(decoder, "decoder", decoder)


def having(decoder, names):
    return [getattr(decoder, name) for name in names if getattr(decoder, name, None) is not None]


def parts_of(self):
    """The modules that the first stage alone has, and those of the last, but for the head."""
    decoder = stack(self)
    return having(decoder, BEFORE), having(decoder, BEHIND) + having(self, getattr(self, "before_head", ()))


def first_has(self, name):
    """A buffer of the stack itself: what stands before the layers is the first stage's, masks and positions are made anew."""
    return name in BEFORE


def gap_of(self, first, end):
    """What layers [first, end) are no stage for; None: nothing."""
    return self.stage_gap(first, end) if hasattr(self, "stage_gap") else None


def has_stages(self):
    """What PyTorch's tutorial and torchtitan cut: embed_tokens, rotary_emb, layers, norm under the base model, and a head."""
    decoder = self.base_model
    return decoder is not self and all(hasattr(decoder, name) for name in ("embed_tokens", "rotary_emb", "layers")) and (
        hasattr(decoder, "last_norm") or hasattr(decoder, "norm"))


def head(self, hidden_states):
    return self.logits(hidden_states) if hasattr(self, "logits") else self.get_output_embeddings()(hidden_states)


def rows(x):
    return torch.arange(x.shape[1], device=x.device).unsqueeze(0)


def first_of(out):
    return out[0] if isinstance(out, tuple) else out


def stage_of_decoder(self, x, first, end, starts, ends):
    """Of a causal model over a Decoder."""
    decoder = self.base_model
    hidden_states = decoder.get_input_embeddings()(x) if starts else x
    for name in ("scaled", "embedded", "start") if starts else ():
        if hasattr(decoder, name):
            hidden_states = getattr(decoder, name)(hidden_states)
    position_ids = rows(hidden_states)
    masks = [None] * len(decoder.layers)
    if hasattr(decoder, "masks"):
        masks = decoder.masks(config=decoder.config, inputs_embeds=hidden_states, attention_mask=None, past_key_values=None, position_ids=None)
    if hasattr(decoder, "tables"):
        tables = decoder.tables(hidden_states, position_ids)
    else:
        tables = [decoder.rotary_emb(hidden_states, position_ids)] * len(decoder.layers)
    for layer, mask, turn in zip(decoder.layers[first:end], masks[first:end], tables[first:end]):
        hidden_states = first_of(layer(hidden_states, attention_mask=mask, position_embeddings=turn, position_ids=position_ids))
    if ends:
        hidden_states = decoder.last_norm()(hidden_states) if hasattr(decoder, "last_norm") else decoder.norm(hidden_states)
        return head(self, hidden_states)
    return hidden_states
