"""Key and value caches that grow with what they are given, as cache_utils of transformers 5."""
import torch


class DynamicLayer:
    is_sliding = False

    def __init__(self):
        self.keys = self.values = None
        self.is_initialized = False

    def lazy_initialization(self, keys, values):
        self.dtype, self.device = keys.dtype, keys.device
        self.keys = torch.tensor([], dtype=self.dtype, device=self.device)
        self.values = torch.tensor([], dtype=self.dtype, device=self.device)
        self.is_initialized = True

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.keys = torch.cat([self.keys, keys], dim=-2)
        self.values = torch.cat([self.values, values], dim=-2)
        return self.keys, self.values

    def get_seq_length(self):
        if not self.is_initialized or self.keys.numel() == 0:
            return 0
        return self.keys.shape[-2]

    def get_mask_sizes(self, query_length):
        return self.get_seq_length() + query_length, 0

    def skip(self, tokens):
        """As if so many tokens more had been given, one by one: what a step leaves, without the steps."""
        self.keys, self.values = skipped(self.keys, tokens), skipped(self.values, tokens)


def skipped(states, tokens, most=None):
    batch, heads, length, width = states.shape
    length = length + tokens if most is None else min(length + tokens, most)
    return torch.empty((batch, heads, length, width), dtype=states.dtype, device=states.device)


class DynamicSlidingWindowLayer(DynamicLayer):
    is_sliding = True

    def __init__(self, sliding_window):
        super().__init__()
        self.sliding_window = sliding_window
        self.cumulative_length = 0
        self._sliding_window_tensor = torch.tensor(sliding_window, dtype=torch.long)

    def lazy_initialization(self, keys, values):
        super().lazy_initialization(keys, values)
        self._sliding_window_tensor = self._sliding_window_tensor.to(self.device)

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.cumulative_length += keys.shape[-2]
        all_keys = torch.cat([self.keys, keys], dim=-2)
        all_values = torch.cat([self.values, values], dim=-2)
        self.keys = all_keys[:, :, -self.sliding_window + 1 :, :]
        self.values = all_values[:, :, -self.sliding_window + 1 :, :]
        return all_keys, all_values

    def get_seq_length(self):
        return self.cumulative_length

    def get_mask_sizes(self, query_length):
        offset = max(self.cumulative_length - self.sliding_window + 1, 0)
        kept = self.sliding_window - 1 if self.cumulative_length >= self.sliding_window else self.cumulative_length
        return kept + query_length, offset

    def skip(self, tokens):
        self.cumulative_length += tokens
        most = self.sliding_window
        self.keys = skipped(self.keys, tokens, most)[:, :, -most + 1 :, :]
        self.values = skipped(self.values, tokens, most)[:, :, -most + 1 :, :]


class Cache:
    def __init__(self, layers=None):
        self.layers = [] if layers is None else layers

    def __len__(self):
        return len(self.layers)

    def update(self, keys, values, layer_idx, *args, **kwargs):
        while len(self.layers) <= layer_idx:
            self.layers.append(DynamicLayer())
        keys, values = self.layers[layer_idx].update(keys, values, *args, **kwargs)
        return keys, values

    def get_seq_length(self, layer_idx=0):
        return self.layers[layer_idx].get_seq_length() if layer_idx < len(self.layers) else 0

    def get_query_offset(self, layer_idx=0):
        return self.get_seq_length(layer_idx)

    def get_mask_sizes(self, query_length, layer_idx):
        return self.layers[layer_idx].get_mask_sizes(query_length) if layer_idx < len(self.layers) else (query_length, 0)

    def to_legacy_cache(self):
        return tuple((layer.keys, layer.values) for layer in self.layers)

    @property
    def is_sliding(self):
        return [layer.is_sliding for layer in self.layers]


class DynamicCache(Cache):
    def __init__(self, config=None):
        kinds = None if config is None else getattr(config, "layer_types", None)
        window = None if config is None else getattr(config, "sliding_window", None)
        if config is not None and kinds is None:
            kinds = ["full_attention" if window is None else "sliding_attention"] * config.num_hidden_layers
        super().__init__([DynamicSlidingWindowLayer(window) if kind == "sliding_attention" else DynamicLayer() for kind in kinds or []])


class EncoderDecoderCache(Cache):
    def __init__(self, self_attention_cache, cross_attention_cache):
        self.self_attention_cache = self_attention_cache
        self.cross_attention_cache = cross_attention_cache
        self.is_updated = {}

    def get_seq_length(self, layer_idx=0):
        return self.self_attention_cache.get_seq_length(layer_idx)

    def get_mask_sizes(self, query_length, layer_idx):
        return self.self_attention_cache.get_mask_sizes(query_length, layer_idx)

    @property
    def is_sliding(self):
        return self.self_attention_cache.is_sliding
