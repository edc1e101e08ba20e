"""Methods of nn.Module that are shorter in the language: the module is their first argument."""
from _script import leave, set_plain
from copy import deepcopy

import torch
from torch.nn import Module, ModuleDict, Parameter


def _walk(self, prefix, seen):
    if id(self) in seen:
        return
    seen.add(id(self))
    yield prefix, self
    for name, child in self.named_children():
        yield from _walk(child, prefix + "." + name if prefix else name, seen)


def named_modules(self, memo=None, prefix="", remove_duplicate=True):
    return _walk(self, prefix, set())


def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
    seen = set()
    for path, module in _walk(self, prefix, set()) if recurse else [(prefix, self)]:
        for name, value in module.__dict__.items():
            if isinstance(value, Parameter) and id(value) not in seen:
                seen.add(id(value))
                yield path + "." + name if path else name, value


def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
    seen = set()
    for path, module in _walk(self, prefix, set()) if recurse else [(prefix, self)]:
        own = [id(buffer) for buffer in module.buffers(recurse=False)]
        for name, value in module.__dict__.items():
            if id(value) in own and id(value) not in seen:
                seen.add(id(value))
                yield path + "." + name if path else name, value


def extra_repr(self):
    return ""


def get_submodule(self, target):
    found = self
    for name in target.split(".") if target else []:
        below = dict(found.named_children())
        if name not in below:
            raise AttributeError(f"{type(found).__name__} has no attribute `{name}`")
        found = below[name]
    return found


def get_parameter(self, target):
    path, _, name = target.rpartition(".")
    return getattr(get_submodule(self, path), name)


get_buffer = get_parameter


def deep_copied(self, memo):
    """copy.deepcopy(): attributes in their order, parameters and buffers of their own"""
    made = memo[id(self)] = self._bare()
    buffers = [id(buffer) for buffer in self.buffers(recurse=False)]
    for name, value in self.__dict__.items():
        again = deepcopy(value, memo)
        if id(value) in buffers:
            made.register_buffer(name, again)
        elif value is None or not isinstance(value, (Parameter, Module)):
            set_plain(made, name, again)
        else:
            setattr(made, name, again)
    for name, child in self.named_children():
        if name not in self.__dict__ and isinstance(self, ModuleDict):
            made[name] = deepcopy(child, memo)
        elif name not in self.__dict__:
            made.append(deepcopy(child, memo))
    return made


def requires_grad_(self, requires_grad=True):
    for p in self.parameters():
        p.requires_grad_(requires_grad)
    return self


def _itself(self, *args, **kwargs):
    return self


def half(self):
    return self.to(torch.float16)


def bfloat16(self):
    return self.to(torch.bfloat16)


def float(self):
    return self.to(torch.float32)


def double(self):
    return self.to(torch.float64)


cuda = compile = _itself


def zero_grad(self, set_to_none=True):
    pass


def _heard(self, *args, **kwargs):
    """Hooks on loading and saving: a step does neither."""


_register_load_state_dict_pre_hook = register_load_state_dict_pre_hook = register_load_state_dict_post_hook = _heard
_register_state_dict_hook = register_state_dict_pre_hook = register_state_dict_post_hook = _heard


class _Handle:
    """torch/utils/hooks.py RemovableHandle"""

    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook

    def remove(self):
        self.hooks.remove(self.hook)


def hooked_with(self, hook, before):
    if "_own_hooks" not in self.__dict__:
        set_plain(self, "_own_hooks", ([], []))
    hooks = self._own_hooks[not before]
    hooks.append(hook)
    return _Handle(hooks, hook)


def call_hooked(self, args, kwargs):
    """module.py _call_impl"""
    before, after = self._own_hooks
    for hook in [*before]:
        changed = hook(self, args)
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    result = self._unhooked(*args, **kwargs)
    for hook in [*after]:
        changed = hook(self, args, result)
        if changed is not None:
            result = changed
    return result
