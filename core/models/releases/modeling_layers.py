"""The layer that checkpoints itself, by earlier releases: its whole __call__, with the hooks."""
from transformers.releases import layers_wrapped, quirks

if not quirks.checkpoint_keywords:
    GradientCheckpointingLayer = nn.Module  # the model checkpoints

elif not quirks.checkpoints_forward_alone and not layers_wrapped:

    class GradientCheckpointingLayer(nn.Module):
        gradient_checkpointing = False

        def __call__(self, *args, **kwargs):
            if self.gradient_checkpointing and self.training:
                if kwargs.get("use_cache"):
                    kwargs["use_cache"] = False
                for name in ("past_key_values", "layer_past"):
                    if kwargs.get(name) is not None:
                        kwargs[name] = None
                return self._gradient_checkpointing_func(partial(super().__call__, **kwargs), *args)
            return super().__call__(*args, **kwargs)
