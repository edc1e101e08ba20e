"""Fields that check what they are given: the default is what is left of them."""
from dataclasses import field


def interval(min=None, max=None, exclude_min=False, exclude_max=False):
    def made(default, **kwargs):
        return field(default=default, **kwargs)

    return made


def probability(default, **kwargs):
    return field(default=default, **kwargs)


positive_int_field = activation_fn_key = tensor_type_validator = label_to_id_validation = probability
