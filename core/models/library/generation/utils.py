"""What generate() holds from one token to the next, greedy: GenerationMixin.generate() and _sample() of transformers 5."""
import torch

from transformers.cache_utils import DynamicCache, QuantizedCache, StaticCache
from transformers.masking_utils import create_masks_for_generate
from transformers.releases import quirks, refuse


def positions_of(attention_mask):
    position_ids = attention_mask.long().cumsum(-1) - 1
    position_ids = position_ids.masked_fill(attention_mask == 0, 0)
    return position_ids


def grow_positions(position_ids, n=1):
    following = torch.arange(n, dtype=position_ids.dtype, device=position_ids.device).view(1, -1) + position_ids[..., -1:] + 1
    following = torch.cat([position_ids, following], dim=-1)
    return following


def grow_mask(attention_mask, n):
    if n < 0:  # tokens that are taken back
        return attention_mask[:, :n].clone()
    return torch.cat([attention_mask, attention_mask.new_ones((attention_mask.shape[0], n))], dim=-1)


def stopped(input_ids):
    """StoppingCriteriaList with a greatest length alone."""
    done = torch.full((input_ids.shape[0],), False, device=input_ids.device, dtype=torch.bool)
    done = done | torch.full((input_ids.shape[0],), False, device=input_ids.device, dtype=torch.bool)
    return done


def in_full(logits):
    """to(torch.float32, copy=True)"""
    return logits.clone() if logits.dtype == torch.float32 else logits.float()


def nucleus(scores):
    """TopPLogitsWarper"""
    sorted_logits, sorted_indices = torch.sort(scores, descending=False)
    cumulative_probs = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
    sorted_indices_to_remove = cumulative_probs <= 0.5
    sorted_indices_to_remove[..., -1:] = 0
    indices_to_remove = sorted_indices_to_remove.scatter(1, sorted_indices, sorted_indices_to_remove)
    scores_processed = scores.masked_fill(indices_to_remove, float("-inf"))
    return scores_processed


def best(scores, top_k):
    """TopKLogitsWarper"""
    top_k = min(top_k, scores.shape[-1])
    indices_to_remove = scores < torch.topk(scores, top_k)[0][..., -1, None]
    scores_processed = scores.masked_fill(indices_to_remove, float("-inf"))
    return scores_processed


def warped(scores, tempered, top_k, cut):
    """LogitsProcessorList"""
    if tempered:
        scores = scores / 0.5
    if top_k:
        scores = best(scores, top_k)
    if cut:
        scores = nucleus(scores)
    return scores


def multinomial(probs):
    """Distributions.cpp: one draw is the greatest of what is divided by exponential noise, in the place of the noise; what the host asked of the
    probabilities before has names."""
    tokens = torch.empty((probs.shape[0], 1), dtype=torch.long, device=probs.device)
    least = [torch.empty((), dtype=probs.dtype, device=probs.device) for _ in range(2)] if quirks.multinomial_names_bounds else None
    told = [torch.empty((), dtype=torch.bool, device=probs.device) for _ in range(2)]
    noise = torch.empty_like(probs).exponential_()
    return tokens


class Generation:
    """One call of generate(); whoever calls it holds the prompt and its mask. A drawn token's choice wants temperature, top_k, top_p, 0 each: not asked."""

    def __init__(self, model, input_ids, attention_mask, cache=0, tokens=0, drawn=0, tempered=0, top_k=0, cut=0):
        self.drawn, self.warp = drawn, (tempered, top_k, cut)
        self.model, self.input_ids, self.attention_mask = model, input_ids, attention_mask
        self.outputs = None
        self.special = [] if getattr(model.config, "bos_token_id", 0) is None else [torch.tensor(0, device=input_ids.device)]
        self.begin()
        self.kept = 0 if cache == 3 else 1  # litgpt makes logits of all that it is given
        self.uses_cache = cache < 4
        of_its_own = getattr(model, "makes_its_cache", False)  # _supports_default_dynamic_cache(): forward makes it
        if of_its_own and 0 < cache < 4:
            refuse("/inference", "this class makes a cache of its own: transformers raises")
        kind = [DynamicCache, StaticCache, QuantizedCache, StaticCache, None][min(cache, 4)]
        self.cache = kind(config=model.config, max_cache_len=tokens) if self.uses_cache and not of_its_own else None
        self.unfinished = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
        self.turning = [module for module in model.modules() if hasattr(module, "max_seq_len_cached") or hasattr(module, "original_inv_freq")]

    def begin(self):
        self.position_ids = positions_of(self.attention_mask) if self.model.takes_positions else None
        if getattr(self.model, "positions_of_grids", False):
            self.rope_deltas = torch.zeros(self.input_ids.shape[0], 1, dtype=torch.long, device=self.input_ids.device)
            self.position_ids = torch.cat([self.position_ids[None, ...], self.position_ids.unsqueeze(0).expand(3, -1, -1)], dim=0)
        self.of_prompt = self.position_ids
        if (self.attention_mask == 1).all():
            self.attention_mask = None

    def reach(self):
        for module in self.turning:
            module.reached = self.input_ids.shape[1]

    def inputs(self, last):
        """prepare_inputs_for_generation()"""
        self.reach()
        input_ids = self.input_ids if last is None else self.input_ids[:, -last:]
        made = {"input_ids": input_ids.clone(), getattr(self.model, "cache_name", "past_key_values"): self.cache}
        position_ids = self.position_ids
        if position_ids is not None and position_ids.shape[-1] != input_ids.shape[1]:
            position_ids = position_ids[..., -input_ids.shape[1]:].clone()
        if position_ids is not None:
            made["position_ids"] = position_ids
        mask = self.attention_mask
        if getattr(self.cache, "is_compileable", False):
            mask = self.laid_out(create_masks_for_generate(
                self.model.config, attention_mask=mask, past_key_values=self.cache, position_ids=position_ids,
                inputs_embeds=torch.empty((*input_ids.shape, 0), dtype=self.model.dtype, device=input_ids.device)))
        if mask is not None and (last is None or not hasattr(self.model, "cache_name")):
            made["attention_mask"] = mask
        return made

    def laid_out(self, masks):
        if isinstance(masks, dict):
            return {kind: self.laid_out(mask) for kind, mask in masks.items()}
        return None if masks is None else masks.contiguous()

    def optimize_for_decode(self):
        """_optimize_model_for_decode(): experts that were one grouped product are batched from the second token on."""
        for config in (self.model.config, getattr(self.model.config, "text_config", None)):
            if config is not None:
                config._experts_implementation = "batched_mm"

    def prefill(self):
        made = self.inputs(None)
        self.outputs = self.model(use_cache=self.uses_cache, logits_to_keep=self.kept, **made)

    def decode(self):
        """The names of the step before live until this one binds them anew. Without a cache a token is the whole text again."""
        self.optimize_for_decode()
        self.made = self.inputs(1 if self.uses_cache else None)
        self.outputs = self.model(use_cache=self.uses_cache, logits_to_keep=1, **self.made)

    def update(self):
        """_update_model_kwargs_for_generation()"""
        self.cache = self.outputs.past_key_values
        if self.uses_cache and self.cache is None:
            refuse("/inference/use_cache", "this class keeps no keys and values, each token is the whole text again: inference.use_cache false")
        if self.position_ids is not None:
            self.position_ids = grow_positions(self.position_ids)
        if self.attention_mask is not None:
            self.attention_mask = grow_mask(self.attention_mask, 1)

    def choose(self):
        """The most likely token goes behind the others."""
        self.update()
        self.logits = in_full(self.outputs.logits[:, -1])
        self.pick()
        self.input_ids = torch.cat([self.input_ids, self.tokens[:, None]], dim=-1)
        self.unfinished = self.unfinished & ~stopped(self.input_ids)
        self.stop()
        self.outputs = None

    def stop(self):
        self.unfinished.max() == 0

    def pick(self):
        if not self.drawn:
            self.tokens = torch.argmax(self.logits, dim=-1)
            return
        self.scores = warped(self.logits, *self.warp)
        self.probs = torch.nn.functional.softmax(self.scores, dim=-1)
        self.tokens = multinomial(self.probs).squeeze(1)

    def skip(self, n):
        """As n steps leave it."""
        for layer in self.layers():
            layer.skip(n)
        batch, length = self.input_ids.shape
        kind, device = self.input_ids.dtype, self.input_ids.device
        self.input_ids = torch.empty((batch, length + n), dtype=kind, device=device)
        if self.position_ids is not None:
            self.position_ids = grow_positions(self.position_ids, n) if n > 0 else self.position_ids[..., :length + n].clone()
        if self.attention_mask is not None:
            self.attention_mask = grow_mask(self.attention_mask, n)

    def layers(self):
        return [] if self.cache is None else self.cache.layers

    def states(self):
        """Tensors of the cache."""
        names = ("keys", "values", "quantized_keys", "quantized_values", "conv_states", "recurrent_states")
        states = [getattr(layer, name, None) for layer in self.layers() for name in names]
        return states + [state if isinstance(state, torch.Tensor) else None for state in getattr(self.cache, "linear_cache", [])]
