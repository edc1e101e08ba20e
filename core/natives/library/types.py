from torch import device, dtype

_device, _dtype = device, dtype
