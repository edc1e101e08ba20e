"""torch/utils/checkpoint.py beside checkpoint()."""
import torch


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    if use_reentrant is None:
        use_reentrant = True

    def run_function(start, end, functions):
        def forward(input):
            for j in range(start, end + 1):
                input = functions[j](input)
            return input

        return forward

    if isinstance(functions, torch.nn.Sequential):
        functions = list(functions.children())
    segment_size = len(functions) // segments
    end = -1
    for start in range(0, segment_size * (segments - 1), segment_size):
        end = start + segment_size - 1
        input = checkpoint(run_function(start, end, functions), input, use_reentrant=use_reentrant)
    return run_function(end + 1, len(functions) - 1, functions)(input)


def _trains(func):
    """Whether a parameter of a layer is trained; func: partial(forward, layer), partial(layer.__call__) or layer.__call__."""
    module = func.__self__ if not hasattr(func, "func") else func.args[0] if func.args else func.func.__self__
    return any(p.requires_grad for p in module.parameters())


def _checkpoint_trained(inner, func, args):
    """LLaMA-Factory 0.9.5 model/model_utils/checkpointing.py get_custom_gradient_checkpointing_func()"""
    if not _trains(func):
        return func(*args)
    for arg in args:
        if torch.is_tensor(arg) and torch.is_floating_point(arg):
            arg.requires_grad_(True)
            break
    return inner(func, *args)


def checkpoint_trained(func, *args):
    return _checkpoint_trained(checkpoint_kept, func, args)


def checkpoint_trained_reentrant(func, *args):
    return _checkpoint_trained(checkpoint_reentrant, func, args)
