"""Stages of models of gpt's and bart's kind (modeling_stage.py); transformers has no such file."""
import math

import torch
import torch.nn.functional as F

from transformers.masking_utils import create_causal_mask
from transformers.modeling_alibi import _get_alibi_slopes, build_alibi_tensor, build_mpt_alibi_tensor
from transformers.modeling_stage import BEHIND, LISTS, first_of, having, head, rows, stack


def placed(decoder, ids, position_ids):
    """What stands before the first layer."""
    hidden_states = decoder.get_input_embeddings()(ids) if hasattr(decoder, "get_input_embeddings") else decoder.embed_tokens(ids)
    if hasattr(decoder, "wpe"):
        hidden_states = hidden_states + decoder.wpe(position_ids)
    if hasattr(decoder, "positions_embed"):
        hidden_states = hidden_states + decoder.positions_embed(position_ids) + 0
    if hasattr(decoder, "embed_positions"):
        places = decoder.embed_positions(position_ids)
        if getattr(decoder, "project_in", None) is not None:
            hidden_states = decoder.project_in(hidden_states)
        hidden_states = hidden_states + places
    if hasattr(decoder, "dropout"):
        hidden_states = F.dropout(hidden_states, p=decoder.dropout, training=decoder.training)
    for module in having(decoder, ("drop", "emb_dropout", "word_embeddings_layernorm")):
        hidden_states = module(hidden_states)
    return hidden_states


def handed(decoder, hidden_states, position_ids):
    """What each layer is called with: the mask that the kernel does not make, tables."""
    given = {"attention_mask": create_causal_mask(config=decoder.config, inputs_embeds=hidden_states, attention_mask=None, past_key_values=None)}
    if hasattr(decoder, "rotary_emb"):
        given["position_embeddings"] = decoder.rotary_emb(hidden_states, position_ids)
    return given


def handed_in_places(decoder, hidden_states, position_ids):
    """To layers that look their positions up."""
    return {**handed(decoder, hidden_states, position_ids), "position_ids": position_ids}


def handed_bloom(decoder, hidden_states, position_ids):
    slopes = _get_alibi_slopes(decoder.config.n_head, hidden_states.device)
    alibi = slopes[:, None, None] * torch.arange(hidden_states.shape[1], device=hidden_states.device)
    alibi = alibi.repeat(hidden_states.shape[0], 1, 1).to(hidden_states.dtype)
    return {**handed(decoder, hidden_states, position_ids), "alibi": alibi}


def handed_mpt(decoder, hidden_states, position_ids):
    alibi = build_mpt_alibi_tensor(decoder.config.n_heads, decoder.config.max_seq_len, device=hidden_states.device)
    mask = handed(decoder, hidden_states, position_ids)["attention_mask"].to(torch.bool)
    return {"attention_mask": mask, "position_bias": alibi}


def handed_falcon(decoder, hidden_states, position_ids):
    batch, length, _ = hidden_states.shape
    alibi = None
    if decoder.config.alibi:
        ones = torch.ones((batch, length), device=hidden_states.device, dtype=torch.long)
        alibi = build_alibi_tensor(ones, decoder.config.num_attention_heads, dtype=hidden_states.dtype)
    mask = create_causal_mask(config=decoder.config, inputs_embeds=hidden_states, attention_mask=None, past_key_values=None, allow_is_causal_skip=False)
    if alibi is not None and mask is not None and mask.ndim == 4:
        lowest = torch.finfo(hidden_states.dtype).min
        if mask.dtype == torch.bool:
            mask = torch.where(mask, torch.full((), 0.0, device=mask.device, dtype=hidden_states.dtype), lowest)
        alibi = alibi.reshape(batch, -1, *alibi.shape[1:])
        mask = torch.masked_fill(alibi / math.sqrt(decoder.config.head_dim), mask < -1, lowest)
    tables = decoder.rotary_emb(hidden_states, position_ids=position_ids)
    return {"alibi": alibi, "attention_mask": mask, "position_ids": position_ids, "position_embeddings": tables}


def handed_nothing(decoder, hidden_states, position_ids):
    return {}


def stage_of(handed):
    def stage(self, x, first, end, starts, ends):
        decoder = stack(self)
        position_ids = rows(x)
        hidden_states = placed(decoder, x, position_ids) if starts else x
        given = handed(decoder, hidden_states, position_ids)
        for layer in having(decoder, LISTS)[0][first:end]:
            hidden_states = first_of(layer(hidden_states, **given))
        if ends:
            for module in having(decoder, BEHIND):
                hidden_states = module(hidden_states)
            return head(self, hidden_states)
        return hidden_states

    return stage
