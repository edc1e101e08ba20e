"""generate() of earlier releases: masks of ones stay, positions are made of them for each token."""
import torch

from transformers.releases import of, quirks, refuse

if not quirks.generate_drops_mask:

    @of(Generation)
    def begin(self):
        self.position_ids = self.of_prompt = positions_of(self.attention_mask) if self.model.takes_positions else None


if not quirks.generate_keeps_positions:

    @of(Generation)
    def begin(self):
        self.position_ids, self.outputs_seen = None, False
        self.cache_position = torch.ones(self.input_ids.shape[1], dtype=torch.int64, device=self.input_ids.device).cumsum(0) - 1

    @of(Generation)
    def inputs(self, last):
        if last is not None:
            self.cache_position = self.cache_position[-1:] + 1
        elif self.outputs_seen:
            self.cache_position = torch.cat((self.cache_position, torch.arange(1, device=self.cache_position.device)))
        self.outputs_seen = True
        self.reach()
        input_ids = self.input_ids if last is None else self.input_ids[:, -last:]
        made = {"input_ids": input_ids.clone(), "past_key_values": self.cache}
        if self.model.takes_positions:
            position_ids = self.attention_mask.long().cumsum(-1) - 1
            position_ids.masked_fill_(self.attention_mask == 0, 1)
            made["position_ids"] = position_ids[:, -input_ids.shape[1]:].clone() if self.uses_cache else position_ids
        made["attention_mask"] = self.attention_mask
        return made


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
        self.unfinished.max() == 0
        if quirks.generate_makes_cache:
            self.outputs = None
