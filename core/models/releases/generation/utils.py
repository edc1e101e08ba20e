"""generate() of earlier releases: masks of ones stay, positions are made of them for each token."""
import torch

from transformers.releases import of, quirks

if not quirks.generate_drops_mask:

    @of(Generation)
    def begin(self):
        self.position_ids = self.of_prompt = positions_of(self.attention_mask) if self.model.takes_positions else None


if not quirks.generate_keeps_positions:

    @of(Generation)
    def begin(self):
        self.position_ids = None
        self.cache_position = torch.ones(self.input_ids.shape[1], dtype=torch.int64, device=self.input_ids.device).cumsum(0) - 1

    @of(Generation)
    def inputs(self, last):
        if last is not None:
            self.cache_position = self.cache_position[-1:] + 1
        input_ids = self.input_ids if last is None else self.input_ids[:, -last:]
        made = {"input_ids": input_ids.clone(), "past_key_values": self.cache}
        if self.model.takes_positions:
            position_ids = self.attention_mask.long().cumsum(-1) - 1
            position_ids.masked_fill_(self.attention_mask == 0, 1)
            made["position_ids"] = position_ids[:, -input_ids.shape[1]:].clone()
        made["attention_mask"] = self.attention_mask
        return made
