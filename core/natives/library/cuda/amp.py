import functools

import torch.amp
from torch import autocast


def custom_fwd(fwd=None, *, cast_inputs=None):
    return functools.partial(torch.amp.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd):
    return functools.partial(torch.amp.custom_bwd, device_type="cuda")(bwd)
