"""Key and value caches that grow with what they are given, as cache_utils of transformers 5."""
import torch

from transformers.releases import refuse


class DynamicLayer:
    is_sliding, is_heard = False, True

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

    def is_new(self):
        return not self.is_initialized

    def stored(self):
        return self.keys, self.values

    def store(self, tokens, keys, values):
        self.dtype, self.device = keys.dtype, keys.device
        self.keys, self.values, self.is_initialized = keys, values, True

    def get_seq_length(self):
        if not self.is_initialized or self.keys.numel() == 0:
            return 0
        return self.keys.shape[-2]

    def get_mask_sizes(self, query_length):
        return self.get_seq_length() + query_length, 0

    def skip(self, tokens):
        """As if so many tokens more had been given, one by one: what a step leaves, without the steps."""
        if self.keys is None:
            return
        self.keys, self.values = skipped(self.keys, tokens), skipped(self.values, tokens)


def skipped(states, tokens):
    return as_long(states, states.shape[2] + tokens)


def as_long(states, length):
    batch, heads, _, width = states.shape
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

    def stored(self):
        return self.keys, self.values, self._sliding_window_tensor

    def store(self, tokens, keys, values, sliding_window_tensor):
        super().store(tokens, keys, values)
        self.cumulative_length += tokens
        self._sliding_window_tensor = sliding_window_tensor

    def get_seq_length(self):
        return self.cumulative_length

    def get_mask_sizes(self, query_length):
        offset = max(self.cumulative_length - self.sliding_window + 1, 0)
        kept = self.sliding_window - 1 if self.cumulative_length >= self.sliding_window else self.cumulative_length
        return kept + query_length, offset

    def skip(self, tokens):
        self.cumulative_length += tokens
        most = self.sliding_window
        length = min(self.cumulative_length, most)  # of what stands: once the window is full, tokens that are taken back do not shorten it
        self.keys = as_long(self.keys, length)[:, :, -most + 1 :, :]
        self.values = as_long(self.values, length)[:, :, -most + 1 :, :]


class StaticLayer:
    """As long as it will ever be; what comes is written into it."""

    is_sliding = False

    def __init__(self, max_cache_len):
        self.max_cache_len = max_cache_len
        self.keys = self.values = None
        self.is_initialized = False
        self.cumulative_length = torch.tensor(0, dtype=int)

    def lazy_initialization(self, keys, values):
        self.device = keys.device
        self.keys = torch.zeros((*keys.shape[:2], self.max_cache_len, keys.shape[-1]), dtype=keys.dtype, device=self.device)
        self.values = torch.zeros((*keys.shape[:2], self.max_cache_len, values.shape[-1]), dtype=keys.dtype, device=self.device)
        self.cumulative_length = self.cumulative_length.to(self.device)
        self.is_initialized = True

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        kv_length = keys.shape[-2]
        cache_position = torch.arange(kv_length, device=self.device) + self.cumulative_length
        self.cumulative_length.add_(kv_length)
        self.keys.index_copy_(2, cache_position, keys)
        self.values.index_copy_(2, cache_position, values)
        return self.keys, self.values

    def get_seq_length(self):
        return self.cumulative_length if self.is_initialized else 0

    def get_mask_sizes(self, query_length):
        return self.max_cache_len, 0

    def skip(self, tokens):
        pass


class StaticSlidingWindowLayer(StaticLayer):
    """As long as its window: once that is full, what it holds moves on by one."""

    is_sliding = True

    def __init__(self, max_cache_len, sliding_window):
        super().__init__(min(sliding_window, max_cache_len))
        self.sliding_window = sliding_window
        self.cumulative_length_int = 0

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        kv_length, current_length = keys.shape[-2], self.cumulative_length_int
        self.cumulative_length_int += kv_length
        if current_length + kv_length <= self.max_cache_len:
            cache_position = torch.arange(kv_length, device=self.device) + self.cumulative_length
            self.keys.index_copy_(2, cache_position, keys)
            self.values.index_copy_(2, cache_position, values)
            self.cumulative_length.add_(kv_length)
            return self.keys, self.values
        if current_length >= self.max_cache_len and kv_length == 1:
            new_keys = self.keys.roll(-1, dims=-2)
            new_values = self.values.roll(-1, dims=-2)
            index = torch.tensor([-1], dtype=int, device=self.device)
            new_keys[:, :, index] = keys
            new_values[:, :, index] = values
            self.keys.copy_(new_keys)
            self.values.copy_(new_values)
            return self.keys, self.values
        full_keys, full_values = keys, values
        if current_length:
            begin, end = (1, None) if current_length >= self.max_cache_len else (0, current_length)
            full_keys = torch.cat((self.keys[:, :, begin:end, :], keys), dim=-2)
            full_values = torch.cat((self.values[:, :, begin:end, :], values), dim=-2)
        self.keys.copy_(full_keys[:, :, -self.max_cache_len :, :])
        self.values.copy_(full_values[:, :, -self.max_cache_len :, :])
        return full_keys, full_values

    def get_seq_length(self):
        return self.cumulative_length_int

    def get_mask_sizes(self, query_length):
        window, seen = self.max_cache_len, self.cumulative_length_int
        offset = max(seen - window + 1, 0)
        if seen >= window:
            return window + query_length - 1, offset
        return max(seen + query_length, window), offset

    def skip(self, tokens):
        self.cumulative_length_int += tokens


class Fp8QuantizedLayer(DynamicLayer):
    """Bytes with one scale for all of them, which the prompt decides. torch.uint8 stands for float8_e4m3fn."""

    is_heard = False

    def __init__(self):
        super().__init__()
        self.cumulative_length = 0
        self.quantized_keys = self.quantized_values = None

    def lazy_initialization(self, keys, values):
        super().lazy_initialization(keys, values)
        self.quantized_keys, self.scale_of_keys = self._quantize(keys)
        self.quantized_values, self.scale_of_values = self._quantize(values)

    def _quantize(self, tensor, scale=None):
        if scale is None:
            scale = (tensor.abs().amax().float() / 448.0).clamp(min=1e-38)
        return (tensor.float() / scale).to(torch.uint8), scale

    def _dequantize(self, quantized, scale):
        return (quantized.float() * scale).to(self.dtype)

    def update(self, keys, values, *args, **kwargs):
        self.cumulative_length += keys.shape[-2]
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            return keys, values
        old_keys, old_values = self.quantized_keys, self.quantized_values  # update() has names for them until it returns
        new_keys, _ = self._quantize(keys, scale=self.scale_of_keys)
        new_values, _ = self._quantize(values, scale=self.scale_of_values)
        self.quantized_keys = torch.cat([old_keys, new_keys], dim=-2)
        self.quantized_values = torch.cat([old_values, new_values], dim=-2)
        keys_to_return = self._dequantize(self.quantized_keys, self.scale_of_keys)
        values_to_return = self._dequantize(self.quantized_values, self.scale_of_values)
        return keys_to_return, values_to_return

    def get_seq_length(self):
        return self.cumulative_length

    def skip(self, tokens):
        self.cumulative_length += tokens
        self.quantized_keys, self.quantized_values = skipped(self.quantized_keys, tokens), skipped(self.quantized_values, tokens)


class LinearAttentionLayer:
    """The states of a convolution and of a recurrence, which do not grow."""

    is_sliding, is_heard = False, True

    def __init__(self):
        self.conv_states = self.recurrent_states = None
        self.has_previous_state = False

    def lazy_initialization(self, conv_states=None, recurrent_states=None, conv_kernel_size=None):
        if conv_states is not None:
            conv_kernel_size = conv_states.shape[-1] if conv_kernel_size is None else conv_kernel_size
            self.conv_kernel_size = conv_kernel_size
            self.conv_states = torch.zeros((*conv_states.shape[:-1], conv_kernel_size), dtype=conv_states.dtype, device=conv_states.device)
        if recurrent_states is not None:
            self.recurrent_states = torch.zeros_like(recurrent_states)

    def update_conv_state(self, conv_states, conv_kernel_size=None):
        if self.conv_states is None:
            LinearAttentionLayer.lazy_initialization(self, conv_states=conv_states, conv_kernel_size=conv_kernel_size)
        if not self.has_previous_state:
            full = conv_states
            self.has_previous_state = True
            if full.shape[-1] < self.conv_kernel_size:
                full = torch.nn.functional.pad(full, (self.conv_kernel_size - full.shape[-1], 0), value=0)
        else:
            full = torch.cat([self.conv_states, conv_states], dim=-1)
        self.conv_states.copy_(full[..., -self.conv_kernel_size :])
        return full

    def update_recurrent_state(self, recurrent_states):
        if self.recurrent_states is None:
            LinearAttentionLayer.lazy_initialization(self, recurrent_states=recurrent_states)
        self.recurrent_states.copy_(recurrent_states)
        return self.recurrent_states

    def is_new(self):
        return self.conv_states is None and self.recurrent_states is None

    def stored(self):
        return tuple(states for states in (self.conv_states, self.recurrent_states) if states is not None)

    def store(self, tokens, conv_states, recurrent_states=None):
        self.conv_states, self.recurrent_states, self.has_previous_state = conv_states, recurrent_states, True
        self.conv_kernel_size = conv_states.shape[-1]

    def skip(self, tokens):
        pass


class LinearAttentionAndFullAttentionLayer(LinearAttentionLayer, DynamicLayer):
    def __init__(self):
        DynamicLayer.__init__(self)
        LinearAttentionLayer.__init__(self)

    def lazy_initialization(self, *of, **states):
        (LinearAttentionLayer if states else DynamicLayer).lazy_initialization(self, *of, **states)

    def is_new(self):
        return LinearAttentionLayer.is_new(self) and DynamicLayer.is_new(self)

    def stored(self):
        return DynamicLayer.stored(self) + LinearAttentionLayer.stored(self)

    def store(self, tokens, keys, values, *states):
        DynamicLayer.store(self, tokens, keys, values)
        LinearAttentionLayer.store(self, tokens, *states)

    def skip(self, tokens):
        DynamicLayer.skip(self, tokens)


class DummyLayer:
    """Of a layer without attention."""

    is_sliding, is_heard, keys, values = False, True, None, None

    def is_new(self):
        return True

    def stored(self):
        return ()

    def store(self, tokens):
        pass

    def skip(self, tokens):
        pass


LAYERS = {"sliding_attention": DynamicSlidingWindowLayer, "linear_attention": LinearAttentionLayer, "conv": LinearAttentionLayer,
          "hybrid": LinearAttentionAndFullAttentionLayer, "moe": DummyLayer, "mlp": DummyLayer}


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

    def hears(self, layer_idx):
        """What a layer's forward stores may be told by stored(), and stored again without it (natives/heard.c); 0: not so. It may ask the first one, too."""
        layer = self.layers[layer_idx] if layer_idx < len(self.layers) else None
        return 1 + self.layers[0].is_new() if getattr(layer, "is_heard", False) and layer.is_new() else 0

    def stored(self, layer_idx):
        return self.layers[layer_idx].stored()

    def store(self, layer_idx, tokens, *states):
        self.layers[layer_idx].store(tokens, *states)

    def get_conv_state(self, layer_idx):
        layer = self.layers[layer_idx]
        return layer.conv_states if layer.has_previous_state else None

    def get_recurrent_state(self, layer_idx):
        layer = self.layers[layer_idx]
        return layer.recurrent_states if layer.has_previous_state else None

    def update_conv_state(self, conv_states, layer_idx, **how):
        return self.layers[layer_idx].update_conv_state(conv_states, **how)

    def update_recurrent_state(self, recurrent_states, layer_idx):
        return self.layers[layer_idx].update_recurrent_state(recurrent_states)

    def has_previous_state(self):
        return [layer.has_previous_state for layer in self.layers if isinstance(layer, LinearAttentionLayer)][-1]

    def _with_length(self, layer_idx):
        """The first layer that tells how much was seen, where the one that is asked for does not."""
        if layer_idx == 0 and not hasattr(self.layers[0], "get_seq_length"):
            return [layer for layer in self.layers if hasattr(layer, "get_seq_length")][0]
        return self.layers[layer_idx]

    def get_seq_length(self, layer_idx=0):
        return self._with_length(layer_idx).get_seq_length() if layer_idx < len(self.layers) else 0

    def get_query_offset(self, layer_idx=0):
        return self.get_seq_length(layer_idx)

    def get_mask_sizes(self, query_length, layer_idx):
        return self._with_length(layer_idx).get_mask_sizes(query_length) if layer_idx < len(self.layers) else (query_length, 0)

    def to_legacy_cache(self):
        return tuple((layer.keys, layer.values) for layer in self.layers)

    @property
    def is_sliding(self):
        return [layer.is_sliding for layer in self.layers]


def layer_kinds(config):
    """get_layer_types_and_kwargs(): the kind and the window of each layer."""
    kinds, window = getattr(config, "layer_types", None), getattr(config, "sliding_window", None)
    if kinds is None:
        kinds = ["full_attention" if window is None else "sliding_attention"] * config.num_hidden_layers
    sharing = getattr(config, "sharing", None)
    if sharing is not None:  # layers that reuse others' keys have none
        kinds = ["mlp" if sharing(i) == "reuse" else kind for i, kind in enumerate(kinds)]
    return kinds, window


class DynamicCache(Cache):
    def __init__(self, config=None, max_cache_len=None):
        kinds, window = ([], None) if config is None else layer_kinds(config)
        super().__init__([LAYERS[kind](window) if kind == "sliding_attention" else LAYERS.get(kind, DynamicLayer)() for kind in kinds])


class StaticCache(Cache):
    is_compileable = True

    def __init__(self, config, max_cache_len):
        kinds, window = layer_kinds(config)
        if any(kind not in ("full_attention", "sliding_attention") for kind in kinds):
            refuse("/inference", "a static cache of layers with states or chunks is not modelled yet")
        super().__init__([StaticLayer(max_cache_len) if kind == "full_attention" else StaticSlidingWindowLayer(max_cache_len, window) for kind in kinds])


class QuantizedCache(Cache):
    def __init__(self, config, max_cache_len=None):
        if any(kind != "full_attention" for kind in layer_kinds(config)[0]):
            refuse("/inference", "QuantizedCache is only supported for models with only full attention layers")
        super().__init__([Fp8QuantizedLayer() for _ in range(config.num_hidden_layers)])


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
