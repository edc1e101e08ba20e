from torch import autocast

from . import autocast_mode
from .autocast_mode import custom_bwd, custom_fwd
