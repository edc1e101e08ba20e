"""Causal convolutions by earlier releases."""
from transformers.releases import quirks, refuse

if not quirks.mixer_of_functions:

    def apply_mask_to_padding_states(hidden_states, attention_mask):
        if attention_mask is not None and attention_mask.shape[1] > 1 and attention_mask.shape[0] > 1:
            dtype = hidden_states.dtype
            hidden_states = (hidden_states * attention_mask[:, :, None]).to(dtype)
        return hidden_states

    def convolve(module, x, conv_state, cache, conv=None, held=None):
        """The module itself; what the next token needs of x is a tensor of its own, which the cache keeps or copies."""
        conv, seq_len = module.conv1d if conv is None else conv, x.shape[-1]
        if conv_state is not None:
            refuse("/stack/transformers", "tokens after the prompt, from states of a convolution and of a scan, are modelled from transformers 5.15 on")
        if cache is not None:
            left = F.pad(x, (module.conv_kernel_size - seq_len, 0))
            if held is not None and quirks.left_outlives:
                held.append(left)
            left = cache.update_conv_state(left, module.layer_idx)
        out = conv(x)[:, :, :seq_len]
        return out if module.activation is None else ACT2FN[module.activation](out)


if quirks.causal_conv1d_installed:
    if not quirks.mixer_of_functions:
        refuse("/stack/causal_conv1d", "its kernels are modelled from transformers 5.15 on")
    from transformers.scans.causal_conv1d import causal_conv1d_fn

    def causal_conv1d_update(*args, **kwargs):
        refuse("/stack/causal_conv1d", "what causal-conv1d keeps for the next token is not modelled: left out, PyTorch's own operators run")
