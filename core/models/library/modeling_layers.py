"""A layer that checkpoints its forward, modeling_layers of transformers 5: the hooks of __call__ stay outside."""
from functools import partial, wraps

from torch import nn


class GradientCheckpointingLayer(nn.Module):
    gradient_checkpointing = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.checkpoint_forward()

    @classmethod
    def checkpoint_forward(cls):
        forward = cls.forward

        @wraps(forward)
        def checkpointed(self, *args, **kwargs):
            if self.gradient_checkpointing and self.training and type(self).forward is checkpointed:
                if kwargs.get("use_cache"):
                    kwargs["use_cache"] = False
                for name in ("past_key_values", "layer_past"):
                    if kwargs.get(name) is not None:
                        kwargs[name] = None
                return self._gradient_checkpointing_func(partial(forward, self, **kwargs), *args)
            return forward(self, *args, **kwargs)

        cls.forward = checkpointed
