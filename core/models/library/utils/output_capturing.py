"""Hidden states and attentions are not asked for in training; router logits are, and live as long as what forward returns."""
from functools import wraps


def capture_outputs(forward=None, tie_last_hidden_states=True):
    def wrapped(forward):
        @wraps(forward)
        def wrapper(self, *args, **kwargs):
            return_dict = kwargs.pop("return_dict", getattr(self.config, "return_dict", True))
            recorded = [] if kwargs.get("output_router_logits", getattr(self.config, "output_router_logits", False)) else None
            routers = [] if recorded is None else [module for module in self.modules() if hasattr(module, "recorded")]
            for router in routers:
                router.recorded = recorded
            outputs = forward(self, *args, **kwargs)
            for router in routers:
                router.recorded = None
            if recorded is not None:
                outputs["router_logits"] = tuple(recorded)
            if return_dict is False:
                outputs = outputs.to_tuple()
            return outputs

        return wrapper

    return wrapped if forward is None else wrapped(forward)
