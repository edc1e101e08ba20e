"""What a cache holds of each layer, for engines that keep it in blocks."""

CONVOLUTION, MAMBA, MAMBA2, DELTA = 1, 2, 3, 4


def latent_width(config):
    """Of multi-head latent attention: one vector of a token for all heads, and the rotated part beside it."""
    rank = getattr(config, "kv_lora_rank", None)
    return 0 if rank is None else rank + config.qk_rope_head_dim


def first_of(config, *names):
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return None


def states_in_full(config):
    """vLLM's model_executor/models/config.py: NemotronHForCausalLMConfig, Qwen3_5ForConditionalGenerationConfig."""
    if config.model_type == "nemotron_h":
        return getattr(config, "mamba_ssm_cache_dtype", "float32") == "float32"
    return config.model_type.startswith("qwen3_5") and getattr(config, "mamba_ssm_dtype", None) == "float32"


def states_of(layer, config):
    """Eight numbers: the kind, channels of the convolution and columns of it that stay, heads of the state and elements of each, groups and channels of each, tokens of a chunk."""
    conv, state = getattr(layer, "conv_states", None), getattr(layer, "recurrent_states", None)
    if conv is None:
        return [0] * 8
    told = [conv.shape[1], conv.shape[2] - 1]
    if state is None:
        return [CONVOLUTION] + told + [0] * 5
    if len(state.shape) == 3:
        return [MAMBA] + told + [state.shape[1], state.shape[2], 0, 0, 0]
    each = state.shape[2] * state.shape[3]
    if getattr(config, "linear_num_value_heads", None) is not None:
        return [DELTA] + told + [state.shape[1], each, 0, 0, 64]
    return [MAMBA2] + told + [state.shape[1], each, first_of(config, "mamba_n_groups", "n_groups") or 1, 2 * state.shape[3],
                              first_of(config, "mamba_chunk_size", "chunk_size") or 256]


def layers_of(loop):
    """Of a layer that keeps something: heads, width of a key, of a value, the window (0: none), what states_of() says, 1 where the state is in fp32."""
    config = loop.model.config
    config = getattr(config, "text_config", None) or config
    latent, told = latent_width(config), []
    for layer in loop.cache.layers:
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        states = states_of(layer, config)
        if keys is None and not states[0]:
            continue
        window = layer.sliding_window if layer.is_sliding else 0
        if keys is None:
            told += [0, 0, 0, 0]
        elif latent:
            told += [1, latent, 0, window]
        else:
            told += [keys.shape[1], keys.shape[3], values.shape[3], window]
        told += states + [1 if states_in_full(config) else 0]
    return told
