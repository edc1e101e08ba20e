"""Decorators that write documentation: what they are given comes back."""


def _itself(*args, **kwargs):
    def decorated(thing):
        return thing

    return decorated


def auto_docstring(obj=None, **kwargs):
    return _itself() if obj is None else obj


add_start_docstrings = add_start_docstrings_to_model_forward = add_end_docstrings = add_code_sample_docstrings = _itself
replace_return_docstrings = auto_class_docstring = _itself


def copy_func(function):
    return function
