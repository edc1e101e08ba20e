"""The layer that checkpoints itself, by earlier releases: its whole __call__, with the hooks."""
from transformers.releases import layers_wrapped, quirks


def checkpointing(model, layer):
    """The function that checkpoints a layer. Where layers return router logits, a reentrant graph has them among its results, with their gradients."""
    checkpoint = model._gradient_checkpointing_func
    routers = [module for module in layer.modules() if hasattr(module, "recorded")] if quirks.layers_return_logits else []
    if not routers or routers[0].recorded is None:
        return checkpoint

    def checkpointed(run, *args):
        def told(*args):
            logits = []
            for router in routers:
                router.recorded = logits
            try:  # what runs again may stop early
                return (run(*args), *logits)
            finally:
                for router in routers:
                    router.recorded = None

        recorded = routers[0].recorded
        result, *logits = checkpoint(told, *args)
        recorded.extend(logits)
        for router in routers:
            router.recorded = recorded
        return result

    return checkpointed


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
                return checkpointing(self, self)(partial(super().__call__, **kwargs), *args)
            return super().__call__(*args, **kwargs)
