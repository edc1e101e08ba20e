"""Operators that a model registers for compilers."""
from _script import leave

from torch import is_grad_enabled, is_tensor, no_grad
from torch.autograd import Function


def _nothing(*args, **kwargs):
    pass


def _kept(self, *args, **kwargs):
    """register_fake(fn), register_kernel("cuda"): what other devices and compilers are told"""
    return args[0] if args and callable(args[0]) else lambda fn: fn


class _CustomOp:
    """torch/_library/custom_ops.py CustomOpDef: forward without a graph; backward is what register_autograd() was given"""

    def __init__(self, name, fn):
        self._name, self._fn, self._function = name, fn, None

    def __call__(self, *args, **kwargs):
        if not (is_grad_enabled() and any(is_tensor(a) and a.requires_grad for a in (*args, *kwargs.values()))):
            with no_grad():
                return self._fn(*args, **kwargs)
        if len(kwargs) > 1:
            leave(f"the operator {self._name} by several keywords where a gradient passes")
        args = (*args, *kwargs.values())
        if self._function is None:
            leave(f"the operator {self._name} where a gradient passes: it has no autograd formula")
        return self._function.apply(*args)

    register_fake = register_kernel = register_vmap = register_torch_dispatch = _kept

    def register_autograd(self, backward, /, *, setup_context=None):
        op = self

        class Generated(Function):
            @staticmethod
            def forward(ctx, *args):
                result = op._fn(*args)
                if setup_context is not None:
                    setup_context(ctx=ctx, inputs=args, output=result)
                return result

            @staticmethod
            def backward(ctx, *grads):
                return backward(ctx, *grads)

        self._function = Generated


_ops = {}  # those that are called by name: torch.ops.NAMESPACE.NAME


def custom_op(name, fn=None, /, *, mutates_args=(), device_types=None, schema=None, **kwargs):
    if fn is None:
        return lambda fn: custom_op(name, fn)
    _ops[name] = op = _CustomOp(name, fn)
    return op


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    (_ops[op] if isinstance(op, str) else op).register_autograd(backward, setup_context=setup_context)


def register_fake(op, func=None, /, **kwargs):
    return func if func is not None else lambda fn: fn


impl = impl_abstract = register_kernel = register_fake
define = _nothing
