"""Caches by earlier releases."""
import torch

from transformers.releases import of, quirks

DynamicSlidingWindowLayer.is_heard = quirks.cache_copies and quirks.cache_keeps_window  # as stored() tells it
LinearAttentionLayer.is_heard = quirks.states_are_copied

if not quirks.cache_copies:

    @of(DynamicLayer, DynamicSlidingWindowLayer)
    def update(self, keys, values, *args, **kwargs):
        """A layer starts as what it is first given."""
        if self.is_initialized:
            keys, values = torch.cat([self.keys, keys], dim=-2), torch.cat([self.values, values], dim=-2)
        self.keys, self.values, self.is_initialized = keys, values, True
        return keys, values


if not quirks.cache_cuts_windows:
    LAYERS["sliding_attention"] = lambda window: DynamicLayer()


if not quirks.cache_keeps_window:

    @of(DynamicSlidingWindowLayer)
    def __init__(self, sliding_window):
        DynamicLayer.__init__(self)
        self.sliding_window, self.cumulative_length = sliding_window, 0

    DynamicSlidingWindowLayer.lazy_initialization = DynamicLayer.lazy_initialization


if not quirks.recurrent_states_as_given:

    @of(LinearAttentionLayer)
    def update_recurrent_state(self, recurrent_states):
        """In the dtype of the convolution's."""
        if self.recurrent_states is None:
            self.recurrent_states = torch.zeros_like(recurrent_states, dtype=self.conv_states.dtype)
        self.recurrent_states.copy_(recurrent_states)
        return self.recurrent_states


if not quirks.states_are_copied:

    @of(LinearAttentionLayer)
    def update_conv_state(self, conv_states, conv_kernel_size=None):
        self.conv_states, self.has_previous_state = conv_states, True
        return conv_states

    @of(LinearAttentionLayer)
    def update_recurrent_state(self, recurrent_states):
        self.recurrent_states = recurrent_states
        return recurrent_states
