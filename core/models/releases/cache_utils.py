"""Caches by earlier releases."""
import torch

from transformers.releases import of, quirks

if not quirks.cache_copies:

    @of(DynamicLayer, DynamicSlidingWindowLayer)
    def update(self, keys, values, *args, **kwargs):
        """A layer starts as what it is first given."""
        if self.is_initialized:
            keys, values = torch.cat([self.keys, keys], dim=-2), torch.cat([self.values, values], dim=-2)
        self.keys, self.values, self.is_initialized = keys, values, True
        return keys, values


if not quirks.cache_keeps_window:

    @of(DynamicSlidingWindowLayer)
    def __init__(self, sliding_window):
        DynamicLayer.__init__(self)
        self.sliding_window, self.cumulative_length = sliding_window, 0

    DynamicSlidingWindowLayer.lazy_initialization = DynamicLayer.lazy_initialization
