"""What a cache holds of each layer, for engines that keep it in blocks."""


def latent_width(config):
    """Of multi-head latent attention: one vector of a token for all heads, and the rotated part beside it."""
    rank = getattr(config, "kv_lora_rank", None)
    return 0 if rank is None else rank + config.qk_rope_head_dim


def layers_of(loop):
    """Five numbers of a layer that keeps keys: heads, width of a key, of a value, the window (0: none), 1 where states stand beside or instead."""
    latent, told = latent_width(loop.model.config), []
    for layer in loop.cache.layers:
        states = 1 if getattr(layer, "conv_states", None) is not None or getattr(layer, "recurrent_states", None) is not None else 0
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None and not states:
            continue
        window = layer.sliding_window if layer.is_sliding else 0
        if keys is None:
            told += [0, 0, 0, 0, states]
        elif latent:
            told += [1, latent, 0, window, states]
        else:
            told += [keys.shape[1], keys.shape[3], values.shape[3], window, states]
    return told
