"""generate() of earlier releases: masks of ones stay, positions are made of them for each token."""
import torch

from transformers.releases import of, quirks, refuse

if not quirks.generate_drops_mask:

    @of(Generation)
    def begin(self):
        self.position_ids = self.of_prompt = positions_of(self.attention_mask) if self.model.takes_positions else None


if quirks.generate_writes_hybrid:
    of_any = Generation.__init__

    @of(Generation)
    def __init__(self, model, *args, **kwargs):
        of_any(self, model, *args, **kwargs)
        if self.uses_cache and model.config.model_type in ("gemma2", "cohere2", "gemma3", "gemma3_text"):
            refuse("/stack/transformers", "its cache stands in full from the start in this release (HybridCache): generate() of it is modelled from 4.53 on")


if quirks.generate_keeps_finished:

    @of(Generation)
    def stop(self):
        self.this_peer_finished = self.unfinished.max() == 0


if not quirks.generate_casts_at_once:

    def in_full(logits):
        return logits.clone().float()


if not quirks.generate_prefills_apart:

    @of(Generation)
    def prefill(self):
        """What the prompt was asked with lives until the next token is asked."""
        self.made = self.inputs(None)
        self.outputs = self.model(use_cache=self.uses_cache, logits_to_keep=self.kept, **self.made)


if not quirks.generate_keeps_positions:
    grown = Generation.update

    @of(Generation)
    def begin(self):
        self.position_ids = None
        self.placed = [module for module in self.model.modules() if any(hasattr(module, name) for name in ("embed_tokens", "word_embeddings", "wte"))]
        self.cache_position = torch.ones(self.input_ids.shape[1], dtype=torch.int64, device=self.input_ids.device).cumsum(0) - 1

    @of(Generation)
    def update(self):
        """What the model was given has a hold of the places of the step before."""
        grown(self)
        if self.uses_cache:
            self.cache_position = self.cache_position[-1:] + 1
        else:
            self.cache_position = torch.cat((self.cache_position, torch.arange(1, device=self.cache_position.device)))

    @of(Generation)
    def inputs(self, last):
        self.reach()
        input_ids = self.input_ids
        if getattr(self.model, "asks_ids_alone", False):
            return {"input_ids": input_ids}
        if self.uses_cache:
            self.cache_position[-1] >= input_ids.shape[1]
        if last is not None:
            input_ids = input_ids[:, self.cache_position]
        made = {"input_ids": input_ids.clone(), "past_key_values": self.cache}
        if self.model.takes_positions:
            position_ids = self.attention_mask.long().cumsum(-1) - 1
            position_ids.masked_fill_(self.attention_mask == 0, 1)
            made["position_ids"] = position_ids[:, -input_ids.shape[1]:].clone() if self.uses_cache else position_ids
        made["attention_mask"] = self.attention_mask
        for module in self.placed:  # an argument of forward's
            module.places_given = self.cache_position
        return made


    skipped = Generation.skip

    @of(Generation)
    def skip(self, n):
        skipped(self, n)
        if not self.uses_cache:
            self.cache_position = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)


if not quirks.generate_asks_last:

    @of(Generation)
    def begin(self):
        if (self.model.base_model_prefix != "model" or self.model.config.model_type == "opt") and not hasattr(self.model, "prepares_alike"):
            refuse("/stack/transformers", "generate() of this release is modelled for decoders like llama's; of others from transformers 4.45 on")
        self.position_ids = self.held = self.made = None
        self.special = []
        self.cache_position = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)

    @of(Generation)
    def inputs(self, last):
        """prepare_inputs_for_generation() of the models' own files."""
        self.reach()
        input_ids = self.input_ids if last is None else self.input_ids[:, -last:]
        made = {"input_ids": input_ids.contiguous(), "past_key_values": self.cache}
        if self.model.takes_positions:
            position_ids = self.attention_mask.long().cumsum(-1) - 1
            position_ids.masked_fill_(self.attention_mask == 0, 1)
            made["position_ids"] = position_ids if last is None else position_ids[:, -last:]
        made["attention_mask"] = self.attention_mask
        return made

    @of(Generation)
    def prefill(self):
        """Logits of the whole prompt."""
        self.made = self.inputs(None)
        self.outputs = self.model(use_cache=self.uses_cache, **self.made)

    @of(Generation)
    def decode(self):
        """Where the cache is a tuple, who calls holds the old one while the new one is made."""
        self.made = self.inputs(1 if self.uses_cache else None)
        if self.uses_cache and not quirks.generate_makes_cache:
            self.held = self.cache.to_legacy_cache()
        self.outputs = self.model(use_cache=self.uses_cache, **self.made)

    @of(Generation)
    def choose(self):
        self.cache = self.outputs.past_key_values
        logits = self.outputs.logits[:, -1, :]
        self.logits = logits.clone() if quirks.generate_makes_cache else logits
        logits = None
        self.pick()
        self.input_ids = torch.cat([self.input_ids, self.tokens[:, None]], dim=-1)
        self.attention_mask = grow_mask(self.attention_mask, 1)
        self.cache_position = self.cache_position[-1:] + 1
        self.unfinished = self.unfinished & ~stopped(self.input_ids)
        self.stop()
        if quirks.generate_makes_cache:
            self.outputs = None

if quirks.generate_drops_router_logits:
    of_all = Generation.inputs

    @of(Generation)
    def inputs(self, last):
        made = of_all(self, last)
        if self.model.config.model_type in ("mixtral", "granitemoe"):
            made["output_router_logits"] = False
        return made
