"""Stages of a pipeline; transformers has no such file."""
import torch


def has_stages(self):
    """What PyTorch's tutorial and torchtitan cut: embed_tokens, rotary_emb, layers, norm under the base model, and a head."""
    decoder = self.base_model
    return decoder is not self and all(hasattr(decoder, name) for name in ("embed_tokens", "rotary_emb", "layers")) and (
        hasattr(decoder, "last_norm") or hasattr(decoder, "norm"))


def stage_of_decoder(self, x, first, end, starts, ends):
    """What a stage of a pipeline does of a causal model over a Decoder: embed_tokens, layers, norm, lm_head, as far as it has them."""
    decoder, out = self.base_model, None
    hidden_states = decoder.embed_tokens(x) if starts else x
    for name in ("scaled", "embedded", "start") if starts else ():
        if hasattr(decoder, name):
            hidden_states = getattr(decoder, name)(hidden_states)
    position_ids = torch.arange(hidden_states.shape[1], device=hidden_states.device).unsqueeze(0)
    if hasattr(decoder, "tables"):
        tables = decoder.tables(hidden_states, position_ids)
    else:
        tables = [decoder.rotary_emb(hidden_states, position_ids)] * len(decoder.layers)
    for layer, turn in zip(decoder.layers[first:end], tables[first:end]):
        out = layer(hidden_states, attention_mask=None, position_embeddings=turn, position_ids=position_ids)
        hidden_states = out[0] if isinstance(out, tuple) else out
    if ends:
        hidden_states = decoder.last_norm()(hidden_states) if hasattr(decoder, "last_norm") else decoder.norm(hidden_states)
        return self.logits(hidden_states) if hasattr(self, "logits") else self.get_output_embeddings()(hidden_states)
    return hidden_states
