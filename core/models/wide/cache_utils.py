"""What caches of before 5 have beside."""
from json import _Refused


class _Legacy:
    @classmethod
    def from_legacy_cache(cls, past_key_values=None, **kwargs):
        cache = cls()
        for index, (keys, values) in enumerate(past_key_values or ()):
            cache.update(keys, values, index)
        return cache

    def to_legacy_cache(self):
        return tuple((layer.keys, layer.values) for layer in self.layers)

    def get_usable_length(self, new_seq_length, layer_idx=0):
        return self.get_seq_length(layer_idx)

    def get_max_length(self):
        return None

    get_max_cache_shape = get_max_length

    @property
    def seen_tokens(self):
        return self.get_seq_length()

    @property
    def key_cache(self):
        return [layer.keys for layer in self.layers]

    @property
    def value_cache(self):
        return [layer.values for layer in self.layers]


for _name, _member in list(_Legacy.__dict__.items()):
    if not _name.startswith("__") and not hasattr(Cache, _name):
        setattr(Cache, _name, _member)
        if not hasattr(DynamicCache, _name):
            setattr(DynamicCache, _name, _member)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("transformers.cache_utils." + name)
